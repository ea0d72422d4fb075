"""Puts the targets of the fuzzer, and the helpers that they share with other folders, in place."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
# Sessions by hand, a disk in memory, and decoded events in a form to compare are of these folders.
_FOLDERS = ("amqp_frames", "nsq_frames", "storage", "hostile", "crash")
SHARED = [HERE, *(HERE.parent / name for name in _FOLDERS)]
sys.path[:0] = [str(each) for each in SHARED]
