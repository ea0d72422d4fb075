"""The end of the process for want of memory: one line, without the log, and at once."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from timeouts import TIMEOUT_SECONDS

LAST_LINE = {"level": "error", "event": "broker.failed", "error": "out of memory"}


PROGRAM = """
import threading
from leveret.ending import ProcessEnd

class Log:
    def error(self, *_event, **_fields): raise MemoryError

class Fragile:
    def __del__(self): raise MemoryError

end = ProcessEnd(Log(), as_json=True)
end.watch_process()
"""
WAYS = {
    "an actor": "end.failed('an actor', MemoryError())",
    "the log": "end.failed('an actor', OSError(5, 'Input/output error'))",
    "a thread": "threading.Thread(target=lambda: bytes(1 << 62)).start()\ninput()",
    "a finalizer": "Fragile()",
    "many threads": "for _ in range(20): threading.Thread(target=end.out_of_memory).start()\n"
    "input()",
}


@pytest.mark.parametrize("way", WAYS)
def test_one_line_is_written_without_the_log_whatever_has_no_memory(way: str) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM + WAYS[way]],
        # What would wait for input waits for its end.
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        assert process.stderr is not None
        assert [json.loads(line) for line in process.stderr] == [LAST_LINE]
        assert process.wait() == 1


def test_a_log_that_nobody_reads_does_not_keep_it_from_ending() -> None:
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    try:
        while True:
            os.write(writing, bytes(4096))
    except BlockingIOError:
        os.set_blocking(writing, True)
    program = (
        "from leveret.ending import ProcessEnd\n"
        "ProcessEnd(None, as_json=True).failed('an actor', MemoryError())\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stderr=writing)
    try:
        assert process.wait(TIMEOUT_SECONDS) == 1
    finally:
        process.kill()
        process.wait()
        os.close(reading)
        os.close(writing)
