"""The journal's thread, and the watch over the disk's free space.

The file formats are storage/journal/'s. Begin with journal.py.
"""
