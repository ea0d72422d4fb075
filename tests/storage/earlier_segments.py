"""Segments as brokers of format versions 1 to 3 wrote them, byte by byte."""

from __future__ import annotations

from struct import pack
from zlib import crc32

from crashing_files import CrashingFiles
from journals import DIRECTORY, Contents, new_file
from leveret.storage.journal.records import (
    HEAD_BYTES,
    SETTLE,
    Seal,
    encode_body,
    encode_entries,
    encode_ranges,
)
from leveret.storage.journal.segment_files import segment_path
from leveret.storage.journal.segment_header import encode_prefix
from publishes import batch_of, kept


def record(sealed: bytes, segment_number: int) -> bytes:
    """A record of this version with the head of an earlier one."""
    covered = sealed[HEAD_BYTES:]
    return pack("<II", len(covered), crc32(covered, segment_number)) + covered


def header(number: int, version: int = 3, next_batch_number: int = 1) -> bytes:
    """Of the only segment that is there."""
    covered = pack("<BIQQQQ", 1, 1, number, next_batch_number, number, number)
    first = record(bytes(HEAD_BYTES) + covered, number)
    return encode_prefix(version, 20 + len(first)) + first


def written_step_by_step(version: int) -> tuple[CrashingFiles, list[tuple[int, Contents]]]:
    """As `journals.written_step_by_step`, in an earlier format."""
    content = header(1, version)
    seal = Seal(b"", 1, 1, 0)
    stages: list[tuple[int, Contents]] = [(len(content), {})]
    held: Contents = {}
    for number in (1, 2, 3):
        batch = batch_of([b"%d %d" % (number, index) for index in range(3)], number)
        batch.received_ns = 0
        body = record(b"".join(encode_body(seal, batch)), 1)
        for queue_id in (1, 2):
            ids = range(number * 3, number * 3 + 3)
            content += body + record(encode_entries(seal, queue_id, number, range(3), ids), 1)
            body = b""
            held = held | {(queue_id, number * 3 + i): kept(batch, i) for i in range(3)}
            stages.append((len(content), held))
    content += record(encode_ranges(seal, SETTLE, 1, [(3, 7)]), 1)
    held = {key: wire for key, wire in held.items() if key[0] != 1 or key[1] > 7}
    stages.append((len(content), held))
    files = CrashingFiles()
    new_file(files, segment_path(DIRECTORY, 1), content)
    return files, stages
