"""Requests of the command line and of HTTP clients to a running broker.

Sockets are opened by node/listening/. Begin with control.py or http_connection.py.
"""
