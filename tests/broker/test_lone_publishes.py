"""Many connections that publish a message each: a queue takes what comes together as one batch."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import leveret
import pytest
from gated_files import GatedFiles
from insides import channel_actor, fail, inside, on_loop, queue_actor, readers
from leveret.actors.messages import Append
from leveret.actors.queue import queue
from leveret.actors.queue.answers import QueueAnswers
from leveret.amqp_frames.decoder import Decoder
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicNack,
    BasicReturn,
    QueueBind,
    QueueBindOk,
)
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import table_of
from shop import identified
from wire import FRAME_MAX_BYTES, PERSISTENT, Client, publish

Connect = Callable[..., Client]
COUNT = 12


@pytest.fixture
def clients(connect: Connect) -> list[Client]:
    """Each with a channel in confirm mode."""
    made = [connect() for _ in range(COUNT)]
    for each in made:
        each.open_channel(1, confirms=True)
    return made


def together(broker: leveret.Broker, *wires: bytes) -> None:
    """Have one channel after the other publish this, before any actor has a turn."""
    channels = [inside(channel_actor(reader)) for reader in readers(broker)]
    calls = [
        partial(channel.on_receive, read)  # type: ignore[arg-type]
        for channel, wire in zip(channels, wires, strict=False)
        for read in Decoder(FRAME_MAX_BYTES, 100_000, 100_000).feed(wire)
    ]
    on_loop(broker, *calls)


def opened(broker: leveret.Broker) -> Client:
    client = Client(broker.host, broker.port).log_in()
    client.open_channel(1, confirms=True)
    return client


def appended(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of batches that a queue has told the journal, from now on."""
    sizes: list[int] = []
    owe = QueueAnswers.owe

    def noted(answers: QueueAnswers, append: Append) -> None:
        sizes.append(len(append.indexes))
        owe(answers, append)

    monkeypatch.setattr(QueueAnswers, "owe", noted)
    return sizes


def bodies(client: Client, queue: str, count: int) -> list[bytes]:
    found = first_bodies(client, queue, count)
    assert client.get(queue, no_ack=True) is None
    return found


def first_bodies(client: Client, queue: str, count: int) -> list[bytes]:
    found = [client.get(queue, no_ack=True) for _ in range(count)]
    return [each.body for each in found if each is not None]


