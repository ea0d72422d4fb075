"""Puts this folder's helpers in place, and both forms of the codec, which are the AMQP codec's."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "amqp_frames")]
