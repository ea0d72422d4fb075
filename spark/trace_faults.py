"""What must not be in a trace, found by Spark: the faults of `leveret trace check`, in its words.

Each rule is a query by the number or message that it is about, so that what belongs together meets
in one task, in the order in which it was written (`line`). `logs/trace_check.py` says the same in
one pass; a test holds the two together.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING

from .trace_number_faults import never_answered, wrong_answers, wrong_numbers
from .trace_queue_faults import early_confirms, strange_deliveries

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def faults(events: DataFrame) -> DataFrame:
    """A row for each fault: line, time, boot, fault. Sorted by `line` they are in order."""
    found = [
        wrong_numbers(events),
        wrong_answers(events),
        never_answered(events),
        early_confirms(events),
        strange_deliveries(events),
    ]
    return reduce(lambda one, other: one.unionByName(other), found)
