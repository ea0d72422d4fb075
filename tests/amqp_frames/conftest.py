"""Hypothesis for the codec: no deadlines, which a busy machine would miss.

A failing property prints the line `@reproduce_failure(...)` that replays it. The helper `decoding`
is put where this folder's tests can import it.
"""

from __future__ import annotations

import sys
from pathlib import Path

from hypothesis import HealthCheck, settings

settings.register_profile(
    "leveret", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("leveret")

sys.path.insert(0, str(Path(__file__).parent))
