"""One channel: it numbers and routes publishes, answers them, and hands out deliveries.

The rules are core/channel/'s and core/publishing/'s; only the reader writes close methods
(connection/). Begin with channel.py.
"""
