"""The recovery of a journal's directory: segments and `synced` that were damaged, or made up.

An input is a script: which directory to begin with, and what happens to its files. Beside damage of
any octets it can append records that verify and say anything, so that the rules behind the
checksums are reached. Held to: a start, or a StorageError with its sentence; a second start that
finds what the first one found; and no more memory or time than the directory's size allows.
"""

from __future__ import annotations

import functools
import os
from array import array
from unittest.mock import patch

from compactions import compact_all, compacted_in_pieces
from crashing_files import CrashingFiles
from journals import DIRECTORY, contents, in_three_segments, new_file, opened, written_step_by_step
from leveret.amqp_frames.messages.publishes import decode_publishes
from leveret.storage.belonging import CatalogClaims
from leveret.storage.errors import StorageError
from leveret.storage.journal import records
from leveret.storage.journal.identity_runs import Identities
from leveret.storage.journal.journal import CompactionRules
from leveret.storage.journal.opening import open_journal
from leveret.storage.journal.records import Seal
from leveret.storage.journal.recovery import Recovery
from leveret.storage.journal.segment_files import segment_path
from leveret.storage.journal.segment_header import SegmentEnd, SegmentHeader, Stretch, encode_header
from leveret.storage.journal.segment_reader import SegmentReader
from leveret.storage.journal.synced_file import SLOT_AT, Synced, encode_slot
from octets import Octets
from publishes import batch_of

NAME = "recovery"
INPUT_BYTES_MAX = 512
# Longer ones repeat themselves.
_STEPS_MAX = 12
_ZEROS = 100
# A list of a million segments only takes a second longer to be reported.
_LISTED_MAX = 40
# One input in so many is started on, twice; the others are read only.
_STARTS = 8
_SYNCED = os.path.join(DIRECTORY, "synced")
_DIRECTORY_ID = bytes(16)
_CLAIMS = CatalogClaims(frozenset((1, 2)), directory_id=_DIRECTORY_ID)

Directory = dict[str, bytes]


def _as_bytes(files: CrashingFiles) -> Directory:
    """With few of the zeros that the journal writes ahead: searching them takes most time."""
    return {
        path: bytes(file.content).rstrip(b"\0") + bytes(_ZEROS)
        for path, file in files.names.items()
    }


def _with_all_kinds() -> CrashingFiles:
    """A record of each kind that the journal writes, in two segments."""
    files = CrashingFiles()
    journal, _ = opened(files)
    batch = batch_of([b"a", b"bb", b"ccc"], 7, array("I", [0, 2]))
    identities = Identities(bytes(range(32)), 5000)
    journal.append(1, batch, array("I", [0, 2]), array("Q", [3, 5]), 9000, identities)
    journal.append(2, batch, range(2, 3), range(1, 2), due_times=8000)
    journal.commit()
    journal.delivered(1, [(3, 5)])
    journal.deferred(1, [(3, 3, 7000)])
    journal.commit()
    journal.settle(2, [(1, 1)], sync=True)
    journal.drop_identities(1, 4)
    journal.commit()
    files.kill()
    journal, _ = opened(files)
    journal.append(2, batch_of([b"d"], 8), range(1), range(2, 3))
    journal.commit()
    files.kill()
    return files


def _rewritten(is_installed: bool) -> CrashingFiles:
    """A segment that was rewritten, or is about to be: the replacement is there, and anchored."""
    files = CrashingFiles()
    rules = CompactionRules(live_share_max=0.5, segment_bytes_min=64)
    journal, _ = open_journal(DIRECTORY, files, {1, 2}, 3000, compaction=rules)
    for number in range(1, 33):
        journal.append(
            1, batch_of([b"%d" % number * 60], number), range(1), range(number, number + 1)
        )
        journal.commit()
        if number % 8:
            journal.settle(1, [(number, number)])
    journal.commit()
    if is_installed:
        assert compact_all(journal)
    else:
        for _ in compacted_in_pieces(journal):
            pass
    files.kill()
    return files


@functools.cache
def directories() -> list[Directory]:
    """To begin with."""
    step_by_step, _ = written_step_by_step()
    three, _ = in_three_segments()
    written = (step_by_step, three, _with_all_kinds(), _rewritten(True), _rewritten(False))
    return [{}, *map(_as_bytes, written)]


def seeds() -> list[bytes]:
    """Each directory as it is, and a step of each kind."""
    alone = [bytes((number,)) for number in range(len(directories()))]
    covered = b"\x03\x00\x01\x00\x00\x00\x01" + bytes(7) + b"\x09" + bytes(7) + bytes(4) + b"\x20"
    steps = [bytes((kind, 0)) + b"\x40\x01\x10" + covered + bytes(7) for kind in range(len(_STEPS))]
    return alone + [head + step for head in alone[1:] for step in steps]


