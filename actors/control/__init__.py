"""Requests of the command line and of HTTP clients to a running broker.

node/listening/ opens the sockets. The command line comes through the control socket (control.py),
HTTP clients through http_connection.py; a new HTTP resource is a row of http_resources.py.
"""
