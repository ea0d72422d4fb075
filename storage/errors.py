"""Errors of one line, for the operator, that keep a data directory from being used."""

from __future__ import annotations


class StorageError(Exception):
    """The broker cannot start on this data directory; the text says why."""


class NoSpaceError(StorageError):
    """A write met a full disk, or a quota that is used up. Nothing of it is there any more.

    Unlike other errors of a disk it is not final: the state of the disk is known.
    """

    def __init__(self, path: str | None) -> None:
        super().__init__("no space left on the disk" + (f": {path}" if path else ""))
