"""A channel's publishing side: routes, numbers, returns."""

from __future__ import annotations

from array import array

from batches import batch_of, numbered
from leveret.amqp_frames.methods import BasicAck, BasicNack, BasicReturn
from leveret.core.definitions import QueueDefinition
from leveret.core.exchanges.table import carry_out
from publishing import confirm_all, indexes_by_queue, methods, publisher_of
from wire import publish

# --- Routes


def test_a_queue_gets_a_batch_of_one_key_whole(commands, publisher) -> None:
    queue = commands.declare_queue()
    batch = numbered(3)
    routed = carry_out(publisher.route(batch))
    assert routed.by_queue == {queue: range(3)}
    assert (routed.frames, routed.error) == (b"", None)
    assert batch.number == 100


def test_each_queue_gets_its_indexes_in_the_order_of_the_channel(commands, publisher) -> None:
    for name in "abc":
        commands.declare_queue(name)
    commands.declare_exchange("x", "topic")
    commands.bind("c", "x", "#")
    keys = [("", "a"), ("x", "one"), ("", "b"), ("", "a"), ("x", "two"), ("", "c"), ("", "a")]
    batch = batch_of(*(publish(key, exchange=exchange) for exchange, key in keys))
    assert indexes_by_queue(carry_out(publisher.route(batch))) == {
        "a": [0, 3, 6],
        "b": [2],
        "c": [1, 4, 5],
    }


def test_a_queue_that_all_keys_lead_to_gets_a_range(commands, publisher) -> None:
    queue = commands.declare_queue()
    commands.declare_exchange("x", "fanout")
    commands.bind("q", "x")
    batch = batch_of(*(publish(f"key {number % 3}", exchange="x") for number in range(9)))
    assert carry_out(publisher.route(batch)).by_queue == {queue: range(9)}


def test_routes_are_kept_until_the_table_changes(commands, publisher, monkeypatch) -> None:
    commands.declare_queue()
    looked_up = []
    route = type(commands.table).route
    monkeypatch.setattr(
        type(commands.table), "route", lambda *args: looked_up.append(args[1:]) or route(*args)
    )
    for _ in range(3):
        carry_out(publisher.route(numbered(2)))
    assert looked_up == [("", "q")]
    commands.delete_queue()
    assert indexes_by_queue(carry_out(publisher.route(numbered(1)))) == {}
    commands.declare_queue()
    assert indexes_by_queue(carry_out(publisher.route(numbered(1)))) == {"q": [0]}
    assert len(looked_up) == 3


def test_exchange_and_routing_key_may_have_255_octets(commands, publisher) -> None:
    # rabbitmq-server#6115: confirms stopped for long exchange names.
    name, key = "é" * 127 + "e", "k" * 255
    queue = commands.declare_queue()
    commands.declare_exchange(name)
    commands.bind("q", name, key)
    batch = batch_of(*[publish(key, exchange=name)] * 3)
    routed = carry_out(publisher.route(batch))
    assert routed.by_queue == {queue: range(3)}
    confirm_all(publisher, batch, routed)
    assert methods(publisher.answers()) == [BasicAck(3, True)]


def test_names_that_are_not_utf8_are_names(commands, publisher) -> None:
    queue = commands.declare_queue("\udcff\udcfe")
    wire = publish("xx").replace(b"\2xx", b"\2\xff\xfe")
    assert carry_out(publisher.route(batch_of(wire))).by_queue == {queue: range(1)}


# --- Numbers


def test_numbers_start_at_1_at_confirm_select_and_publishes_before_it_use_none(commands) -> None:
    # rabbitmq-server#3870: mandatory publishes before confirm.select used up numbers.
    publisher = publisher_of(commands)
    commands.declare_queue()
    for wire in (publish("q"), publish("nowhere", mandatory=True), publish("nowhere")):
        batch = batch_of(wire)
        routed = carry_out(publisher.route(batch))
        assert BasicAck not in map(type, methods(routed.frames))
        confirm_all(publisher, batch, routed)
        assert publisher.answers() == b""
    publisher.confirm_mode = True
    batch = numbered(2)
    confirm_all(publisher, batch, carry_out(publisher.route(batch)))
    assert methods(publisher.answers()) == [BasicAck(2, True)]


