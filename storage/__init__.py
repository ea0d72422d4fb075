"""Durability over files: the journal of messages, the catalog of everything else.

Knows no actor and no thread. files.py is the seam to the disk, on which tests crash. Begin with
stores.py, which opens both; docs/JOURNAL.md draws the bytes.
"""
