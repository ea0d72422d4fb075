"""Puts this folder's modules, and the model of the journal, where tests can import them."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "storage")]
