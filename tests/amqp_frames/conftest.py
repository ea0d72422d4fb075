"""Hypothesis for the codec: no deadlines, which a busy machine would miss.

A failing property prints the line `@reproduce_failure(...)` that replays it.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile(
    "leveret", deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("leveret")
