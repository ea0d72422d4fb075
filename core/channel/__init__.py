"""The rules of one channel: what it waits for, its consumers, deliveries and acks, its transaction.

Its publishing side is publishing/'s; the credit of its consumers, which its queues share, is
connection/channel_credit.py. Begin with waiting.py, then outstanding.py.
"""
