"""Commands about deliveries among a channel's publishes: read, numbered, refused, carried out."""

from __future__ import annotations

import pytest
from batches import batch_of, numbered
from leveret.amqp_frames.errors import AmqpError
from leveret.amqp_frames.methods import BasicAck
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Field
from leveret.core.channel.delivery_commands import DeliveryCommands
from leveret.core.channel.outstanding import Outstanding
from leveret.core.channel.transaction import Outcome
from leveret.core.connection.channel_credit import ChannelCredit
from leveret.core.exchanges.table import carry_out
from leveret.core.publishing.delivery_commands import has_only_commands
from leveret.core.publishing.publisher import Publisher, Routed
from leveret.core.queue.in_flight import Delivery
from leveret.core.queue.span import Span
from publishing import indexes_by_queue, methods, publisher_of
from wire import publish

EXCHANGE = "amq.leveret.delivery"
NAMED = f"exchange '{EXCHANGE}' in vhost '/'"


def command(routing_key: str, mandatory: bool = False, **headers: object) -> bytes:
    fields = {
        name.replace("_", "-"): value if isinstance(value, Field) else Field("long", value)
        for name, value in headers.items()
    }
    properties = Properties(headers=fields)
    return publish(routing_key, b"", properties, exchange=EXCHANGE, mandatory=mandatory)


class Bench:
    """A channel that holds deliveries and publishes, without its actor."""

    def __init__(self, commands) -> None:
        self.outstanding = Outstanding(1, ChannelCredit())
        self.commands = DeliveryCommands(self.outstanding)
        self.publisher: Publisher = publisher_of(commands)
        self.publisher.delivery_holder = self.commands
        self.publisher.confirm_mode = True

    def deliver(self, count: int, queue: str = "q") -> Delivery:
        delivery = Delivery(Span(numbered(count), range(count), 1, 0, False), queue, None)
        self.outstanding.hold(delivery)
        return delivery

    def route(self, *published: bytes) -> Routed:
        return carry_out(self.publisher.route(batch_of(*published)))


@pytest.fixture
def bench(commands) -> Bench:
    commands.declare_queue()
    return Bench(commands)


def test_commands_are_confirmed_in_order_with_the_messages_between_them(bench: Bench) -> None:
    delivery = bench.deliver(3)
    routed = bench.route(
        command("touch", delivery_tag=1),
        publish("q"),
        command("requeue", delivery_tag=3, mandatory=True),
    )
    assert (routed.error, routed.message_count, routed.frames) == (None, 3, b"")
    assert indexes_by_queue(routed) == {"q": [1]}
    # The cut-off is the message: its queue has not confirmed it.
    assert methods(bench.publisher.answers()) == [BasicAck(1, True), BasicAck(3, False)]
    touched, returned = bench.commands.drain()
    assert touched == [(delivery, 0, 1)]
    assert returned == {0: [(delivery, 2, 3)]}
    assert bench.commands.is_empty


def test_a_batch_of_commands_takes_nothing_of_the_publish_window(bench: Bench) -> None:
    bench.deliver(1)
    batch = batch_of(command("touch", delivery_tag=1) * 3)
    carry_out(bench.publisher.route(batch))
    assert bench.publisher.unconfirmed.released_bytes == batch.wire_bytes


def test_neighbours_are_told_as_one_part_and_delays_apart(bench: Bench) -> None:
    first, second = bench.deliver(4), bench.deliver(2, "r")
    bench.route(
        *(command("touch", delivery_tag=tag) for tag in (1, 2, 4, 5, 6)),
        *(command("requeue", delivery_tag=tag, delay_ms=50) for tag in (1, 2)),
        command("requeue", delivery_tag=5),
    )
    touched, returned = bench.commands.drain()
    assert touched == [(first, 0, 2), (first, 3, 4), (second, 0, 2)]
    assert returned == {50: [(first, 0, 2)], 0: [(second, 0, 1)]}


def test_requeues_free_credit_as_a_nack_does(bench: Bench) -> None:
    bench.deliver(3)
    bench.route(command("requeue", delivery_tag=2))
    parts = bench.commands.drain().returned[0]
    settled = bench.outstanding.settle_removed(Outcome.RETURNED, parts, 0)
    assert list(settled.returned.by_queue) == ["q"]
    assert len(bench.outstanding) == 2


def test_a_message_that_was_given_back_cannot_be_touched(bench: Bench) -> None:
    bench.deliver(2)
    routed = bench.route(
        command("requeue", delivery_tag=1), command("touch", delivery_tag=1), publish("q")
    )
    assert_refused(routed, 1, "unknown delivery tag 1")
    assert indexes_by_queue(routed) == {}


def test_a_touch_behind_the_time_out_is_no_mistake_and_touches_nothing(bench: Bench) -> None:
    delivery = bench.deliver(2)
    bench.outstanding.time_out([(delivery, 0, 2)])
    assert bench.route(command("touch", delivery_tag=1)).error is None
    assert bench.commands.is_empty
    # The tag is held still: a requeue is the late answer, and gives credit back.
    assert bench.route(command("requeue", delivery_tag=1)).error is None
    assert len(bench.outstanding) == 1


def assert_refused(routed: Routed, index: int, text: str) -> None:
    error = routed.error
    assert isinstance(error, AmqpError)
    assert routed.message_count == index
    assert (error.reply_code, error.class_id, error.method_id) == (406, 60, 40)
    assert error.reply_text == f"PRECONDITION_FAILED - {text}"


