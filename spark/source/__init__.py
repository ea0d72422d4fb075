"""`spark.read` and `spark.readStream` of queues: acked after the commit, peeked at or drained.

Begin with source.py.
"""
