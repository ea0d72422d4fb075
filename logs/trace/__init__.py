"""Writing a trace: its events, their lines, the ring and the files.

Begin with events.py. A new event is a row there, the kinds of its new fields are in kinds.py, and
docs/TRACE.md has both; actors/tracing/ writes it.
"""
