"""Leveret whose trace's disk stalls: what is written there goes into a pipe that nobody reads.

    python -m benchmarks.stalled_trace serve --data-dir D

The pipe takes 64 KiB, then the write blocks for ever, as on a disk that has gone.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import BinaryIO

from leveret.command_line import main
from leveret.logs import trace_files


def stalled(_path: Path) -> BinaryIO:
    """Give a file that nobody takes anything out of; its other end stays open."""
    _read_end, write_end = os.pipe()
    return os.fdopen(write_end, "wb", buffering=0)


if __name__ == "__main__":
    trace_files.create_file = stalled
    sys.exit(main())
