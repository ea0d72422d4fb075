"""Messages of a producer and an id, for queues with a dedup window."""

from __future__ import annotations

from collections.abc import Callable

from dashed import dashed
from leveret.amqp_frames.methods import BasicAck, BasicNack
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Plain, table_of
from wire import Client, publish

Connect = Callable[..., Client]


def known(
    number: object,
    producer: str = "p",
    mode: int = 2,
    priority: int | None = None,
    expiration: str | None = None,
    **headers: Plain,
) -> Properties:
    """A persistent message of this producer and id."""
    table = table_of({"x-dedup-producer": producer, "x-dedup-id": f"{number}", **headers})
    return Properties(headers=table, delivery_mode=mode, priority=priority, expiration=expiration)


def declare(client: Client, queue: str = "q", durable: bool = True, **arguments: Plain) -> None:
    """A queue with a window of 1,000; other arguments as x_max_length=1 or window=5."""
    table = {"x-dedup-window": arguments.pop("window", 1000)}
    table |= dashed(arguments)
    client.declare(queue, durable=durable, arguments=table_of(table))


def numbers(client: Client, queue: str = "q") -> list[bytes]:
    """The bodies of all that is ready, taken out."""
    found = []
    while (got := client.get(queue, no_ack=True)) is not None:
        found.append(got.body)
    return found


def each(queue: str, *ids: int, mode: int = 2, body: bytes = b"") -> bytes:
    """Publishes of these ids, whose bodies are the ids unless another is given."""
    return b"".join(publish(queue, body or b"%d" % n, known(n, mode=mode)) for n in ids)


def nacked(client: Client, first: int, last: int) -> set[int]:
    """Which of these publishes are nacked, when all are answered, each once."""
    answered: dict[int, type] = {}
    while len(answered) < last - first + 1:
        answer = client.read_method(1)
        assert isinstance(answer, BasicAck | BasicNack)
        low = first if answer.multiple else answer.delivery_tag
        for number in range(low, answer.delivery_tag + 1):
            answered.setdefault(number, type(answer))
    return {number for number, kind in answered.items() if kind is BasicNack}


def publisher(connect: Connect) -> Client:
    client = connect()
    client.open_channel(1, confirms=True)
    return client