def run(data: bytes) -> None:
    """One input; raises if a promise is broken."""
    octets = Octets(data)
    chosen = octets.number()
    directory = dict(directories()[chosen % len(directories())])
    for _ in range(_STEPS_MAX):
        if not octets.are_left:
            break
        _STEPS[octets.below(len(_STEPS))](directory, octets)
    files = CrashingFiles()
    for path, content in directory.items():
        new_file(files, path, content)
    with patch.object(records, "SEGMENTS_LISTED_MAX", _LISTED_MAX):
        try:
            if chosen // len(directories()) % _STARTS:
                _read(files)
                return
            _, first = opened(files)
        except StorageError:
            return
        files.kill()
        _, second = opened(files)
    assert contents(second) == contents(first)


def _read(files: CrashingFiles) -> None:
    """As a start reads the directory before it writes anything, and all messages."""
    recovery = Recovery(files, DIRECTORY, _CLAIMS, decode_publishes)
    recovery.read()
    recovered = recovery.recovered
    for _ in recovered.messages_of(recovered.queues.keys()):
        pass


# --- Steps


def _path(directory: Directory, octets: Octets) -> str:
    paths = sorted(directory)
    chosen = octets.number()
    return paths[chosen % len(paths)] if paths else segment_path(DIRECTORY, chosen)


def _flip(directory: Directory, octets: Octets) -> None:
    path = _path(directory, octets)
    content = bytearray(directory.get(path, b""))
    at, bits = octets.number(2), octets.number()
    if content:
        content[at % len(content)] ^= bits or 1
    directory[path] = bytes(content)


def _overwrite(directory: Directory, octets: Octets) -> None:
    path = _path(directory, octets)
    content = directory.get(path, b"")
    at = octets.number(2) % (len(content) + 1)
    piece = octets.piece(octets.number())
    directory[path] = content[:at] + piece + content[at + len(piece) :]


def _cut(directory: Directory, octets: Octets) -> None:
    path = _path(directory, octets)
    content = directory.get(path, b"")
    at = octets.number(2) % (len(content) + 1)
    count = octets.number()
    directory[path] = content[:at] + (content[at + count :] if count else b"")


def _remove(directory: Directory, octets: Octets) -> None:
    directory.pop(_path(directory, octets), None)


def _copy(directory: Directory, octets: Octets) -> None:
    source = _path(directory, octets)
    directory[segment_path(DIRECTORY, octets.number())] = directory.get(source, b"")


def _append(directory: Directory, octets: Octets) -> None:
    """Records that verify, behind the last that does."""
    path = _path(directory, octets)
    content = directory.get(path, b"")
    name = os.path.basename(path).partition(".")[0]
    number = int(name) if name.isdigit() else 1
    try:
        reader = SegmentReader(content, number, _DIRECTORY_ID, path)
        for _ in reader.records():
            pass
    except StorageError:
        return
    header = reader.header
    seal = Seal(_DIRECTORY_ID, reader.number, header.epoch if header else 1, reader.checksum)
    appended = b""
    for _ in range(octets.below(3) + 1):
        covered = octets.piece(octets.number())
        appended += seal.record(covered or b"\x08")
    directory[path] = content[: reader.end] + appended


def _begin(directory: Directory, octets: Octets) -> None:
    """A segment whose header verifies and says anything, with records behind it."""
    number = octets.number(octets.below(8) + 1)
    wide = octets.below(8) + 1
    numbers = [octets.number(wide) for _ in range(8)]
    present = [(octets.number(wide), octets.number(wide)) for _ in range(octets.below(4))]
    torn = [Stretch(*(octets.number(wide) for _ in range(3))) for _ in range(octets.below(3))]
    header = SegmentHeader(
        number,
        numbers[0],
        present,
        _DIRECTORY_ID if numbers[1] % 4 else b"x" * 16,
        numbers[2] & 0xFF,
        SegmentEnd(numbers[3], numbers[4], 0, numbers[5]),
        numbers[6],
        numbers[7],
        torn,
    )
    encoded, seal = encode_header(header)
    for _ in range(octets.below(4)):
        encoded += seal.record(octets.piece(octets.number()) or b"\x08")
    directory[segment_path(DIRECTORY, number if numbers[0] % 2 else octets.number())] = encoded


def _name_synced(directory: Directory, octets: Octets) -> None:
    """A slot of `synced` that verifies."""
    at = octets.below(2) * SLOT_AT
    wide = octets.below(8) + 1
    slot = encode_slot(Synced(_DIRECTORY_ID, *(octets.number(wide) for _ in range(5))))
    content = directory.get(_SYNCED, b"").ljust(at, b"\0")
    directory[_SYNCED] = content[:at] + slot + content[at + len(slot) :]


_STEPS = (_flip, _overwrite, _cut, _remove, _copy, _append, _append, _begin, _name_synced)
