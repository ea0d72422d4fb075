"""The exchange types, and the routing table of a vhost.

A new type: a module like topic.py, and its name in table.py. Begin with exchange.py.
"""