@pytest.mark.parametrize(
    ("sent", "reason"),
    [
        (command("touch"), "header 'delivery-tag' is missing"),
        (
            command("touch", delivery_tag=Field("longstr", "1")),
            "invalid header 'delivery-tag': \"expected integer, got longstr\"",
        ),
        (
            command("finish", delivery_tag=1),
            "unknown routing key 'finish', expected touch or requeue",
        ),
        (command("", delivery_tag=1), "unknown routing key '', expected touch or requeue"),
        (
            command("requeue", delivery_tag=1, delay_ms=-1),
            "invalid header 'delay-ms': {value_negative,-1}",
        ),
        (
            command("requeue", delivery_tag=1, delay_ms=2**32),
            "invalid header 'delay-ms': {value_too_large,4294967296}",
        ),
        (
            command("requeue", delivery_tag=1, delay_ms=Field("longstr", "soon")),
            "invalid header 'delay-ms': no_integer",
        ),
        (
            command("requeue", delivery_tag=1, delay_ms=Field("bool", True)),
            "invalid header 'delay-ms': {unacceptable_type,bool}",
        ),
    ],
)
def test_a_command_that_is_none_is_refused_with_the_reason(
    bench: Bench, sent: bytes, reason: str
) -> None:
    bench.deliver(1)
    routed = bench.route(publish("q"), sent, publish("q"))
    assert_refused(routed, 1, f"command for {NAMED}: {reason}")
    assert indexes_by_queue(routed) == {"q": [0]}
    assert bench.commands.is_empty


@pytest.mark.parametrize("tag", [0, 2, -1, 2**62])
def test_a_tag_that_is_not_held_is_unknown_as_in_an_ack(bench: Bench, tag: int) -> None:
    bench.deliver(1)
    for key in ("touch", "requeue"):
        assert_refused(
            bench.route(command(key, delivery_tag=tag)), 0, f"unknown delivery tag {tag}"
        )


@pytest.mark.parametrize("delay", [Field("longstr", "70"), Field("double", 70.9)])
def test_a_delay_may_be_digits_or_a_float(bench: Bench, delay: Field) -> None:
    delivery = bench.deliver(1)
    bench.route(command("requeue", delivery_tag=1, delay_ms=delay))
    assert bench.commands.drain().returned == {70: [(delivery, 0, 1)]}


def test_further_routing_keys_of_a_command_lead_nowhere(bench: Bench) -> None:
    delivery = bench.deliver(1)
    routed = bench.route(
        command("touch", delivery_tag=1, CC=Field("array", [Field("longstr", "q")]))
    )
    assert (routed.error, routed.by_queue) == (None, {})
    assert bench.commands.drain().touched == [(delivery, 0, 1)]


def test_a_message_that_comes_to_the_exchange_in_another_way_is_no_command(
    commands, bench: Bench
) -> None:
    alternate = {"alternate-exchange": Field("longstr", EXCHANGE)}
    commands.declare_exchange("x", arguments=alternate)
    delivery = bench.deliver(1)
    properties = Properties(headers={"delivery-tag": Field("long", 1)})
    touch = publish("touch", b"", properties, exchange="x", mandatory=True)
    # It is unroutable, and comes back.
    routed = bench.route(touch, command("touch", delivery_tag=1))
    assert routed.frames
    assert bench.commands.drain().touched == [(delivery, 0, 1)]
    assert commands.route(EXCHANGE, "touch") == []


def test_in_a_transaction_commands_are_read_at_once_and_go_nowhere_at_the_commit(
    bench: Bench,
) -> None:
    bench.publisher.confirm_mode = False
    bench.publisher.transactional = True
    delivery = bench.deliver(1)
    held = bench.publisher.hold(batch_of(command("touch", delivery_tag=1), publish("q")))
    assert bench.commands.drain().touched == [(delivery, 0, 1)]
    routed = carry_out(bench.publisher.route_held(held))
    assert indexes_by_queue(routed) == {"q": [1]}
    assert bench.commands.is_empty


def test_the_exchange_is_there_and_takes_no_bindings(commands, refused) -> None:
    commands.declare_queue()
    commands.declare_exchange()
    assert commands.table.find_exchange(EXCHANGE) is not None
    # As it is, it may be declared again.
    commands.declare_exchange(EXCHANGE, durable=True)
    text = f"ACCESS_REFUSED - operation not permitted on the exchange '{EXCHANGE}'"
    for change in (
        lambda: commands.bind(exchange=EXCHANGE),
        lambda: commands.unbind(exchange=EXCHANGE),
        lambda: commands.bind_exchange(EXCHANGE),
        lambda: commands.bind_exchange("x", EXCHANGE),
        lambda: commands.unbind_exchange(EXCHANGE),
    ):
        with refused(403, text):
            change()
    deleted = f"ACCESS_REFUSED - deletion of system {NAMED} not allowed"
    with refused(403, deleted):
        commands.topology.prepare_delete_exchange(EXCHANGE)
    inequivalent = (
        f"PRECONDITION_FAILED - inequivalent arg 'type' for {NAMED}: "
        "received 'topic' but current is 'direct'"
    )
    with refused(406, inequivalent):
        commands.declare_exchange(EXCHANGE, "topic", durable=True)


def test_only_a_batch_without_messages_has_only_commands() -> None:
    touch = command("touch", delivery_tag=1)
    assert has_only_commands(batch_of(touch, command("requeue", delivery_tag=2)))
    assert not has_only_commands(batch_of(touch, publish("q")))
