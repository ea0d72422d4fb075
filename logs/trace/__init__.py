"""Writing a trace: its events, their lines, the ring and the files.

Begin with events.py.
"""
