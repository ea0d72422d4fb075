"""The content of the data directories of earlier versions: they fill them, this one checks it.

`tests/data/make_directories.py` runs a broker of an earlier version and calls `fill`; the tests
start a broker of this version on the result and call `check`.
"""

from __future__ import annotations

from typing import Any

from dashed import dashed
from insides import wait_until
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
    QueueDelete,
    QueueDeleteOk,
)
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Plain, table_of
from wire import PERSISTENT, Client, publish

VHOST = "shop"
USER, PASSWORD = "clerk", "clerk's password"
# They outlive the broker that is killed, and have expired whenever a test starts the next one.
TTL_MS = 15_000
# Messages of 1,000 octets, and how many of them stay: the rest is most of a segment that is large
# enough to be rewritten.
BULK_COUNT, BULK_LEFT = 400, 10


def clerk(host: str, port: int) -> Client:
    """A connection of the user that the directory knows, in its vhost; channel 1 confirms."""
    client = Client(host, port).log_in(user=USER, password=PASSWORD, vhost=VHOST)
    client.open_channel(1, confirms=True)
    return client


def _queue(client: Client, name: str, **arguments: Plain) -> None:
    table = dashed(arguments)
    client.declare(name, durable=True, arguments=table_of(table))


def _bind(client: Client, queue: str, exchange: str, routing_key: str = "") -> None:
    bind = QueueBind(queue=queue, exchange=exchange, routing_key=routing_key)
    assert client.ask(1, bind) == QueueBindOk()


def _bulky(number: int) -> bytes:
    return b"%1000d" % number


def identified(number: int) -> Properties:
    """A persistent message that a dedup window knows by its number."""
    headers = table_of({"x-dedup-producer": "till 1", "x-dedup-id": str(number)})
    return Properties(headers=headers, delivery_mode=2)


