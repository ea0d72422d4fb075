"""The firehose: the copies that are made of publishes and deliveries, and their bounds."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from batches import batch_of
from leveret.amqp_frames.messages.batch import Batch
from leveret.amqp_frames.properties import Properties, decode_properties
from leveret.amqp_frames.values.field_table import Field
from leveret.core.exchanges.table import carry_out
from leveret.core.publishing.firehose import (
    COPIED_BYTES_PER_TURN_MAX,
    COPIES_PER_TURN_MAX,
    DeliveryReport,
    FirehoseBacklog,
    FirehoseBatch,
    Origin,
    PublishReport,
)
from leveret.core.publishing.routes import names_of_key, property_octets
from leveret.core.queue.span import Span
from publishing import publisher_of
from wire import PERSISTENT, publish

FIREHOSE = "amq.rabbitmq.trace"
ORIGIN = Origin("/", "1.2.3.4:5 -> 6.7.8.9:10", 7, "hare")


@pytest.fixture
def new_backlog(commands) -> Callable[..., FirehoseBacklog]:
    def new(bytes_max: int = 1_000_000) -> FirehoseBacklog:
        numbers = itertools.count(1).__next__
        return FirehoseBacklog({"/": commands.table}.get, numbers, "leveret@here", bytes_max)

    return new


@pytest.fixture
def backlog(new_backlog) -> FirehoseBacklog:
    return new_backlog()


@pytest.fixture(autouse=True)
def listener(commands) -> None:
    """A queue that gets all copies."""
    commands.declare_queue("copies")
    commands.bind("copies", FIREHOSE, "#")


def published(commands, *wires: bytes) -> PublishReport:
    routed = carry_out(publisher_of(commands).route(batch_of(*wires)))
    return PublishReport(
        ORIGIN, routed.batch, routed.message_count, routed.by_queue, routed.further
    )


def delivered(queue: str, *wires: bytes, attempts: int = 0) -> DeliveryReport:
    batch = batch_of(*wires)
    return DeliveryReport(ORIGIN, queue, Span(batch, range(len(batch)), 1, attempts, False))


def copies_of(made: FirehoseBatch | None) -> list[tuple[str, Properties]]:
    """Routing key and properties of each copy."""
    assert made is not None
    batch: Batch = made.batch
    found = []
    for index, number in enumerate(batch.keys):
        exchange, key = names_of_key(batch.distinct[number])
        assert exchange == FIREHOSE
        octets = property_octets(batch, index)
        found.append((key, decode_properties(octets, 0, len(octets))))
    return found


def headers_of(made: FirehoseBatch | None) -> dict[str, Field]:
    [(_, properties)] = copies_of(made)
    return dict(properties.headers or {})


def texts(field: Field) -> list[str]:
    return [item.value for item in field.value]  # type: ignore[union-attr,misc]


def test_a_copy_is_transient_and_goes_to_the_queues_of_its_key_only(commands, backlog) -> None:
    commands.declare_queue("q", durable=True)
    commands.declare_queue("publishes", durable=True)
    commands.bind("publishes", FIREHOSE, "publish.*")
    assert backlog.add(published(commands, publish("q", b"1", PERSISTENT)))
    assert backlog.add(delivered("q", publish("q", b"2", PERSISTENT)))
    made = backlog.make()
    assert [key for key, _ in copies_of(made)] == ["publish.", "deliver.q"]
    by_queue = {queue.name: list(indexes) for queue, indexes in made.by_queue.items()}
    assert by_queue == {"copies": [0, 1], "publishes": [0]}
    assert not any(made.batch.persistent)
    assert len(made.batch.durable) == 0


def test_a_publish_says_where_it_went(commands, backlog) -> None:
    for name in "ab":
        commands.declare_queue(name)
    commands.bind("a", "amq.direct", "k")
    commands.bind("b", "amq.direct", "k")
    wires = [publish("k", exchange="amq.direct"), publish("none", exchange="amq.direct")]
    backlog.add(published(commands, *wires))
    copies = copies_of(backlog.make())
    assert [key for key, _ in copies] == ["publish.amq.direct"] * 2
    assert [texts(each.headers["routed_queues"]) for _, each in copies] == [["a", "b"], []]
    assert [texts(each.headers["routing_keys"]) for _, each in copies] == [["k"], ["none"]]


def test_all_keys_of_a_publish_are_named_and_a_delivery_knows_its_cc(commands, backlog) -> None:
    keys = {
        name: Field("array", [Field("longstr", key)])
        for name, key in {"CC": "b", "BCC": "c"}.items()
    }
    wire = publish("a", properties=Properties(headers=keys))
    backlog.add(published(commands, wire))
    assert texts(headers_of(backlog.make())["routing_keys"]) == ["a", "b", "c"]
    backlog.add(delivered("a", wire, attempts=1))
    headers = headers_of(backlog.make())
    assert texts(headers["routing_keys"]) == ["a", "b"]
    assert headers["redelivered"] == Field("signedint", 1)


def test_the_copy_of_a_copy_is_not_made(backlog) -> None:
    backlog.add(delivered("copies", publish("publish.x", exchange=FIREHOSE), publish("q")))
    assert [key for key, _ in copies_of(backlog.make())] == ["deliver.copies"]


def test_nobody_listens(commands, backlog) -> None:
    commands.unbind("copies", FIREHOSE, "#")
    backlog.add(delivered("q", publish("q")))
    assert backlog.make() is None
    # The bytes go with the report, one turn later.
    assert not backlog
    assert backlog.waiting_bytes == 0


def test_a_vhost_that_has_gone_is_no_matter(commands, backlog) -> None:
    report = delivered("q", publish("q"))
    assert backlog.add(report._replace(origin=ORIGIN._replace(vhost="gone")))
    assert backlog.make() is None


def test_a_turn_makes_so_many_copies_and_so_many_bytes(backlog) -> None:
    backlog.add(delivered("q", *[publish("q")] * (2 * COPIES_PER_TURN_MAX + 5)))
    sizes = []
    while backlog:
        made = backlog.make()
        sizes.append(0 if made is None else len(made.batch))
    assert sizes == [COPIES_PER_TURN_MAX] * 2 + [5]
    backlog.add(delivered("q", *[publish("q", bytes(COPIED_BYTES_PER_TURN_MAX // 2))] * 6))
    made = backlog.make()
    assert made is not None
    assert 2 <= len(made.batch) < 6


def test_what_the_backlog_has_no_room_for_is_refused(new_backlog) -> None:
    report = delivered("q", publish("q", b"body"))
    backlog = new_backlog(2 * report.size_bytes())
    assert [backlog.add(report) for _ in range(3)] == [True, True, False]
    while backlog:
        backlog.make()
    assert backlog.waiting_bytes == 0
    assert backlog.add(report)
    # A report alone is copied, however large it is.
    assert new_backlog(0).add(report)


@pytest.mark.parametrize("name", ["q" * 255, "\u00e9" * 127])
def test_a_long_name_is_cut_in_the_key(backlog, name) -> None:
    backlog.add(delivered(name, publish("q")))
    [(key, _)] = copies_of(backlog.make())
    assert len(key.encode("utf-8", "surrogateescape")) <= 255
    assert key.startswith("deliver." + name[:100])


def nested(depth: int) -> dict[str, Field]:
    table: dict[str, Field] = {}
    for _ in range(depth - 1):
        table = {"t": Field("table", table)}
    return table


def test_headers_too_deep_to_be_read_in_a_copy_are_left_out(backlog) -> None:
    for depth in (1, 59, 61, 64):
        properties = Properties(headers=nested(depth), type="t")
        backlog.add(delivered("q", publish("q", properties=properties)))
    found = []
    for _, properties in copies_of(backlog.make()):
        table = properties.headers["properties"].value
        assert table["type"] == Field("longstr", "t")
        found.append("headers" in table)
    assert found == [True, True, False, False]


def test_numbers_are_32_bits_as_in_rabbitmq(backlog) -> None:
    properties = Properties(timestamp=2**32 - 1, priority=255)
    backlog.add(delivered("q", publish("q", properties=properties)))
    assert headers_of(backlog.make())["properties"].value == {
        "timestamp": Field("signedint", -1),
        "priority": Field("signedint", 255),
    }
