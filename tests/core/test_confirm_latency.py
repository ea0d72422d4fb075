"""How long confirms took, by whether they waited for the disk."""

from __future__ import annotations

from array import array

import pytest
from batches import numbered
from leveret.amqp_frames.messages.batch import Indexes
from leveret.core.statistics.confirm_latency import CONFIRM_SECONDS_BOUNDS, ConfirmLatency


@pytest.mark.parametrize(
    ("durable", "kind"),
    [
        (None, "persistent"),
        (range(3), "persistent"),
        (array("I", [1]), "persistent"),
        (range(0), "transient"),
    ],
)
def test_a_batch_counts_once_for_the_kind_of_its_slowest_message(
    durable: Indexes | None, kind: str
) -> None:
    latency = ConfirmLatency()
    batch = numbered(3)
    batch.durable, batch.received_ns = durable, 7_000_000
    latency.confirmed(batch, 9_000_000)
    counted, other = latency.persistent, latency.transient
    if kind == "transient":
        counted, other = other, counted
    assert counted.total == pytest.approx(0.002)
    # 2 ms: above 1 ms, and not above 2.5.
    assert counted.counts[CONFIRM_SECONDS_BOUNDS.index(0.0025)] == sum(counted.counts) == 1
    assert sum(other.counts) == 0
