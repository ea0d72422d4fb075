"""Puts this folder's helpers, `crashing_files` and `publishes`, where its tests can import them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
