"""`df.write.format("amqp")`: publishes rows with confirms.

Begin with sink.py, then publishing.py, which publishes one partition.
"""
