"""What can keep a data directory from being used: errors of one line, for the operator."""

from __future__ import annotations


class StorageError(Exception):
    """The broker cannot start on this data directory; the text says why."""
