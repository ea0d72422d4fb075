"""The journal: one append-only log of segments for the node, and its recovery.

Begin with journal.py for writing, recovery.py for reading it again; records.py has the formats
and says what a new kind of record needs. The actor that owns a Journal is actors/disk/journal.py.
"""
