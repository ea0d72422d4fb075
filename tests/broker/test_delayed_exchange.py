"""x-delayed-message exchanges: routed at once, deferred in each queue, delivered when due."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import leveret
import pika
import pytest
from gated_files import GatedFiles
from held_clock import HeldClock
from insides import channel_actor, inside, on_loop, readers
from leveret.amqp_frames.decoder import Decoder
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicDeliver,
    BasicReject,
    BasicReturn,
    ChannelClose,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
    TxSelectOk,
)
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Field, table_of
from leveret.logs.reading.tail import TraceTail
from traced import client_of, explanation, trace_of, traced, wait_for_events
from wire import FRAME_MAX_BYTES, Client, publish

DELAYED = table_of({"x-delayed-type": "topic"})
HOUR_MS = 3_600_000


@pytest.fixture
def clock(broker: leveret.Broker) -> HeldClock:
    return HeldClock(broker)


def over(clock: HeldClock, milliseconds: float) -> None:
    clock.advance(milliseconds / 1000)


def delayed(
    delay_ms: int, body: bytes = b"x", exchange: str = "d", mode: int = 1, **how: object
) -> bytes:
    headers = {"x-delay": Field("signedint", delay_ms)}
    properties = Properties(headers=headers, delivery_mode=mode)
    return publish("k", body, properties, exchange=exchange, **how)  # type: ignore[arg-type]


def declare(client: Client, queue: str = "q", durable: bool = False) -> None:
    """A delayed exchange, and a queue that is bound to it."""
    exchange = ExchangeDeclare(
        exchange="d", type="x-delayed-message", durable=durable, arguments=DELAYED
    )
    assert client.ask(1, exchange) == ExchangeDeclareOk()
    client.declare(queue, durable=durable)
    assert client.ask(1, QueueBind(queue=queue, exchange="d", routing_key="k.#")) == QueueBindOk()


def confirmed(client: Client, *sent: bytes) -> None:
    client.send(*sent)
    first = client.next_seq_no
    client.next_seq_no += len(sent)
    client.expect_acks(range(first, client.next_seq_no))


def delivered(client: Client) -> tuple[bytes, Field | None]:
    """The body of the next delivery, and its x-delay."""
    client.expect_type(1, BasicDeliver)
    content = client.read_content(1)
    return content.body, (content.properties.headers or {}).get("x-delay")


def test_messages_come_when_they_are_due_and_say_how_long_they_were_delayed(
    client: Client, clock: HeldClock
) -> None:
    declare(client)
    confirmed(client, delayed(500, b"later"), delayed(70, b"soon"), delayed(0, b"now"))
    assert client.counts("q") == (1, 0)
    client.consume("q", no_ack=True)
    assert delivered(client) == (b"now", Field("signedint", 0))
    over(clock, 69)
    client.nothing_more()
    over(clock, 1)
    assert delivered(client) == (b"soon", Field("signedint", -70))
    over(clock, 429)
    client.nothing_more()
    over(clock, 1)
    assert delivered(client) == (b"later", Field("signedint", -500))


@pytest.mark.parametrize(
    "before",
    [
        pytest.param(Properties(), id="plain"),
        pytest.param(Properties(expiration=str(HOUR_MS)), id="expiring"),
        pytest.param(Properties(headers={"x-delay": Field("signedint", 0)}), id="not delayed"),
    ],
)
def test_the_first_delayed_message_waits_behind_one_that_the_queue_gets_in_the_same_turn(
    client: Client, broker: leveret.Broker, clock: HeldClock, before: Properties
) -> None:
    declare(client)
    channel = inside(channel_actor(readers(broker)[0]))
    decoder = Decoder(FRAME_MAX_BYTES, 10_000, 1000)
    reads = decoder.feed(publish("k", b"now", before, exchange="d")) + decoder.feed(delayed(70))
    # The queue has its turn behind both.
    on_loop(broker, *[partial(channel.on_receive, read) for read in reads])
    client.expect_acks(range(1, 3))
    client.consume("q", no_ack=True)
    client.expect_type(1, BasicDeliver)
    assert client.read_content(1).body == b"now"
    over(clock, 69)
    client.nothing_more()
    over(clock, 1)
    assert delivered(client) == (b"x", Field("signedint", -70))


def test_a_deferred_message_is_confirmed_when_it_is_on_the_disk_and_not_when_it_is_due(
    client: Client, clock: HeldClock, files: GatedFiles
) -> None:
    declare(client, durable=True)
    files.hold()
    client.send(delayed(70, mode=2))
    files.wait_until_syncing()
    over(clock, 70)
    assert client.counts("q") == (1, 0)
    files.release()
    client.expect(1, BasicAck(1, False))
    client.send(delayed(HOUR_MS, mode=2))
    client.expect(1, BasicAck(2, False))


def test_a_mandatory_message_without_a_queue_is_returned_at_once_and_before_its_ack(
    client: Client,
) -> None:
    declare(client)
    headers = {"x-delay": Field("signedint", 500)}
    client.send(publish("other", b"x", Properties(headers=headers), exchange="d", mandatory=True))
    client.expect(1, BasicReturn(312, "NO_ROUTE", "d", "other"))
    assert client.read_content(1).properties.headers == headers
    client.expect(1, BasicAck(1, False))


def test_what_is_no_delay_closes_the_channel(client: Client) -> None:
    declare(client)
    client.send(delayed(-1))
    text = "PRECONDITION_FAILED - invalid header 'x-delay': {value_negative,-1}"
    client.expect(1, ChannelClose(406, text, 60, 40))


def test_a_queue_that_is_bound_directly_too_gets_the_message_at_once(
    client: Client, clock: HeldClock
) -> None:
    declare(client)
    client.declare("other")
    for queue in ("q", "other"):
        bind = QueueBind(queue=queue, exchange="amq.topic", routing_key="k")
        assert client.ask(1, bind) == QueueBindOk()
    bind = QueueBind(queue="other", exchange="d", routing_key="k")
    assert client.ask(1, bind) == QueueBindOk()
    # One batch: to the topic exchange, which does not delay, and to the one that does.
    confirmed(client, delayed(500, b"1", "amq.topic"), delayed(500, b"2"))
    assert (client.counts("q"), client.counts("other")) == ((1, 0), (1, 0))
    over(clock, 500)
    assert (client.counts("q"), client.counts("other")) == ((2, 0), (2, 0))


def test_in_a_transaction_the_delay_counts_from_the_commit(
    connect: Callable[..., Client], clock: HeldClock
) -> None:
    client = connect()
    client.open_channel()
    declare(client)
    assert client.ask(1, TxSelect()) == TxSelectOk()
    client.send(delayed(500))
    client.nothing_more()
    over(clock, 500)
    assert client.ask(1, TxCommit()) == TxCommitOk()
    over(clock, 499)
    assert client.counts("q") == (0, 0)
    over(clock, 1)
    assert client.counts("q") == (1, 0)


def test_a_dead_letter_is_delayed_and_its_copy_is_not_delayed_again(
    client: Client, clock: HeldClock
) -> None:
    declare(client)
    client.declare("work", arguments=table_of({"x-dead-letter-exchange": "d"}))
    headers = {"x-delay": Field("signedint", 500)}
    message = publish("work", b"1", Properties(headers=headers))
    client.send(message)
    client.next_seq_no += 1
    client.expect_acks(range(1, 2))
    # Nothing has bound the key "work" so far.
    bind = QueueBind(queue="q", exchange="d", routing_key="work")
    assert client.ask(1, bind) == QueueBindOk()
    got = client.get("work")
    assert got is not None
    client.send_methods(1, BasicReject(got.delivery_tag, False))
    client.wait_for_counts("work", (0, 0))
    over(clock, 499)
    assert client.counts("q") == (0, 0)
    over(clock, 1)
    client.wait_for_counts("q", (1, 0))
    client.consume("q", no_ack=True)
    assert delivered(client) == (b"1", Field("signedint", -500))


def test_what_is_deferred_outlives_the_broker_with_the_rest_of_its_delay(tmp_path: Path) -> None:
    directory = tmp_path / "another"
    with leveret.Broker(data_dir=directory, port=0, log_level="error") as broker:
        HeldClock(broker)
        with Client(broker.host, broker.port) as client:
            client.log_in()
            client.open_channel(1, confirms=True)
            declare(client, durable=True)
            confirmed(client, delayed(HOUR_MS, b"later", mode=2), delayed(0, b"now", mode=2))
            client.close()
    with leveret.Broker(data_dir=directory, port=0, log_level="error") as broker:
        clock = HeldClock(broker)
        with Client(broker.host, broker.port) as client:
            client.log_in()
            client.open_channel(1, confirms=True)
            # It is there still, and delays.
            declare(client, durable=True)
            confirmed(client, delayed(2 * HOUR_MS, b"last", mode=2))
            assert client.counts("q") == (1, 0)
            client.consume("q", no_ack=True)
            assert delivered(client) == (b"now", Field("signedint", 0))
            client.nothing_more()
            # Less than an hour is left, by what the clock of the machine went on meanwhile.
            over(clock, HOUR_MS)
            assert delivered(client) == (b"later", Field("signedint", -HOUR_MS))
            client.nothing_more()
            over(clock, HOUR_MS)
            assert delivered(client) == (b"last", Field("signedint", -2 * HOUR_MS))
            client.close()


def test_the_trace_says_until_when_a_message_is_deferred(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with traced(tmp_path) as broker, client_of(broker) as client:
        HeldClock(broker)
        tail = TraceTail(tmp_path / "data" / "traces", from_begin=True)
        declare(client)
        confirmed(client, delayed(HOUR_MS))
        wait_for_events(tail, "message.deferred", "confirm.sent")
        said = explanation(tmp_path, capsys)[-1]
        client.close()
    [deferred] = [line for line in trace_of(tmp_path) if line["event"] == "message.deferred"]
    assert said == (
        "Confirmed because queue 'q' has it in memory, as it promises. In queue 'q' it is deferred "
        f"until {deferred['until']}."
    )


def test_pika_publishes_with_a_delay(broker: leveret.Broker) -> None:
    with pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port)) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.exchange_declare(
            "d", "x-delayed-message", durable=True, arguments={"x-delayed-type": "fanout"}
        )
        channel.queue_declare("q", durable=True)
        channel.queue_bind("q", "d")
        about = pika.BasicProperties(headers={"x-delay": 1}, delivery_mode=2)
        channel.basic_publish("d", "", b"work", about, mandatory=True)
        for method, properties, body in channel.consume("q"):
            assert method is not None
            assert (properties.headers, body) == ({"x-delay": -1}, b"work")
            channel.basic_ack(method.delivery_tag)
            break
        channel.cancel()
