"""Puts the targets of the fuzzer, and the helpers that they share with other folders, in place."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
# Sessions by hand, a disk in memory, and decoded events in a form to compare are of these folders.
SHARED = [HERE, *(HERE.parent / name for name in ("amqp_frames", "storage", "hostile", "crash"))]
sys.path[:0] = [str(each) for each in SHARED]
