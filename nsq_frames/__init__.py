"""The codec of the NSQ protocol V2: bytes to runs of commands, and messages to frames. Sans-IO.

Begin with `commands.py`. A run of publishes becomes an ordinary batch of persistent AMQP publishes
(`publishes.py`), so that nothing behind the reader knows which protocol a message came in.
"""
