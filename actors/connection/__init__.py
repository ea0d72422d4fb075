"""One client's connection: its listener, reader and writer, the login and the end of it.

Owns the sockets. The rules of handshake, windows and outlets are core/connection/'s; channels are
channel/'s. Begin with reader.py.
"""
