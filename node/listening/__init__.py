"""The sockets that a node listens on: AMQP plain and over TLS, HTTP, the control socket.

The actors (actors/) handle their protocols. Begin with listening.py.
"""