class Filling:
    """Fills a new directory, in two runs of the broker; `format_version` is its journal's."""

    def __init__(self, format_version: int) -> None:
        self.has_expiry = format_version >= 2
        self.has_dedup = format_version >= 3
        self.has_deferral = format_version >= 5
        self.has_rewriting = format_version >= 6

    def first_run(self, host: str, port: int) -> None:
        """Topology, and the messages that are settled, dead-lettered or delivered later."""
        client = clerk(host, port)
        for name, kind in (("events", "topic"), ("dead", "direct"), ("all", "fanout")):
            declare = ExchangeDeclare(exchange=name, type=kind, durable=True)
            assert client.ask(1, declare) == ExchangeDeclareOk()
        _queue(client, "orders", x_queue_type="quorum", x_delivery_limit=9)
        _queue(client, "audit")
        _queue(client, "urgent", x_max_priority=5)
        _queue(client, "rejected", x_dead_letter_exchange="dead", x_dead_letter_routing_key="r")
        _queue(client, "graveyard")
        _queue(client, "deleted")
        _bind(client, "orders", "events", "order.#")
        _bind(client, "audit", "all")
        _bind(client, "orders", "all")
        _bind(client, "graveyard", "dead", "r")
        _bind(client, "graveyard", "dead", "expired")
        # 20 messages in one batch for two queues, a transient one between them.
        batch = [publish("order.1", b"both %d" % n, PERSISTENT, exchange="all") for n in range(20)]
        client.send(*batch[:10], publish("audit", b"transient"), *batch[10:])
        client.expect_acks(range(1, 22))
        client.send(
            *(publish("order.2", b"order %d" % n, PERSISTENT, exchange="events") for n in range(10))
        )
        client.expect_acks(range(22, 32))
        client.send(*(publish("rejected", b"bad %d" % n, PERSISTENT) for n in range(3)))
        client.send(*(publish("deleted", b"gone %d" % n, PERSISTENT) for n in range(3)))
        client.send(publish("audit", b"large" * 4000, PERSISTENT))
        client.expect_acks(range(32, 39))
        self._settle_some(client)
        if self.has_rewriting:
            self._settle_most(client)
        client.close()

    def _settle_some(self, client: Client) -> None:
        for number in range(5):
            assert client.get("audit", no_ack=True).body == b"both %d" % number  # type: ignore[union-attr]
        for _ in range(3):
            answer = client.ask(1, BasicGet(queue="rejected"))
            assert isinstance(answer, BasicGetOk)
            client.read_content(1)
            client.send_methods(1, BasicNack(answer.delivery_tag, requeue=False))
        client.wait_for_counts("graveyard", (3, 0))
        assert client.ask(1, QueueDelete(queue="deleted")) == QueueDeleteOk(3)

    def _settle_most(self, client: Client) -> None:
        """So much of the segment that the next broker rewrites it."""
        _queue(client, "bulk")
        client.send(*(publish("bulk", _bulky(n), PERSISTENT) for n in range(BULK_COUNT)))
        client.expect_acks(range(39, 39 + BULK_COUNT))
        for number in range(BULK_COUNT - BULK_LEFT):
            assert client.get("bulk", no_ack=True).body == _bulky(number)  # type: ignore[union-attr]

    def second_run(self, host: str, port: int) -> Client:
        """Leave transactions and deliveries open for the kill; the connection must outlive it."""
        client = clerk(host, port)
        mixed = [3, 0, 5, 3, 1, 5]
        for number, priority in enumerate(mixed):
            properties = Properties(delivery_mode=2, priority=priority)
            client.send(publish("urgent", b"%d of %d" % (number, priority), properties))
        client.expect_acks(range(1, 7))
        next_number = 7
        if self.has_expiry:
            _queue(
                client,
                "fading",
                x_message_ttl=TTL_MS,
                x_dead_letter_exchange="dead",
                x_dead_letter_routing_key="expired",
            )
            own = Properties(delivery_mode=2, expiration=str(TTL_MS // 2))
            client.send(publish("fading", b"fades", PERSISTENT), publish("fading", b"sooner", own))
            client.expect_acks(range(7, 9))
            next_number = 9
        if self.has_dedup:
            _queue(client, "once", x_dedup_window=1000)
            client.send(*(publish("once", b"id %d" % n, identified(n)) for n in (1, 2, 3, 2)))
            client.expect_acks(range(next_number, next_number + 4))
            # Its message is gone, and it is remembered all the same.
            assert client.get("once", no_ack=True).body == b"id 1"  # type: ignore[union-attr]
            next_number += 4
        if self.has_deferral:
            self._defer_some(client, next_number)
        self._deliver_some(host, port)
        return client

    def _defer_some(self, client: Client, next_number: int) -> None:
        """One message is delayed, another comes back and waits."""
        delayed = table_of({"x-delayed-type": "direct"})
        declare = ExchangeDeclare(
            exchange="delays", type="x-delayed-message", durable=True, arguments=delayed
        )
        assert client.ask(1, declare) == ExchangeDeclareOk()
        _queue(client, "later", x_requeue_delay=TTL_MS)
        _bind(client, "later", "delays", "later")
        late = Properties(delivery_mode=2, headers=table_of({"x-delay": TTL_MS}))
        client.send(
            publish("later", b"delayed", late, exchange="delays"),
            publish("later", b"came back", PERSISTENT),
        )
        client.expect_acks(range(next_number, next_number + 2))
        answer = client.ask(1, BasicGet(queue="later"))
        assert isinstance(answer, BasicGetOk)
        assert client.read_content(1).body == b"came back"
        client.send_methods(1, BasicNack(answer.delivery_tag, requeue=True))

    def _deliver_some(self, host: str, port: int) -> None:
        """Of orders, one comes back and three stay with the consumer: their attempts count."""
        consumer = clerk(host, port)
        consumer.consume("orders")
        tags = []
        for number in range(30):
            deliver = consumer.expect_type(1, BasicDeliver)
            body = consumer.read_content(1).body
            assert body == (b"both %d" % number if number < 20 else b"order %d" % (number - 20))
            tags.append(deliver.delivery_tag)
        consumer.send_methods(1, BasicAck(tags[9], True))
        # A connection that ends gives back what it had not acked.
        consumer.close()
        other = clerk(host, port)
        for number in range(10, 13):
            assert other.get("orders").body == b"both %d" % number  # type: ignore[union-attr]
        # Confirmed behind them, so the deliveries are in the journal, too.
        other.publish_all("audit", b"last", properties=PERSISTENT)
        self.kept_open = other


# Per queue what is ready after a start, as (body, redelivered, attempts before).
ORDERS = [
    *((b"both %d" % number, 2) for number in range(10, 13)),
    *((b"both %d" % number, 1) for number in range(13, 20)),
    *((b"order %d" % number, 1) for number in range(10)),
]
AUDIT = [b"both %d" % number for number in range(5, 20)] + [b"large" * 4000, b"last"]
URGENT = [b"2 of 5", b"5 of 5", b"0 of 3", b"3 of 3", b"4 of 1", b"1 of 0"]


def check(host: str, port: int, format_version: int, *, was_killed: bool = False) -> None:
    """Takes out all that the directory holds, and asserts that nothing is missing or altered.

    A broker that `was_killed` may have made dead letters and not settled their originals yet.
    """
    filling = Filling(format_version)
    client = clerk(host, port)
    if filling.has_dedup:
        # Repeats are confirmed and not enqueued.
        client.publish_all("once", *(b"id 1",), properties=identified(1))
        client.publish_all("once", b"id 3", properties=identified(3))
        client.publish_all("once", b"id 4", properties=identified(4))
        assert [body for body, _ in _all_of(client, "once")] == [b"id 2", b"id 3", b"id 4"]
    found = [
        (body, _header(each, "x-delivery-count")[1]) for body, each in _all_of(client, "orders")
    ]
    assert found == ORDERS
    assert [body for body, _ in _all_of(client, "audit")] == AUDIT
    assert [body for body, _ in _all_of(client, "urgent")] == URGENT
    if filling.has_rewriting:
        left = range(BULK_COUNT - BULK_LEFT, BULK_COUNT)
        assert [body for body, _ in _all_of(client, "bulk")] == [_bulky(n) for n in left]
    if filling.has_deferral:
        # They are due since, and have their old places.
        wait_until(lambda: client.counts("later")[0] == 2)
        assert [body for body, _ in _all_of(client, "later")] == [b"delayed", b"came back"]
    # Expired messages are read from the disk before they come here, at a pace of their own.
    dead_count = 3 + (2 if filling.has_expiry else 0)
    wait_until(lambda: client.counts("graveyard")[0] >= dead_count)
    dead = [(body, _reason(each)) for body, each in _all_of(client, "graveyard")]
    assert [each for each in dead if each[1] == "rejected"] == [
        (b"bad %d" % number, "rejected") for number in range(3)
    ]
    if filling.has_expiry:
        expired = [body for body, reason in dead if reason == "expired"]
        wanted = [b"fades", b"sooner"]
        assert (sorted(set(expired)) if was_killed else expired) == wanted
    # Bindings route as they did: else it would be returned.
    client.send(publish("order.9", b"new", PERSISTENT, exchange="events", mandatory=True))
    client.expect_type(1, BasicAck)
    assert [body for body, _ in _all_of(client, "orders")] == [b"new"]
    client.close()


def _header(properties: Properties, name: str) -> Any:
    assert properties.headers is not None
    return properties.headers[name]


def _reason(properties: Properties) -> str:
    """Why a message became a dead letter, by the newest entry of its x-death."""
    [newest, *_] = _header(properties, "x-death")[1]
    reason: str = newest[1]["reason"][1]
    return reason


def _all_of(client: Client, queue: str) -> list[tuple[bytes, Properties]]:
    found = []
    while True:
        answer = client.ask(1, BasicGet(queue=queue, no_ack=True))
        if isinstance(answer, BasicGetEmpty):
            return found
        assert isinstance(answer, BasicGetOk), answer
        content = client.read_content(1)
        found.append((content.body, content.properties))
