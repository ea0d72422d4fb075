"""A queue's window survives a restart, and also the removal of the messages that it remembers."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import leveret
from dashed import dashed
from holding import part
from insides import inside, on_loop, queue_actor
from leveret.amqp_frames.methods import QueuePurge, QueuePurgeOk
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import encode_table, table_of
from leveret.core.queue.construction import equip
from leveret.core.queue.rules import MessageQueue
from wire import Client, publish


@contextmanager
def started(directory: Path) -> Iterator[Client]:
    """A client of a broker on this directory, whose segments are small."""
    with started_with_broker(directory) as (_, client):
        yield client


@contextmanager
def started_with_broker(directory: Path) -> Iterator[tuple[leveret.Broker, Client]]:
    """The same, and the broker, which is in this process."""
    with (
        leveret.Broker(
            data_dir=directory / "data",
            port=0,
            segment_bytes_max=1 << 20,
            password_hash_cost=10,
            log_level="error",
        ) as broker,
        Client(broker.host, broker.port).log_in() as client,
    ):
        client.open_channel(1, confirms=True)
        yield broker, client


def known(number: int, mode: int = 2) -> Properties:
    headers = table_of({"x-dedup-producer": "p", "x-dedup-id": f"{number}"})
    return Properties(headers=headers, delivery_mode=mode)


def segments(directory: Path) -> list[str]:
    return sorted(path.name for path in (directory / "data" / "journal").glob("*.journal"))


def declare(client: Client, durable: bool = True, **arguments: int) -> None:
    table = {"x-dedup-window": 5000}
    table |= dashed(arguments)
    client.declare("q", durable=durable, arguments=table_of(table))


def test_a_window_outlives_its_messages_their_segments_and_several_restarts(tmp_path: Path) -> None:
    with started(tmp_path) as client:
        declare(client)
        first = segments(tmp_path)
        for start in range(0, 4000, 500):
            client.send(*(publish("q", bytes(1000), known(start + at)) for at in range(500)))
            client.expect_acks(range(start + 1, start + 501))
            assert client.ask(1, QueuePurge(queue="q")) == QueuePurgeOk(500)
    assert not set(first) & set(segments(tmp_path))
    for _ in range(2):
        with started(tmp_path) as client:
            assert client.counts("q") == (0, 0)
            client.send(*(publish("q", b"", known(number)) for number in range(4000)))
            client.expect_acks(range(1, 4001))
            assert client.counts("q") == (0, 0)


def test_what_was_transient_is_forgotten_with_it_and_what_was_stored_is_not(tmp_path: Path) -> None:
    with started(tmp_path) as client:
        declare(client)
        client.publish_all("q", b"stored", properties=known(1))
        client.publish_all("q", b"passing", properties=known(2, mode=1))
    with started(tmp_path) as client:
        assert client.counts("q") == (1, 0)
        client.publish_all("q", b"again", properties=known(1, mode=1))
        client.publish_all("q", b"new", properties=known(2, mode=1))
        assert client.counts("q") == (2, 0)


def change_catalog(directory: Path, arguments: dict[str, int]) -> None:
    """Let the stopped broker's queues have these arguments."""
    with closing(sqlite3.connect(directory / "data" / "catalog.sqlite")) as catalog, catalog:
        catalog.execute("UPDATE queues SET arguments = ?", (encode_table(table_of(arguments)),))


def equipped(broker: leveret.Broker, window: int | None) -> None:
    """Give the queue a window of this many messages, or none, as a policy would."""
    messages = part(inside(queue_actor(broker, "q")), MessageQueue)
    arguments = {} if window is None else {"x-dedup-window": window}
    on_loop(broker, lambda: equip(messages, table_of(arguments), 1 << 20))


def test_a_queue_that_loses_its_window_and_gets_one_again_begins_with_none(tmp_path: Path) -> None:
    with started_with_broker(tmp_path) as (broker, client):
        declare(client)
        client.publish_all("q", b"1", properties=known(1))
        equipped(broker, None)
        # The queue's next turn tells the journal.
        client.publish_all("q", b"1", properties=known(1))
        equipped(broker, 5000)
        client.publish_all("q", b"2", properties=known(2))
        assert client.counts("q") == (3, 0)
    with started(tmp_path) as client:
        # Of the first the journal has forgotten the identity; of the last it has not.
        client.publish_all("q", b"1", properties=known(1))
        client.publish_all("q", b"2", properties=known(2))
        assert client.counts("q") == (4, 0)


def test_a_start_forgets_what_a_queue_without_a_window_should_have_forgotten(
    tmp_path: Path,
) -> None:
    with started(tmp_path) as client:
        declare(client)
        client.publish_all("q", b"1", properties=known(1))
    change_catalog(tmp_path, {})
    with started(tmp_path):
        pass
    change_catalog(tmp_path, {"x-dedup-window": 5000})
    with started(tmp_path) as client:
        client.publish_all("q", b"1", properties=known(1))
        assert client.counts("q") == (2, 0)


def test_an_age_goes_on_while_the_broker_is_down(tmp_path: Path) -> None:
    with started(tmp_path) as client:
        declare(client, x_dedup_age_ms=1)
        client.publish_all("q", b"1", properties=known(1))
    with started(tmp_path) as client:
        client.publish_all("q", b"1", properties=known(1))
        assert client.counts("q") == (2, 0)
