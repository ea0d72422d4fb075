"""Puts this folder's helpers, such as `crashing_files`, where its tests can import them."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
