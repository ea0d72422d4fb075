"""Which messages a trace may be asked for."""

from __future__ import annotations

import pytest
from leveret.logs.trace.trace import TraceError, TraceFilter


@pytest.mark.parametrize("rate", [0, -1, 1.5, 1e-320])
def test_a_bad_rate_is_refused(rate: float) -> None:
    with pytest.raises(TraceError, match="it must be above 0 and at most 1"):
        TraceFilter.with_rate(rate)
