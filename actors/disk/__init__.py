"""The threads that wait for the disk, and the watch over its free space.

The file formats are storage/journal/'s. Begin with journal.py.
"""
