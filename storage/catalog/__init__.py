"""The catalog: vhosts, exchanges, queues, bindings, users and permissions, in SQLite.

Begin with catalog.py.
"""
