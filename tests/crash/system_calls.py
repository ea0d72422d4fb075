"""A broker's system calls, as strace prints them, in the order in which they happened.

strace stops the broker at the begin and at the end of every call and writes a line for each, so
"this call had returned before that one began" can be read from the order of the lines. A call that
was begun and not yet done when another thread's came gives two lines.
"""

from __future__ import annotations

import re
import shutil
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import pytest

SOCKET_CALLS = ("read", "readv", "recvfrom", "recvmsg", "write", "writev", "sendto", "sendmsg")
FILE_CALLS = ("pwrite64", "pwritev", "fdatasync", "fsync", "openat", "unlink", "unlinkat")
INPUT = ("read", "readv", "recvfrom", "recvmsg")
OUTPUT = ("write", "writev", "sendto", "sendmsg", "pwrite64", "pwritev")
SYNC = ("fdatasync", "fsync")

# In the paths of what calls are about.
SOCKET = "socket:"
JOURNAL = ".journal"
CATALOG = "catalog.sqlite-wal"

_LINE = re.compile(r"(\d+) +(\d+\.\d+) (.*)")
_RESUMED = re.compile(r"<\.\.\. (\w+) resumed>(.*)")
_DONE = re.compile(r"(\w+)\((.*)\) += (-?\d+).* <(\d+\.\d+)>")
_BEGUN = re.compile(r"(\w+)\((.*) <unfinished \.\.\.>")
_FILE = re.compile(r"(?:\d+|AT_FDCWD)<([^>]*)>")
_STRING = re.compile(r'"((?:\\x[0-9a-f]{2})*)"')
_DIRECTORY = re.compile(r"/[0-9]{20}\.journal$")

needs_strace = pytest.mark.skipif(shutil.which("strace") is None, reason="strace is not installed")


class Call(NamedTuple):
    """A system call: where in the trace it began and was done, what it moved, what it gave."""

    name: str
    # The file or socket, by its path.
    path: str
    # For openat the name that was opened.
    data: bytes
    begun: int
    done: int
    begun_seconds: float
    done_seconds: float
    result: int
    arguments: str

    @property
    def is_journal(self) -> bool:
        """Is it about a segment of the journal?"""
        return self.path.endswith(JOURNAL)

    @property
    def is_socket(self) -> bool:
        """Is it about a connection?"""
        return self.path.startswith(SOCKET)


def strace(trace: Path, *more: str) -> tuple[str, ...]:
    """The command to run a broker under."""
    calls = ",".join(SOCKET_CALLS + FILE_CALLS)
    return ("strace", "-f", "-ttt", "-T", "-y", "-xx", "-s", "1000000", "-o", str(trace), *more) + (
        () if any("trace=" in word for word in more) else ("-e", f"trace={calls}")
    )


class Trace:
    """A trace to be asked what came first behind a line."""

    def __init__(self, file: Path) -> None:
        self.calls = calls_of(file)
        self._done = [call.done for call in self.calls]

    def first(self, after: int, names: Sequence[str], path: str, data: bytes = b"") -> Call:
        """The first of these calls that begins behind line `after`, has `path` in its path, moves
        `data` and does not fail.
        """
        for call in self.calls[bisect_right(self._done, after) :]:
            if call.name in names and call.begun > after and call.result >= 0:  # noqa: SIM102
                if path in call.path and data in call.data:
                    return call
        raise AssertionError(f"none of {names} on {path} with {data!r} behind line {after}")

    def synced_answer(
        self, after: int, question: bytes, answer: bytes, file: str, written: bytes
    ) -> tuple[Call, Call, Call]:
        """The receipt of `question` behind line `after`, the sync it led to, and its `answer`.

        Between the two, `written` has been written to `file` and a sync of it has returned.
        """
        received = self.first(after, INPUT, SOCKET, question)
        answered = self.first(received.done, OUTPUT, SOCKET, answer)
        write = self.first(received.done, OUTPUT, file, written)
        synced = self.first(write.done, SYNC, write.path)
        assert synced.done < answered.begun, f"{question!r} was answered before its sync"
        return received, synced, answered


def calls_of(trace: Path) -> list[Call]:
    """All calls that were done, by the order in which they were."""
    begun: dict[str, tuple[int, float, str]] = {}
    calls: list[Call] = []
    with trace.open() as lines:
        for number, line in enumerate(lines):
            found = _LINE.match(line)
            if found is None:
                continue
            thread, seconds, text = found[1], float(found[2]), found[3]
            if (unfinished := _BEGUN.fullmatch(text)) is not None:
                begun[thread] = (number, seconds, f"{unfinished[1]}({unfinished[2]}")
                continue
            start = number
            if (resumed := _RESUMED.match(text)) is not None:
                start, seconds, head = begun.pop(thread)
                text = head + resumed[2]
            if (call := _DONE.match(text)) is not None:
                when = (start, number, seconds, seconds + float(call[4]))
                calls.append(_call(call[1], call[2], int(call[3]), *when))
    return calls


def _call(
    name: str, arguments: str, result: int, begun: int, done: int, first: float, last: float
) -> Call:
    file = _FILE.search(arguments)
    path = _plain(file[1]) if file else ""
    data = b"".join(bytes.fromhex(text.replace("\\x", "")) for text in _STRING.findall(arguments))
    if name == "openat":
        path = data.decode()
    return Call(name, path, data, begun, done, first, last, result, arguments)


def _plain(path: str) -> str:
    """A path, which strace with -xx gives in hexadecimal."""
    if "\\x" not in path:
        return path
    return bytes.fromhex(path.replace("\\x", "")).decode(errors="replace")


class Disk:
    """Which bytes must survive a power cut: those that a sync has covered, in a file whose name
    the sync of its directory has covered.

    `take` the calls of a trace in order; `synced` gives, per call, the data that has just become
    safe.
    """

    def __init__(self) -> None:
        # Per segment: data written, each with the line where the write was done; is the name safe?
        self._written: dict[str, list[tuple[int, bytes]]] = {}
        self._named: dict[str, bool] = {}
        self.segments = 0

    def apply(self, call: Call) -> Iterator[bytes]:
        """Follow one call; data that is safe from here on."""
        if call.result < 0:
            return
        if call.name == "openat" and "O_CREAT" in call.arguments and call.is_journal:
            self.segments += 1
            self._named[call.path] = False
            self._written[call.path] = []
        elif call.name in OUTPUT and call.is_journal:
            self._written[call.path].append((call.done, call.data))
        elif call.name in SYNC and call.is_journal:
            assert self._named[call.path] or len(self._written[call.path]) == 1
            written = self._written[call.path]
            safe = [data for done, data in written if done < call.begun]
            self._written[call.path] = [each for each in written if each[0] >= call.begun]
            yield from safe
        elif call.name == "fsync":
            for path in self._named:
                if _DIRECTORY.sub("", path) == call.path:
                    self._named[path] = True
