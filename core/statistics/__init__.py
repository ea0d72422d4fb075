"""Counters of messages, connections, channels and queues.

Begin with node_counts.py.
"""
