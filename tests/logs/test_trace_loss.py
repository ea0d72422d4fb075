"""The service log reports events that the trace could not keep."""

from __future__ import annotations

import io

from leveret.logs.configure import service_log
from leveret.logs.trace.trace import LOSS_LOG_SECONDS_MIN, TraceLoss


def test_a_loss_is_logged_at_once_then_rarely_and_its_rest_when_it_is_over() -> None:
    now = 0.0
    log = io.StringIO()
    loss = TraceLoss(clock=lambda: now)
    loss.log = service_log(form="json", stream=log)
    for _ in range(10):
        loss.add(1)
    now = LOSS_LOG_SECONDS_MIN
    loss.add(1)
    loss.add(5)
    loss.tell(is_over=True)
    loss.tell(is_over=True)
    said = [line.partition('"dropped": ')[2] for line in log.getvalue().splitlines()]
    assert said == ['1, "dropped_total": 1}', '10, "dropped_total": 11}', '5, "dropped_total": 16}']
