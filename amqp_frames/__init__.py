"""The sans-IO codec of AMQP 0-9-1: bytes to frames, methods and batches, and back.

No socket, thread, clock or log. Total: any octets give a value, "need more" or an AmqpError with
the reply code to close with, never another exception. Read constants and errors first, then
field_table and properties, then methods (declared in methods_*.py, compiled by wire_types), then
batch, decoder and deliveries, which handle messages in numbers.
"""
