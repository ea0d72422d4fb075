"""Batches of messages: decoded from publishes, encoded as deliveries.

Begin with batch.py, the unit of the hot path; publishes.py decodes it and deliveries.py encodes
it. decoder.py, one folder up, divides a connection's bytes among them.
"""
