"""Metrics as Prometheus reads them: RabbitMQ's, under its names, and Leveret's own.

rabbitmq.py and own.py say which metrics there are, scrape.py what of them a request asks for,
exposition.py writes them as text.
"""
