"""Leveret whose trace's disk stalls: its files are pipes that nobody reads.

    python -m benchmarks.stalled_trace serve --data-dir D

A pipe takes 64 KiB, then the write blocks for ever, as on a disk that has gone.
"""

from __future__ import annotations

import io
import os
import sys
from pathlib import Path

from leveret.commands.command_line import main
from leveret.logs.trace import files as trace_files


def create_pipe(path: Path) -> io.FileIO:
    """A file that nobody takes anything out of."""
    os.mkfifo(path, 0o600)
    # With a reader of its own, or opening it would wait for one already.
    return io.FileIO(os.open(path, os.O_RDWR), "w")


if __name__ == "__main__":
    trace_files.create_file = create_pipe
    sys.exit(main())
