"""Leveret measured from outside, side by side with other brokers, on one machine in one run."""
