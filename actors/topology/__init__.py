"""The broker actor, which declares, deletes and binds, and the catalog's thread behind it.

The rules are core/topology/'s, the tables storage/catalog.py's. Begin with broker.py.
"""