def test_they_are_one_batch_and_each_is_confirmed_to_its_publisher_once(
    broker: leveret.Broker, clients: list[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    clients[0].declare("q", durable=True)
    sizes = appended(monkeypatch)
    for round_number in range(3):
        # Of different sizes, and the tags are each channel's own.
        wires = [
            publish("q", b"%d of %d" % (round_number, n) * (1 + n), PERSISTENT)
            for n in range(COUNT)
        ]
        together(broker, *wires)
        for client in clients:
            client.expect(1, BasicAck(round_number + 1, False))
    for client in clients:
        client.nothing_more()
    assert sizes == [COUNT] * 3
    found = bodies(clients[0], "q", 3 * COUNT)
    assert found == [b"%d of %d" % (r, n) * (1 + n) for r in range(3) for n in range(COUNT)]


def test_only_so_many_wait_for_the_end_of_the_turn(
    broker: leveret.Broker, clients: list[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    clients[0].declare("q", durable=True)
    sizes = appended(monkeypatch)
    monkeypatch.setattr(queue, "GATHERED_COUNT_MAX", 5)
    together(broker, *[publish("q", b"%d" % n, PERSISTENT) for n in range(COUNT)])
    for client in clients:
        client.expect(1, BasicAck(1, False))
    assert sizes == [5, 5, 2]
    assert bodies(clients[0], "q", COUNT) == [b"%d" % n for n in range(COUNT)]


def test_fsync_before_confirm_for_each_of_them(
    broker: leveret.Broker, clients: list[Client], files: GatedFiles
) -> None:
    clients[0].declare("q", durable=True)
    files.hold()
    together(broker, *[publish("q", b"%d" % n, PERSISTENT) for n in range(COUNT)])
    files.wait_until_syncing()
    for client in clients:
        client.nothing_more()
    files.release()
    for client in clients:
        client.expect(1, BasicAck(1, False))


def test_transient_ones_among_them_are_confirmed_at_once_and_all_stay_in_order(
    broker: leveret.Broker, clients: list[Client], files: GatedFiles
) -> None:
    clients[0].declare("q", durable=True)
    files.hold()
    is_persistent = [n % 4 in (0, 1) for n in range(COUNT)]
    wires = [
        publish("q", b"%d" % n, PERSISTENT if kept else Properties())
        for n, kept in enumerate(is_persistent)
    ]
    together(broker, *wires)
    files.wait_until_syncing()
    for client, kept in zip(clients, is_persistent, strict=True):
        if not kept:
            client.expect(1, BasicAck(1, False))
        client.nothing_more()
    files.release()
    for client, kept in zip(clients, is_persistent, strict=True):
        if kept:
            client.expect(1, BasicAck(1, False))
    assert bodies(clients[0], "q", COUNT) == [b"%d" % n for n in range(COUNT)]


def test_what_expires_is_delayed_or_comes_with_others_in_one_read_keeps_its_own(
    broker: leveret.Broker, clients: list[Client]
) -> None:
    clients[0].declare("q", durable=True)
    long_lived = Properties(delivery_mode=2, expiration="60000")
    wires = [publish("q", b"%d" % n, PERSISTENT) for n in range(COUNT)]
    wires[3] = publish("q", b"3", long_lived)
    wires[5] = publish("q", b"5", PERSISTENT) + publish("nobody", b"", PERSISTENT, mandatory=True)
    wires[7] = publish("q", b"7", PERSISTENT) + publish("q", b"7b", PERSISTENT)
    together(broker, *wires)
    for number, client in enumerate(clients):
        if number == 5:
            # Return before confirm.
            assert client.expect_type(1, BasicReturn).routing_key == "nobody"
            assert client.read_content(1).body == b""
            client.expect(1, BasicAck(2, False), BasicAck(1, False))
        elif number == 7:
            client.expect_acks(range(1, 3))
        else:
            client.expect(1, BasicAck(1, False))
        client.nothing_more()
    wanted = [b"%d" % n for n in range(COUNT)]
    wanted.insert(8, b"7b")
    assert bodies(clients[0], "q", COUNT + 1) == wanted


def test_a_queue_that_fails_of_them_nacks_each_to_its_publisher(
    broker: leveret.Broker, clients: list[Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    clients[0].declare("q", durable=True)

    def fail_to_merge(*_arguments: object) -> None:
        raise ValueError("a mistake of ours")

    monkeypatch.setattr(queue, "as_one", fail_to_merge)
    together(broker, *[publish("q", b"%d" % n, PERSISTENT) for n in range(COUNT)])
    for client in clients:
        client.expect(1, BasicNack(1, False, True))
        client.nothing_more()


def test_a_queue_that_fails_behind_them_nacks_each_to_its_publisher(
    broker: leveret.Broker, clients: list[Client], files: GatedFiles
) -> None:
    clients[0].declare("q", durable=True)
    files.hold()
    together(broker, *[publish("q", b"%d" % n, PERSISTENT) for n in range(COUNT)])
    files.wait_until_syncing()
    fail(queue_actor(broker, "q"))
    for client in clients:
        client.expect(1, BasicNack(1, False, True))
    files.release()
    for client in clients:
        client.nothing_more()


@pytest.mark.parametrize(
    ("settings", "copies"),
    [({}, 1), ({"shared_runs_bytes_max": 0}, 3)],
    ids=["by default", "where nothing may be kept for other queues"],
)
def test_the_journal_has_those_of_a_fanout_once_for_all_queues(
    broker: leveret.Broker, clients: list[Client], tmp_path: Path, copies: int
) -> None:
    names = ["a", "b", "c"]
    for name in names:
        clients[0].declare(name, durable=True)
        bound = clients[0].ask(1, QueueBind(queue=name, exchange="amq.fanout"))
        assert bound == QueueBindOk()
    wanted = [b"to all %d." % n for n in range(COUNT)]
    together(broker, *[publish("", body, PERSISTENT, exchange="amq.fanout") for body in wanted])
    for client in clients:
        client.expect(1, BasicAck(1, False))
        client.nothing_more()
    files = [each.read_bytes() for each in tmp_path.rglob("*") if each.is_file()]
    assert [sum(data.count(body) for data in files) for body in wanted] == [copies] * COUNT
    # Each queue has its own life of them.
    assert first_bodies(clients[0], "a", COUNT) == wanted
    for name in names[1:]:
        assert bodies(clients[0], name, COUNT) == wanted


def test_within_a_limit_that_refuses_the_first_get_the_room(
    broker: leveret.Broker, clients: list[Client]
) -> None:
    clients[0].declare(
        "q", durable=True, arguments=table_of({"x-max-length": 5, "x-overflow": "reject-publish"})
    )
    together(broker, *[publish("q", b"%d" % n, PERSISTENT) for n in range(COUNT)])
    for number, client in enumerate(clients):
        answer = BasicAck(1, False) if number < 5 else BasicNack(1, False, True)
        client.expect(1, answer)
    assert bodies(clients[0], "q", 5) == [b"%d" % n for n in range(5)]


def test_a_window_for_duplicates_knows_each_of_them(
    broker: leveret.Broker, clients: list[Client]
) -> None:
    clients[0].declare("q", durable=True, arguments=table_of({"x-dedup-window": 100}))
    wires = [publish("q", b"%d" % n, identified(n // 2)) for n in range(COUNT)]
    together(broker, *wires)
    for client in clients:
        client.expect(1, BasicAck(1, False))
    assert bodies(clients[0], "q", COUNT // 2) == [b"%d" % n for n in range(0, COUNT, 2)]


def test_they_are_there_after_a_restart(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with leveret.Broker(data_dir=data, port=0, log_level="error") as broker:
        clients = [opened(broker) for _ in range(COUNT)]
        clients[0].declare("q", durable=True)
        wires = [publish("q", b"%d" % n, PERSISTENT) for n in range(COUNT)]
        together(broker, *wires)
        for client in clients:
            client.expect(1, BasicAck(1, False))
        # The first are gone, and those behind them in the batch are not.
        assert first_bodies(clients[0], "q", 3) == [b"0", b"1", b"2"]
        for client in clients:
            client.close()
    with leveret.Broker(data_dir=data, port=0, log_level="error") as broker:
        client = opened(broker)
        assert bodies(client, "q", COUNT - 3) == [b"%d" % n for n in range(3, COUNT)]
        client.close()
