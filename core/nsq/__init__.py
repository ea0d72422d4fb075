"""The rules of the NSQ protocol: how its topics and channels are exchanges and queues.

`topics.py` has the plans of all that changes a topic or a channel.
"""
