"""The sans-IO codec of AMQP 0-9-1: bytes to frames, methods and batches, and back.

No socket, thread, clock or log. Total: any octets give a value, "need more" or an AmqpError with
the reply code to close with, never another exception. Begin with constants.py and errors.py, then
values/ and properties.py, then methods/, then messages/ and decoder.py, which handle messages in
numbers.
"""
