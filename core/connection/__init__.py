"""The rules of one connection: handshake, limits on what it sends and is sent, its end.

Begin with handshake.py.
"""
