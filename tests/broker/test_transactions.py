"""Transactions, frame by frame: nothing until the commit, whose answer stands behind its sync."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import leveret
import pytest
from gated_files import GatedFiles
from insides import fail, queue_actor, wait_until
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Field
from transactions import COMMIT, bodies, commit, transactional
from wire import PERSISTENT, Client, publish

PARTIAL = ChannelClose(406, "PRECONDITION_FAILED - partial tx completion", 90, 20)


@pytest.fixture
def client(connect: Callable[..., Client]) -> Client:
    return transactional(connect)


# --- Publishes


def test_publishes_are_held_until_the_commit(client: Client) -> None:
    client.declare("q")
    client.send(publish("q", b"1"), publish("q", b"2"))
    client.nothing_more()
    assert client.counts("q", 2) == (0, 0)
    client.send(publish("q", b"3"))
    commit(client)
    assert bodies(client) == [b"1", b"2", b"3"]
    # The next transaction begins at once.
    client.send(publish("q", b"4"))
    client.nothing_more()
    assert client.counts("q", 2) == (0, 0)
    commit(client)
    assert bodies(client) == [b"4"]


def test_a_commit_of_nothing_is_answered(client: Client) -> None:
    client.send_methods(1, TxCommit(), TxCommit(), TxRollback(), TxSelect(), TxCommit())
    client.expect(1, TxCommitOk(), TxCommitOk(), TxRollbackOk(), TxSelectOk(), TxCommitOk())


def test_a_rollback_forgets_what_was_published(client: Client) -> None:
    client.declare("q")
    client.send(publish("q", b"1"), publish("nowhere", b"2", mandatory=True))
    assert client.ask(1, TxRollback()) == TxRollbackOk()
    client.send(publish("q", b"3"))
    commit(client)
    assert bodies(client) == [b"3"]


def test_an_uncommitted_transaction_is_forgotten_when_its_channel_closes(client: Client) -> None:
    client.declare("q")
    client.send(publish("q", b"1"))
    assert client.ask(1, ChannelClose(200, "bye")) == ChannelCloseOk()
    assert client.counts("q", 2) == (0, 0)


def test_commit_ok_comes_behind_the_sync_of_all_that_is_persistent(
    client: Client, files: GatedFiles
) -> None:
    client.declare("durable", durable=True)
    client.declare("other", durable=True)
    files.hold()
    client.send(publish("durable", b"1", PERSISTENT), publish("other", b"2", PERSISTENT), COMMIT)
    files.wait_until_syncing()
    # What comes behind the commit waits with it; another channel does not.
    client.send(publish("durable", b"3", PERSISTENT), COMMIT)
    client.nothing_more(2)
    files.release()
    client.expect(1, TxCommitOk(), TxCommitOk())
    assert bodies(client, "durable") == [b"1", b"3"]


def test_a_transient_transaction_does_not_wait_for_the_disk(
    client: Client, files: GatedFiles
) -> None:
    client.declare("q")
    client.declare("durable", durable=True)
    files.hold()
    client.send(publish("q"), publish("durable"), publish("nowhere"), COMMIT)
    client.expect(1, TxCommitOk())
    assert files.syncs_begun == 0


def test_a_committed_transaction_survives_a_restart_and_an_open_one_does_not(
    tmp_path: Path,
) -> None:
    settings: dict[str, Any] = {"data_dir": tmp_path / "tx", "port": 0, "log_level": "error"}
    with leveret.Broker(**settings) as broker, Client(broker.host, broker.port) as client:
        client.log_in().open_channel(1)
        client.declare("q", durable=True)
        assert client.ask(1, TxSelect()) == TxSelectOk()
        client.send(*(publish("q", b"%d" % number, PERSISTENT) for number in range(100)))
        commit(client)
        client.send(publish("q", b"open", PERSISTENT))
        client.nothing_more()
    with leveret.Broker(**settings) as broker, Client(broker.host, broker.port) as client:
        client.log_in().open_channel(2)
        assert bodies(client) == [b"%d" % number for number in range(100)]


def test_a_transaction_of_many_reads_is_committed_in_order(client: Client) -> None:
    # More batches than one turn of the commit routes.
    client.declare("q")
    for number in range(200):
        client.send(publish("q", b"%d" % number))
        client.nothing_more()
    commit(client)
    assert bodies(client) == [b"%d" % number for number in range(200)]


# --- Returns and mistakes


def test_returns_go_out_at_the_commit_before_its_answer_and_without_acks(client: Client) -> None:
    client.send(publish("nowhere", b"1", mandatory=True), publish("nowhere", b"2"))
    client.send(publish("nowhere", b"3", mandatory=True))
    client.nothing_more()
    client.send(COMMIT)
    for body in (b"1", b"3"):
        client.expect(1, BasicReturn(312, "NO_ROUTE", "", "nowhere"))
        assert client.read_content(1).body == body
    client.expect(1, TxCommitOk())


def test_a_queue_declared_before_the_commit_is_routed_to(client: Client) -> None:
    client.send(publish("q", b"1", mandatory=True))
    client.nothing_more()
    client.declare("q")
    commit(client)
    assert bodies(client) == [b"1"]


def test_a_mistake_is_told_when_it_is_published_and_ends_the_transaction(client: Client) -> None:
    client.declare("q")
    client.send(publish("q"), publish("k", exchange="missing"))
    text = "NOT_FOUND - no exchange 'missing' in vhost '/'"
    client.expect(1, ChannelClose(404, text, 60, 40))
    assert client.counts("q", 2) == (0, 0)


def test_an_exchange_that_went_before_the_commit_refuses_all_of_it(client: Client) -> None:
    client.declare("q")
    assert client.ask(2, ExchangeDeclare(exchange="x", type="fanout")) == ExchangeDeclareOk()
    client.send(publish("q"), publish("k", exchange="x"))
    client.nothing_more()
    assert client.ask(2, ExchangeDelete(exchange="x")) == ExchangeDeleteOk()
    client.send(COMMIT)
    text = "NOT_FOUND - no exchange 'x' in vhost '/'"
    client.expect(1, ChannelClose(404, text, 90, 20))
    assert client.counts("q", 2) == (0, 0)


def test_a_queue_that_refuses_a_part_makes_the_commit_fail_after_the_rest(
    client: Client, broker: leveret.Broker, files: GatedFiles
) -> None:
    client.declare("bad", durable=True)
    client.declare("good", durable=True)
    files.hold()
    client.send(publish("good", b"1", PERSISTENT), publish("bad", b"2", PERSISTENT), COMMIT)
    files.wait_until_syncing()
    fail(queue_actor(broker, "bad"))
    client.nothing_more(2)
    files.release()
    client.expect(1, PARTIAL)
    client.send_methods(1, ChannelCloseOk())
    assert bodies(client, "good") == [b"1"]


def test_a_queue_that_is_down_makes_the_commit_fail(client: Client, broker: leveret.Broker) -> None:
    client.declare("q")
    queue = queue_actor(broker, "q")
    fail(queue)
    wait_until(lambda: not queue.is_alive())
    client.send(publish("q"), COMMIT)
    client.expect(1, PARTIAL)


def test_copies_are_held_with_their_keys_and_without_bcc(client: Client) -> None:
    client.declare("a")
    client.declare("b")
    bcc = Field("array", [Field("longstr", "b")])
    client.send(publish("a", b"1", Properties(headers={"BCC": bcc})))
    commit(client)
    assert (bodies(client, "a"), bodies(client, "b")) == ([b"1"], [b"1"])


# --- Modes


def test_tx_mode_after_publishes_outside_of_it(connect: Callable[..., Client]) -> None:
    client = connect()
    client.open_channel(1)
    client.open_channel(2)
    client.declare("q")
    client.send(publish("q", b"before"))
    assert client.ask(1, TxSelect()) == TxSelectOk()
    client.send(publish("q", b"held"))
    commit(client)
    assert bodies(client) == [b"before", b"held"]


def test_another_channel_may_be_in_confirm_mode(client: Client) -> None:
    client.declare("q")
    assert client.ask(2, ConfirmSelect()) == ConfirmSelectOk()
    client.send(publish("q", b"held"), publish("q", b"free", channel=2))
    client.expect(2, BasicAck(1, False))
    assert bodies(client) == [b"free"]
    commit(client)
    assert bodies(client) == [b"held"]