def test_publishes_before_confirm_select_are_never_answered(commands) -> None:
    publisher = publisher_of(commands)
    commands.declare_queue()
    early, late = numbered(2), numbered(1)
    before = carry_out(publisher.route(early))
    publisher.confirm_mode = True
    after = carry_out(publisher.route(late))
    confirm_all(publisher, late, after)
    confirm_all(publisher, early, before)
    assert methods(publisher.answers()) == [BasicAck(1)]
    assert publisher.unconfirmed.released_bytes == early.wire_bytes + late.wire_bytes


def test_confirms_are_coalesced_below_the_smallest_that_is_open(commands, publisher) -> None:
    (queue,) = [commands.declare_queue()]
    batch = numbered(6)
    carry_out(publisher.route(batch))
    publisher.unconfirmed.confirm(queue, batch, array("I", [0, 1, 3, 5]))
    assert methods(publisher.answers()) == [BasicAck(2, True), BasicAck(4), BasicAck(6)]
    assert publisher.answers() == b""


def test_acks_are_sent_before_nacks(commands, publisher) -> None:
    queue = commands.declare_queue()
    batch = numbered(4)
    carry_out(publisher.route(batch))
    publisher.unconfirmed.reject(queue, batch, array("I", [0, 1, 3]))
    publisher.unconfirmed.confirm(queue, batch, array("I", [2]))
    assert methods(publisher.answers()) == [
        BasicAck(3),
        BasicNack(2, True, True),
        BasicNack(4, False, True),
    ]


# --- What no queue gets


def test_unroutable_and_not_mandatory_is_confirmed_at_once(commands, publisher) -> None:
    commands.declare_queue()
    routed = carry_out(
        publisher.route(batch_of(publish("nowhere"), publish("q"), publish("nowhere")))
    )
    assert routed.frames == b""
    assert methods(publisher.answers()) == [BasicAck(1, True), BasicAck(3)]
    nowhere = batch_of(publish("nowhere"))
    carry_out(publisher.route(nowhere))
    assert publisher.unconfirmed.released_bytes == nowhere.wire_bytes


def test_unroutable_and_mandatory_is_returned_directly_before_its_own_ack(
    commands, publisher
) -> None:
    commands.declare_queue()
    wires = [publish("q"), publish("nowhere", b"one", mandatory=True), publish("q", mandatory=True)]
    batch = batch_of(*wires, publish("nowhere", b"two", mandatory=True), publish("nowhere"))
    routed = carry_out(publisher.route(batch))
    assert methods(routed.frames) == [
        BasicReturn(312, "NO_ROUTE", "", "nowhere"),
        BasicAck(2),
        BasicReturn(312, "NO_ROUTE", "", "nowhere"),
        BasicAck(4),
    ]
    assert routed.frames.index(b"one\xce") < routed.frames.index(b"two\xce")
    assert indexes_by_queue(routed) == {"q": [0, 2]}
    # The dropped one is confirmed with the others, the returned ones are not answered again.
    assert methods(publisher.answers()) == [BasicAck(5)]
    confirm_all(publisher, batch, routed)
    assert methods(publisher.answers()) == [BasicAck(3, True)]


def test_a_return_has_the_seq_no_if_the_client_asked_for_it(commands) -> None:
    publisher = publisher_of(commands, tags=True)
    publisher.confirm_mode = True
    carry_out(publisher.route(batch_of(publish("nowhere"))))
    routed = carry_out(publisher.route(batch_of(publish("nowhere", b"body", mandatory=True))))
    assert b"\x0ex-delivery-tagl\0\0\0\0\0\0\0\2" in routed.frames
    publisher.confirm_mode = False
    routed = carry_out(publisher.route(batch_of(publish("nowhere", mandatory=True))))
    assert b"x-delivery-tag" not in routed.frames


def test_queues_are_known_by_identity_and_not_by_name(commands, publisher) -> None:
    first = commands.declare_queue()
    assert list(carry_out(publisher.route(numbered(1))).by_queue) == [first]
    commands.delete_queue()
    second = commands.declare_queue()
    (told_queue,) = carry_out(publisher.route(numbered(1))).by_queue
    assert isinstance(told_queue, QueueDefinition)
    assert told_queue is second is not first
