"""Definitions files, RabbitMQ's JSON of topology and accounts: read, planned, written.

document.py reads one, planning.py finds the changes that carry it out, writing.py makes one.
"""
