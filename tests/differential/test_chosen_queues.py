"""Exchanges that choose one of their queues: by a hash and by chance, and what they refuse.

Which queue a value goes to is each broker's own matter; so the scripts write down how many messages
each queue got, as far as that is no chance, and whether equal values are together.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest
from both_brokers import BothBrokers
from dashed import dashed
from leveret.amqp_frames.methods import (
    BasicGet,
    BasicGetOk,
    ExchangeBind,
    ExchangeDeclare,
    Method,
    QueueBind,
    QueueDeclare,
    QueueUnbind,
)
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Field, Table, table_of
from scripted_channel import Channel
from scripted_session import Session

VALUES = 300
# What weights 1 and 3 may get of so many values: far from what the other weight gets.
SHARES = {1: range(VALUES * 15 // 100, VALUES * 35 // 100), 3: range(195, 256)}


def hashing(**arguments: str) -> ExchangeDeclare:
    named = dashed(arguments)
    return ExchangeDeclare(exchange="x", type="x-consistent-hash", arguments=table_of(named))


def bodies(channel: Channel, queue: str) -> list[bytes]:
    """All that is in the queue, fetched and not written down."""
    found = []
    while True:
        channel.send(BasicGet(queue=queue, no_ack=True))
        command = channel.connection.next_command(channel.number)
        if not isinstance(command.method, BasicGetOk):
            return found
        found.append(command.body)


def declare(channel: Channel, exchange: ExchangeDeclare, weights: Mapping[str, str]) -> None:
    channel.ask(exchange)
    for queue, weight in weights.items():
        channel.ask(QueueDeclare(queue=queue), QueueBind(0, queue, "x", weight))


def by_property(properties: Callable[[int], Properties], **arguments: str) -> None:
    """A script: values part by their weights, equal ones do not, whatever their key."""

    def script(session: Session) -> None:
        channel = session.channel()
        declare(channel, hashing(**arguments), {"light": "1", "heavy": "3"})
        is_by_key = not arguments
        for turn in range(2):
            for value in range(VALUES):
                key = str(value) if is_by_key else f"{turn} {value}"
                channel.publish(key, b"%d" % value, properties(value), exchange="x")
        channel.settled()
        found = {queue: bodies(channel, queue) for queue in ("light", "heavy")}
        for (queue, got), weight in zip(found.items(), SHARES, strict=True):
            values = set(got)
            session.record(queue, f"equal values together: {len(got) == 2 * len(values)}")
            session.record(queue, f"about its share: {len(values) in SHARES[weight]}")

    return script  # type: ignore[return-value]


def header(value: int) -> Properties:
    return Properties(headers={"customer": Field("longstr", f"c{value}")})


SCRIPTS: dict[str, Callable[[Session], None]] = {
    "by routing key": by_property(lambda _: Properties()),
    "by a header": by_property(header, hash_header="customer"),
    "by message id": by_property(
        lambda value: Properties(message_id=f"m{value}"), hash_property="message_id"
    ),
    "by correlation id": by_property(
        lambda value: Properties(correlation_id=f"m{value}"), hash_property="correlation_id"
    ),
    "by timestamp": by_property(
        lambda value: Properties(timestamp=value), hash_property="timestamp"
    ),
}  # type: ignore[dict-item]


def without_a_value(session: Session) -> None:
    """Messages without the header are all in one queue; without bindings they come back."""
    channel = session.channel()
    declare(channel, hashing(hash_header="h"), {})
    channel.publish("k", b"nobody", exchange="x", mandatory=True)
    channel.settled()
    for queue in "abc":
        channel.ask(QueueDeclare(queue=queue), QueueBind(0, queue, "x", "1"))
    for number in range(20):
        channel.publish(f"{number}", b"body", exchange="x", mandatory=True)
    channel.settled()
    counts = sorted(len(bodies(channel, queue)) for queue in "abc")
    session.record("queues", f"have {counts}")


def through_an_exchange(session: Session) -> None:
    channel = session.channel()
    declare(channel, hashing(), {"direct": "1"})
    channel.ask(
        ExchangeDeclare(exchange="y", type="fanout"),
        QueueDeclare(queue="behind"),
        QueueBind(0, "behind", "y"),
        ExchangeBind(0, "y", "x", "1"),
    )
    for number in range(100):
        channel.publish(f"{number}", b"body", exchange="x", mandatory=True)
    channel.settled()
    counts = [len(bodies(channel, queue)) for queue in ("direct", "behind")]
    session.record("queues", f"have {sum(counts)}, each some: {all(counts)}")


def by_chance(session: Session) -> None:
    """Each message is in one queue, and none of 100 equal ones decides for the others."""
    channel = session.channel()
    declare(channel, ExchangeDeclare(exchange="x", type="x-random"), {"a": "", "b": "1", "c": "k"})
    channel.ask(QueueBind(0, "a", "x", "again"))
    for _ in range(100):
        channel.publish("k", b"body", exchange="x", mandatory=True)
    channel.settled()
    counts = [len(bodies(channel, queue)) for queue in "abc"]
    session.record("queues", f"have {sum(counts)}, each some: {all(counts)}")
    channel.ask(*(QueueUnbind(0, queue, "x", key) for queue, key in (("b", "1"), ("c", "k"))))
    channel.publish("k", b"body", exchange="x", mandatory=True)
    channel.ask(QueueUnbind(0, "a", "x", ""), QueueUnbind(0, "a", "x", "again"))
    channel.publish("k", b"body", exchange="x", mandatory=True)
    channel.settled()
    session.record("a", f"has {len(bodies(channel, 'a'))}")


SCRIPTS |= {
    each.__name__.replace("_", " "): each
    for each in (without_a_value, through_an_exchange, by_chance)
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_one_queue_is_chosen(both: BothBrokers, name: str) -> None:
    both.compare(name, SCRIPTS[name])


def arguments(**named: Field) -> Table:
    return dashed(named)


def text(value: str) -> Field:
    return Field("longstr", value)


def hash_with(**named: Field) -> list[Method]:
    return [ExchangeDeclare(exchange="x", type="x-consistent-hash", arguments=arguments(**named))]


def weight(key: str) -> list[Method]:
    return [hashing(), QueueDeclare(queue="q"), QueueBind(0, "q", "x", key)]


REFUSED: dict[str, Sequence[Method]] = {
    "chosen: both": hash_with(hash_header=text("h"), hash_property=text("message_id")),
    "chosen: another property": hash_with(hash_property=text("app_id")),
    "chosen: a header that is no text": hash_with(hash_header=Field("signedint", 1)),
    "chosen: a property that is no text": hash_with(hash_property=Field("bool", True)),
    "chosen: a random exchange with arguments": [
        ExchangeDeclare(exchange="x", type="x-random", arguments=arguments(hash_header=text("h")))
    ],
    "chosen: declared otherwise": [hashing(), hashing(hash_header="h")],
    "chosen: bound twice": [*weight("1"), QueueBind(0, "q", "x", "2")],
    **{
        f"chosen: weight {key!r}": weight(key)
        for key in ("", "abc", "1.5", " 1", "1_0", "0", "-1", "+1", "007", "\u0661", '"', "1\n")
    },
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(both: BothBrokers, name: str) -> None:
    def script(session: Session) -> None:
        channel = session.channel()
        for method in REFUSED[name]:
            channel.ask(method)

    both.compare(name, script)
