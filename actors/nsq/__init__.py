"""NSQ connections: each is one actor, reader and channel in one, beside the writer that AMQP has.

`connection.py` is the place to begin. Queues, journal and broker are told what AMQP channels tell
them, and know nothing of NSQ.
"""
