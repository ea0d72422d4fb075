"""Publishes that are refused: the words, and the confirms of the publishes before them."""

from __future__ import annotations

import pytest
from batches import batch_of
from leveret.amqp_frames.errors import HardError, SoftError
from leveret.amqp_frames.methods import BasicAck, BasicReturn
from leveret.amqp_frames.properties import Properties
from leveret.core.exchanges.table import carry_out
from publishing import confirm_all, indexes_by_queue, methods
from wire import PERSISTENT, publish


def expect_error(error: object, kind: type, code: int, text: str) -> None:
    assert type(error) is kind
    assert isinstance(error, (SoftError, HardError))
    assert (error.reply_code, error.reply_text) == (code, text)
    assert (error.class_id, error.method_id) == (60, 40)


BAD = [
    (
        publish("k", exchange="missing"),
        SoftError,
        404,
        "NOT_FOUND - no exchange 'missing' in vhost '/'",
    ),
    (
        publish("k", exchange="internal"),
        SoftError,
        403,
        "ACCESS_REFUSED - cannot publish to internal exchange 'internal' in vhost '/'",
    ),
    (publish("q", immediate=True), HardError, 540, "NOT_IMPLEMENTED - immediate=true"),
    (
        publish("q", properties=Properties(expiration="abc")),
        SoftError,
        406,
        "PRECONDITION_FAILED - invalid expiration 'abc': no_integer",
    ),
    (
        publish("q", properties=Properties(user_id="other")),
        SoftError,
        406,
        "PRECONDITION_FAILED - user_id property set to 'other' but authenticated user was 'guest'",
    ),
]


@pytest.mark.parametrize(("bad", "kind", "code", "text"), BAD)
@pytest.mark.parametrize("before", [0, 1, 4])
def test_publishes_before_an_error_are_routed(
    commands, publisher, bad: bytes, kind: type, code: int, text: str, before: int
) -> None:
    queue = commands.declare_queue()
    commands.declare_exchange("internal", internal=True)
    batch = batch_of(*[publish("q", properties=PERSISTENT)] * before, bad, publish("q"))
    routed = carry_out(publisher.route(batch))
    expect_error(routed.error, kind, code, text)
    assert routed.by_queue == ({queue: range(before)} if before else {})
    confirm_all(publisher, batch, routed)
    expected = {0: [], 1: [BasicAck(1)], 4: [BasicAck(4, True)]}[before]
    assert methods(publisher.answers()) == expected
    assert publisher.unconfirmed.released_bytes == batch.wire_bytes


def test_the_first_of_several_errors_counts(commands, publisher) -> None:
    commands.declare_queue()
    wires = [wire for wire, *_ in BAD]
    for number, (_, kind, code, text) in enumerate(BAD):
        commands.table.find_exchange("internal") or commands.declare_exchange(
            "internal", internal=True
        )
        routed = carry_out(publisher.route(batch_of(publish("q"), *wires[number:], *wires)))
        expect_error(routed.error, kind, code, text)
        assert indexes_by_queue(routed) == {"q": [0]}


def test_messages_before_an_error_are_returned(commands, publisher) -> None:
    batch = batch_of(
        publish("nowhere", mandatory=True), publish("x", exchange="missing"), publish("nowhere")
    )
    routed = carry_out(publisher.route(batch))
    assert methods(routed.frames) == [BasicReturn(312, "NO_ROUTE", "", "nowhere"), BasicAck(1)]
    assert routed.error is not None
    assert publisher.answers() == b""


def test_the_own_user_id_is_right_for_every_message(commands, publisher) -> None:
    commands.declare_queue()
    right = publish("q", properties=Properties(user_id="guest"))
    wrong = publish("q", properties=Properties(user_id="guess"))
    assert carry_out(publisher.route(batch_of(right, right))).error is None
    routed = carry_out(publisher.route(batch_of(right, wrong, right)))
    assert indexes_by_queue(routed) == {"q": [0]}
    assert routed.error is not None
    assert carry_out(publisher.route(batch_of(wrong))).error is not None
