"""The limits of a transaction, and transactions of real clients side by side."""

from __future__ import annotations

import threading
from collections.abc import Callable

import leveret
import pika
import pytest
from holding import part, parts
from insides import channel_actor, inside, publish_window, readers, wait_until
from leveret.amqp_frames.messages.batch import Batch
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicDeliver,
    ChannelClose,
    ChannelCloseOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from leveret.core.channel.transaction import TransactionMemory
from pika.exceptions import ChannelClosedByBroker
from timeouts import TIMEOUT_SECONDS
from transactions import COMMIT, bodies, commit, transactional
from wire import Client, publish


@pytest.fixture
def client(connect: Callable[..., Client]) -> Client:
    return transactional(connect)


class TestLimits:
    @pytest.fixture
    def settings(self) -> dict[str, object]:
        return {"transaction_bytes_max": 65_536, "publish_window_bytes_max": 65_536}

    TEXT = (
        "PRECONDITION_FAILED - transaction size of the connection is larger than "
        "configured max size 65536"
    )

    def test_a_transaction_above_the_limit_closes_its_channel(self, client: Client) -> None:
        client.declare("q")
        client.send(publish("q", bytes(50_000)))
        client.nothing_more()
        client.send(publish("q", bytes(20_000)))
        client.expect(1, ChannelClose(406, self.TEXT, 60, 40))
        assert client.counts("q", 2) == (0, 0)

    def test_a_commit_makes_room(self, client: Client) -> None:
        client.declare("q")
        for _ in range(5):
            client.send(publish("q", bytes(50_000)), COMMIT)
            client.expect(1, TxCommitOk())
        assert client.counts("q", 2) == (5, 0)

    def test_small_messages_in_many_reads_are_counted_with_their_keep(self, client: Client) -> None:
        client.declare("q")
        for _ in range(15):
            client.send(publish("q"))
            client.nothing_more()
        client.send(publish("q"))
        client.expect(1, ChannelClose(406, self.TEXT, 60, 40))

    def test_acknowledgements_count(self, client: Client) -> None:
        client.declare("q")
        count = 600
        for _ in range(2):
            client.send(*[publish("q", b"")] * (count // 2), COMMIT)
            client.expect(1, TxCommitOk())
        client.consume("q")
        for _ in range(count):
            client.expect_type(1, BasicDeliver)
            client.read_content(1)
        # Every other tag: a row of its own for each.
        client.send_methods(1, *(BasicAck(tag) for tag in range(1, count, 2)))
        client.expect(1, ChannelClose(406, self.TEXT, 60, 80))
        client.wait_for_counts("q", (count, 0), 2)

    def test_all_channels_of_a_connection_share_the_limit_and_other_connections_do_not(
        self, client: Client, connect: Callable[..., Client], broker: leveret.Broker
    ) -> None:
        client.declare("q")
        for channel in (3, 4):
            client.open_channel(channel)
            assert client.ask(channel, TxSelect()) == TxSelectOk()
        for channel in (1, 3):
            client.send(publish("q", bytes(25_000), channel=channel))
            client.nothing_more(channel)
        other = transactional(connect)
        other.send(publish("q", bytes(50_000)))
        other.nothing_more()
        client.send(publish("q", bytes(25_000), channel=4))
        client.expect(4, ChannelClose(406, self.TEXT, 60, 40))
        client.send_methods(4, ChannelCloseOk())
        # What it held is free; what a rollback, a commit or a close of the channel frees, too.
        for number, ending in enumerate((TxRollback(), TxCommit(), ChannelClose(200, "bye"))):
            client.ask(3, ending)
            client.open_channel(10 + number)
            assert client.ask(10 + number, TxSelect()) == TxSelectOk()
            client.send(publish("q", bytes(25_000), channel=10 + number))
            assert client.ask(10 + number, TxRollback()) == TxRollbackOk()
            if number < 2:
                client.send(publish("q", bytes(25_000), channel=3))
                client.nothing_more(3)
        commit(client)
        memory = part(inside(readers(broker)[0]), TransactionMemory)
        assert memory.used_bytes == 0
        commit(other)

    def test_few_held_messages_keep_no_whole_read(
        self, client: Client, broker: leveret.Broker
    ) -> None:
        client.declare("q")
        client.send(publish("q", b"held"), publish("nowhere", bytes(50_000), channel=2))
        client.nothing_more()
        held = parts(inside(channel_actor(readers(broker)[0])), Batch)
        assert held
        assert sum(len(batch.wire) for batch in held) < 1000
        commit(client)
        assert bodies(client) == [b"held"]


class TestWindow:
    @pytest.fixture
    def settings(self) -> dict[str, object]:
        return {"transaction_bytes_max": 262_144, "publish_window_bytes_max": 65_536}

    def test_what_is_held_does_not_close_the_window_that_lets_the_commit_in(
        self, connect: Callable[..., Client], broker: leveret.Broker
    ) -> None:
        client = connect()
        for channel in (1, 2, 3):
            client.open_channel(channel)
            assert client.ask(channel, TxSelect()) == TxSelectOk()
        client.declare("q")
        for channel in (1, 2, 3):
            client.send(publish("q", bytes(50_000), channel=channel))
        window = publish_window(readers(broker)[0])
        for channel in (1, 2, 3):
            assert client.ask(channel, TxCommit()) == TxCommitOk()
        assert client.counts("q") == (3, 0)
        wait_until(lambda: window.used_bytes == 0)


# --- pika


def test_pika_commits_and_rolls_back(broker: leveret.Broker) -> None:
    parameters = pika.ConnectionParameters(broker.host, broker.port)
    with pika.BlockingConnection(parameters) as connection:
        channel, other = connection.channel(), connection.channel()
        channel.queue_declare("q", durable=True)
        channel.tx_select()
        durable = pika.BasicProperties(delivery_mode=2)
        channel.basic_publish("", "q", b"lost", durable)
        channel.tx_rollback()
        channel.basic_publish("", "q", b"kept", durable)
        assert other.queue_declare("q", passive=True).method.message_count == 0
        channel.tx_commit()
        method, _, body = channel.basic_get("q")
        assert body == b"kept"
        channel.basic_ack(method.delivery_tag)
        channel.tx_commit()
        with pytest.raises(ChannelClosedByBroker) as closed:
            channel.confirm_delivery()
        assert closed.value.reply_text == (
            "PRECONDITION_FAILED - cannot switch from tx to confirm mode"
        )
        assert other.queue_declare("q", passive=True).method.message_count == 0


def test_two_connections_commit_at_the_same_time(broker: leveret.Broker) -> None:
    def work(name: bytes) -> None:
        parameters = pika.ConnectionParameters(broker.host, broker.port)
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            channel.queue_declare("q", durable=True)
            channel.tx_select()
            for number in range(20):
                for part in range(5):
                    body = b"%s %d %d" % (name, number, part)
                    channel.basic_publish("", "q", body, pika.BasicProperties(delivery_mode=2))
                channel.tx_rollback() if number % 2 else channel.tx_commit()

    threads = [threading.Thread(target=work, args=(name,)) for name in (b"a", b"b")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(TIMEOUT_SECONDS)
        assert not thread.is_alive()
    with Client(broker.host, broker.port) as client:
        client.log_in().open_channel(2)
        found = bodies(client)
    for name in (b"a", b"b"):
        mine = [body for body in found if body.startswith(name)]
        assert mine == [
            b"%s %d %d" % (name, number, part) for number in range(0, 20, 2) for part in range(5)
        ]
