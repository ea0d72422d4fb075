"""Segments as files: their names, how one is made, and how a file is put out of the way."""

from __future__ import annotations

import os
import re
from typing import Final

from ..errors import NoSpaceError
from ..files import Files, create_file, write_all

# Far above what any broker gives a segment, and far below what 20 digits can say.
SEGMENT_NUMBER_MAX: Final = 10**18
# Behind the name of a file that is kept for a person to look at, and that no broker reads again.
ASIDE: Final = ".damaged"
# Behind the name of a segment's file: one that may stand in its place, and does not count yet.
REWRITTEN: Final = ".rewritten"

_NAME = re.compile(r"([0-9]{20})\.journal")


def segment_path(directory: str, number: int) -> str:
    """Names sort as numbers do."""
    return os.path.join(directory, f"{number:020d}.journal")


def names_in(files: Files, directory: str) -> list[str]:
    """The names in the directory; none if there is no directory yet."""
    try:
        return files.list_directory(directory)
    except FileNotFoundError:
        return []


def segment_numbers(files: Files, directory: str) -> list[int]:
    """The numbers in the names of segments, ascending; of files that are none, too."""
    names = map(_NAME.fullmatch, names_in(files, directory))
    return sorted(int(name[1]) for name in names if name)


def create_segment(files: Files, directory: str, number: int, header: bytes) -> int:
    """A new segment, open; its header and its name are on the disk.

    Something else that has the name, a directory for one, is set aside. NoSpaceError if the disk is
    full, and then there is no new segment.
    """
    path = segment_path(directory, number)
    try:
        handle = create_file(files, path)
    except FileExistsError:
        set_aside(files, directory, os.path.basename(path))
        handle = create_file(files, path)
    try:
        write_all(files, handle, 0, [header])
    except NoSpaceError:
        files.close(handle)
        files.remove(path)
        raise
    files.sync_data(handle)
    files.sync_directory(directory)
    return handle


def set_aside(files: Files, directory: str, name: str) -> str:
    """Give the file a name that no broker reads, which is returned; nothing is replaced."""
    taken = files.list_directory(directory)
    target, copies = name + ASIDE, 1
    while target in taken:
        copies += 1
        target = f"{name}{ASIDE}-{copies}"
    files.rename(os.path.join(directory, name), os.path.join(directory, target))
    return target
