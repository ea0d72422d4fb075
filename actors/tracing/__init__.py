"""Writes the actors' events into the trace at each hop of a message.

The ring and the files are logs/trace/'s. Begin with trace.py.
"""
