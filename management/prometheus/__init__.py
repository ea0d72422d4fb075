"""Metrics as Prometheus reads them: RabbitMQ's, under its names, and Leveret's own.

node.py, channels.py, queues.py and messages.py have RabbitMQ's, own.py Leveret's own, asked.py the
choice of one request; exposition.py and texts.py make the text.
"""
