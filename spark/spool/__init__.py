"""Ranges of a stream on the driver's disk, so that Spark can read them again after their ack.

Begin with spool.py.
"""
