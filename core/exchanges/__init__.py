"""The exchange types, and the routing table of a vhost.

A new type is a module like direct.py and a name in `BUILT_TYPES` of table.py; headers.py shows one
that routes by headers. Begin with exchange.py.
"""
