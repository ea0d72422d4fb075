"""When a publish is confirmed: transient at once, persistent after its sync, and once each."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from gated_files import GatedFiles
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicNack,
    ChannelClose,
    ChannelCloseOk,
    ConnectionClose,
    ConnectionCloseOk,
    QueueBind,
    QueueBindOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)
from wire import PERSISTENT, Client, methods_of, publish


def test_fsync_before_confirm(client: Client, files: GatedFiles) -> None:
    client.declare("durable", durable=True)
    files.hold()
    client.send(publish("durable", b"1", PERSISTENT))
    files.wait_until_syncing()
    assert client.counts("durable") == (1, 0)
    client.nothing_more()
    files.release()
    client.expect(1, BasicAck(1, False))


def test_transient_messages_of_a_read_are_confirmed_before_the_sync_persistent_ones_after(
    client: Client, files: GatedFiles
) -> None:
    client.declare("durable", durable=True)
    files.hold()
    client.send(*(publish("durable"), publish("durable", b"p", PERSISTENT)) * 3, publish("durable"))
    # 2, 4 and 6 wait for the disk: only 1 lies below the smallest unconfirmed.
    client.expect(1, BasicAck(1, True), BasicAck(3, False), BasicAck(5, False), BasicAck(7, False))
    files.wait_until_syncing()
    client.nothing_more()
    files.release()
    client.expect(1, BasicAck(6, True))


def test_a_persistent_message_for_a_transient_queue_waits_for_no_sync(
    client: Client, files: GatedFiles
) -> None:
    client.declare("q", durable=False)
    files.hold()
    client.send(publish("q", b"1", PERSISTENT))
    client.expect(1, BasicAck(1, False))
    assert files.syncs_begun == 0


def test_a_persistent_message_for_an_exclusive_durable_queue_waits_for_no_sync(
    client: Client, files: GatedFiles
) -> None:
    client.declare("mine", durable=True, exclusive=True)
    files.hold()
    client.send(publish("mine", b"1", PERSISTENT))
    client.expect(1, BasicAck(1, False))
    assert files.syncs_begun == 0


def bind_three(client: Client) -> None:
    """One durable queue and two transient ones behind amq.fanout."""
    for name in ("durable", "transient", "other"):
        client.declare(name, durable=name == "durable")
        assert client.ask(1, QueueBind(queue=name, exchange="amq.fanout")) == QueueBindOk()


def test_a_message_for_three_queues_one_durable_is_confirmed_once_after_the_sync(
    client: Client, files: GatedFiles
) -> None:
    bind_three(client)
    files.hold()
    client.send(publish("", b"1", PERSISTENT, exchange="amq.fanout"))
    files.wait_until_syncing()
    # Two of the three have it, the third on its way to the disk.
    assert [client.counts(name)[0] for name in ("durable", "transient", "other")] == [1, 1, 1]
    client.nothing_more()
    files.release()
    client.expect(1, BasicAck(1, False))
    client.nothing_more()


def test_a_transient_message_for_three_queues_one_durable_is_confirmed_before_any_sync(
    client: Client, files: GatedFiles
) -> None:
    bind_three(client)
    files.hold()
    client.send(publish("", b"1", exchange="amq.fanout"))
    client.expect(1, BasicAck(1, False))
    assert files.syncs_begun == 0


def test_a_message_delivered_and_acked_before_its_sync_is_confirmed_after_it(
    client: Client, files: GatedFiles
) -> None:
    client.declare("durable", durable=True)
    client.open_channel(2)
    consume = BasicConsume(queue="durable", consumer_tag="c")
    assert client.ask(2, consume) == BasicConsumeOk("c")
    files.hold()
    client.send(publish("durable", b"1", PERSISTENT))
    client.expect(2, BasicDeliver("c", 1, False, "", "durable"))
    client.read_content(2)
    client.send_methods(2, BasicAck(1))
    files.wait_until_syncing()
    client.nothing_more(2)
    client.nothing_more()
    files.release()
    client.expect(1, BasicAck(1, False))


def test_multiple_only_below_the_smallest_unconfirmed(client: Client, files: GatedFiles) -> None:
    client.declare("durable", durable=True)
    client.declare("q")
    client.send(publish("q"), publish("q"))
    client.expect(1, BasicAck(2, True))
    files.hold()
    client.send(publish("q"), publish("q"), publish("durable", b"", PERSISTENT))
    client.expect(1, BasicAck(4, True))
    files.wait_until_syncing()
    client.send(publish("q"), publish("q"))
    client.expect(1, BasicAck(6, False), BasicAck(7, False))
    files.release()
    client.expect(1, BasicAck(5, False))
    client.send(publish("durable", b"", PERSISTENT), publish("durable", b"", PERSISTENT))
    client.expect(1, BasicAck(9, True))


def test_one_sync_serves_what_gathered_while_another_ran(client: Client, files: GatedFiles) -> None:
    client.declare("durable", durable=True)
    files.hold()
    client.send(publish("durable", b"", PERSISTENT))
    files.wait_until_syncing()
    for _ in range(20):
        client.send(publish("durable", b"", PERSISTENT))
        client.nothing_more()
    begun = files.syncs_begun
    files.release()
    # One ack, if the second sync ends before the channel has answered for the first.
    client.expect_acks(range(1, 22))
    assert files.syncs_begun == begun + 1


def test_each_channel_counts_for_itself(client: Client, files: GatedFiles) -> None:
    client.declare("durable", durable=True)
    client.open_channel(2, confirms=True)
    files.hold()
    client.send(publish("durable", b"", PERSISTENT), publish("durable", b"", channel=2))
    client.expect(2, BasicAck(1, False))
    files.release()
    client.expect(1, BasicAck(1, False))


def test_a_queue_deleted_while_it_owes_nacks_each_message_and_acks_none(
    client: Client, files: GatedFiles, connect: Callable[..., Client]
) -> None:
    client.declare("durable", durable=True)
    client.declare("other", durable=True)
    files.hold()
    client.send(publish("durable", b"", PERSISTENT) * 3, publish("other", b"", PERSISTENT))
    files.wait_until_syncing()
    deleter = connect()
    deleter.open_channel()
    assert deleter.ask(1, QueueDelete(queue="durable")) == QueueDeleteOk(3)
    # Below the smallest unconfirmed, 4, so as one.
    client.expect(1, BasicNack(3, True, True))
    client.nothing_more()
    files.release()
    client.expect(1, BasicAck(4, False))
    client.nothing_more()


def test_a_message_for_a_deleted_queue_and_another_is_nacked_once(
    client: Client, files: GatedFiles, connect: Callable[..., Client]
) -> None:
    bind_three(client)
    files.hold()
    client.send(publish("", b"", PERSISTENT, exchange="amq.fanout"))
    files.wait_until_syncing()
    deleter = connect()
    deleter.open_channel()
    assert deleter.ask(1, QueueDelete(queue="durable")) == QueueDeleteOk(1)
    client.expect(1, BasicNack(1, False, True))
    files.release()
    client.nothing_more()


def test_a_purge_acks_what_it_drops_after_the_sync(
    client: Client, files: GatedFiles, connect: Callable[..., Client]
) -> None:
    client.declare("durable", durable=True)
    files.hold()
    client.send(publish("durable", b"", PERSISTENT) * 2)
    files.wait_until_syncing()
    purger = connect()
    purger.open_channel()
    purger.send_methods(1, QueuePurge(queue="durable"))
    client.nothing_more()
    files.release()
    client.expect(1, BasicAck(2, True))
    purger.expect(1, QueuePurgeOk(2))
    assert client.ask(1, BasicGet(queue="durable")) == BasicGetEmpty()


@pytest.mark.parametrize("durable", [False, True])
def test_a_publish_to_a_queue_deleted_on_the_same_channel_is_returned_not_nacked(
    client: Client, durable: bool
) -> None:
    client.declare("q", durable=durable)
    assert client.ask(1, QueueDelete(queue="q")) == QueueDeleteOk(0)
    client.send(publish("q", b"", PERSISTENT))
    client.expect(1, BasicAck(1, False))


def test_confirms_of_a_channel_that_is_closed_are_never_sent(
    client: Client, files: GatedFiles
) -> None:
    client.declare("durable", durable=True)
    files.hold()
    client.send(publish("durable", b"", PERSISTENT))
    files.wait_until_syncing()
    assert client.ask(1, ChannelClose(200, "bye")) == ChannelCloseOk()
    client.open_channel(1, confirms=True)
    files.release()
    client.send(publish("durable", b"", PERSISTENT))
    client.expect(1, BasicAck(1, False))
    assert client.counts("durable") == (2, 0)


def test_publishes_sent_behind_a_channel_close_are_dropped(client: Client) -> None:
    client.declare("q")
    client.send(publish("q"), methods_of(1, ChannelClose(200, "bye")), publish("q"))
    # The confirm of the first was still to come: it never does.
    client.expect(1, ChannelCloseOk())
    client.open_channel()
    assert client.counts("q") == (1, 0)


def test_publishes_before_connection_close_are_kept(
    connect: Callable[..., Client],
) -> None:
    client = connect()
    client.open_channel()
    client.declare("durable", durable=True)
    client.send(publish("durable", b"", PERSISTENT), methods_of(0, ConnectionClose(200, "bye")))
    client.expect(0, ConnectionCloseOk())
    other = connect()
    other.open_channel()
    assert other.counts("durable") == (1, 0)


def test_an_acked_message_is_not_confirmed_again_when_its_consumer_is_cancelled(
    client: Client,
) -> None:
    client.declare("q")
    assert client.ask(1, BasicConsume(queue="q", consumer_tag="c", no_ack=True)) == BasicConsumeOk(
        "c"
    )
    client.send(publish("q"))
    client.expect(1, BasicDeliver("c", 1, False, "", "q"))
    client.read_content(1)
    client.expect(1, BasicAck(1, False))
    assert client.ask(1, BasicCancel("c")) == BasicCancelOk("c")
