"""The indexes of segments: files and columns that say anything, and verify.

Held to: facts or None, nothing else, and no more memory than the file's size allows; and a start
that finds a file with these octets beside its segment goes through, whatever they say.
"""

from __future__ import annotations

import functools
import zlib
from struct import Struct

from crashing_files import CrashingFiles
from isal.isal_zlib import crc32
from journals import DIRECTORY, in_three_segments, new_file, opened, written_step_by_step
from leveret.storage.journal.segment_facts import read_facts
from leveret.storage.journal.segment_files import segment_path
from leveret.storage.journal.segment_header import SegmentHeader
from leveret.storage.journal.segment_index import (
    decode_index,
    encode_index,
    index_path,
    may_be_indexed,
)
from leveret.storage.journal.segment_reader import SegmentReader
from octets import Octets

NAME = "indexes"
INPUT_BYTES_MAX = 2048
# As docs/JOURNAL.md and the module draw it.
_HEAD = Struct("<8sI16sQIIQQII")
_crc = Struct("<I")
# One input in so many is started on.
_STARTS = 16


@functools.cache
def indexed() -> list[tuple[dict[str, bytes], int, SegmentHeader, bytes]]:
    """Directories, each with a segment, its header, and its index."""
    step_by_step, _ = written_step_by_step(is_closed=True)
    three, _ = in_three_segments()
    found = []
    for files, number in ((step_by_step, 1), (three, 1), (three, 2)):
        path = segment_path(DIRECTORY, number)
        data = bytes(files.names[path].content)
        facts = read_facts(SegmentReader(data, number, bytes(16), path))
        assert may_be_indexed(facts)
        assert facts.header is not None
        directory = {name: bytes(file.content) for name, file in files.names.items()}
        found.append((directory, number, facts.header, encode_index(facts)))
    return found


def _columns(index: bytes) -> bytes:
    return zlib.decompress(index[_HEAD.size : -_crc.size])


def seeds() -> list[bytes]:
    """The columns of each, with a head that is true; and the files as they are."""
    wholes = [bytes((number,)) + _columns(each[3]) for number, each in enumerate(indexed())]
    return wholes + [bytes((number + 128,)) + each[3] for number, each in enumerate(indexed())]


def run(data: bytes) -> None:
    """One input; raises if a promise is broken."""
    octets = Octets(data)
    chosen = octets.number()
    directory, number, header, index = indexed()[chosen % 128 % len(indexed())]
    if chosen < 128:
        columns = octets.rest()
        *head, _ = _HEAD.unpack_from(index)
        made = _HEAD.pack(*head, len(columns)) + zlib.compress(columns, 1)
        made += _crc.pack(crc32(made))
    else:
        made = octets.rest()
    facts = decode_index(made, header)
    if facts is not None:
        encode_index(facts)
    if chosen // len(indexed()) % _STARTS:
        return
    files = CrashingFiles()
    for path, content in directory.items():
        new_file(files, path, content)
    new_file(files, index_path(DIRECTORY, number), made)
    opened(files)
