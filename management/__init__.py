"""The management HTTP API: RabbitMQ's paths, fields and status codes, beside Leveret's own.

server.py carries HTTP (aiohttp, on the node's loop) and guards it; api.py finds the resource,
checks the login and the tag, and answers; a resource is a row of a table in resources/. Coroutines
reach actors through asking.py, and change nothing themselves.
"""
