"""Messages that leave a queue, or do not enter it, because of its limits, and where they go."""

from __future__ import annotations

import pytest
from batches import numbered
from leveret.amqp_frames.values.field_table import Table, table_of
from leveret.core.queue.construction import make_queue
from leveret.core.queue.length import Limits, limits_of
from leveret.core.queue.rules import Effects

WINDOW = 1 << 20


def arguments(**values: object) -> Table:
    return table_of({f"x-{name.replace('_', '-')}": value for name, value in values.items()})


def published(count: int, **values: object) -> Effects:
    effects = Effects()
    queue = make_queue("the queue", True, arguments(**values), WINDOW)
    queue.publish(numbered(count), range(count), effects)
    return effects


def test_a_queue_without_limits_has_no_part_for_them() -> None:
    for values in ({"overflow": "reject-publish", "queue_mode": "lazy"}, {"queue_mode": "lazy"}):
        assert make_queue("q", True, arguments(**values), WINDOW).parts == ()


@pytest.mark.parametrize(
    ("values", "limits"),
    [
        ({"max_length": 5}, Limits(5)),
        ({"max_length_bytes": 7, "overflow": "drop-head"}, Limits(None, 7)),
        ({"max_length": 5, "overflow": "reject-publish"}, Limits(5, None, True)),
        ({"max_length": 0, "overflow": "reject-publish-dlx"}, Limits(0, None, True, True)),
    ],
)
def test_arguments_set_limits(values: dict[str, object], limits: Limits) -> None:
    assert limits_of(arguments(**values)) == limits


def test_messages_that_drop_head_drops_are_dead_lettered_as_maxlen_and_not_settled() -> None:
    effects = published(5, max_length=2, dead_letter_exchange="x")
    ((span, reason),) = effects.dead
    assert (span.first_entry_id, list(span.indexes), reason) == (1, [0, 1, 2], "maxlen")
    assert effects.settled_entries == []
    assert effects.appended == (range(5), range(1, 6))


def test_messages_that_reject_publish_dlx_rejects_are_dead_lettered_and_have_no_entry() -> None:
    effects = published(5, max_length=2, overflow="reject-publish-dlx", dead_letter_exchange="x")
    ((span, reason),) = effects.dead
    assert (list(span.indexes), span.stored, reason) == ([2, 3, 4], False, "maxlen")
    assert list(effects.rejected or ()) == [2, 3, 4]
    assert effects.appended is not None
    assert list(effects.appended[1]) == [1, 2]


@pytest.mark.parametrize(
    ("overflow", "exchange"), [("reject-publish", "x"), ("reject-publish-dlx", None)]
)
def test_messages_are_rejected_without_dead_letters_unless_overflow_and_exchange_ask_for_them(
    overflow: str, exchange: str | None
) -> None:
    others = {} if exchange is None else {"dead_letter_exchange": exchange}
    effects = published(3, max_length=2, overflow=overflow, **others)
    assert list(effects.rejected or ()) == [2]
    assert effects.dead == effects.settled_entries == []
