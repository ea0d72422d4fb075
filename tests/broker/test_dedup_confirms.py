"""When a queue with a dedup window confirms: a duplicate not before its original is on disk."""

from __future__ import annotations

import errno

import leveret
from gated_files import GatedFiles
from identified import Connect, declare, each, known, nacked, numbers, publisher
from insides import fail, failure_of, queue_actor
from leveret.amqp_frames.methods import BasicAck, BasicNack, QueueDelete, QueueDeleteOk
from wire import Client


def test_a_duplicate_is_not_confirmed_before_what_it_repeats_is_synced(
    client: Client, connect: Connect, files: GatedFiles
) -> None:
    declare(client)
    other = publisher(connect)
    files.hold()
    client.send(each("q", 1, 1))
    files.wait_until_syncing()
    other.send(each("q", 1, mode=1), each("q", 1, 2))
    other.nothing_more()
    client.nothing_more()
    files.release()
    client.expect_acks(range(1, 3))
    other.expect_acks(range(1, 4))
    assert numbers(client) == [b"1", b"2"]


def test_a_duplicate_of_what_is_synced_waits_for_no_other_message_than_those_before_it(
    client: Client, files: GatedFiles
) -> None:
    declare(client)
    client.publish_all("q", b"1", properties=known(1))
    client.send(each("q", 9, mode=1))
    client.expect(1, BasicAck(2, False))
    files.hold()
    # With nothing on its way to the disk it is confirmed at once, and so is a transient one.
    client.send(each("q", 1), each("q", 9, mode=1))
    client.expect_acks(range(3, 5))
    assert files.syncs_begun == 0


def test_a_queue_that_fails_before_the_sync_nacks_a_message_and_its_duplicates(
    client: Client, connect: Connect, broker: leveret.Broker, files: GatedFiles
) -> None:
    declare(client)
    other = publisher(connect)
    files.hold()
    client.send(each("q", 1, 1))
    files.wait_until_syncing()
    other.send(each("q", 1))
    other.nothing_more()
    fail(queue_actor(broker, "q"))
    client.expect(1, BasicNack(2, True, True))
    other.expect(1, BasicNack(1, False, True))
    files.release()
    client.nothing_more()
    other.nothing_more()


def test_a_queue_that_is_deleted_nacks_both_and_its_window_goes_with_it(
    client: Client, connect: Connect, files: GatedFiles
) -> None:
    declare(client)
    other = publisher(connect)
    files.hold()
    client.send(each("q", 1))
    files.wait_until_syncing()
    other.send(each("q", 1))
    other.nothing_more()
    other.open_channel(2)
    # The delete itself waits for the disk of the catalog only.
    assert other.ask(2, QueueDelete(queue="q")) == QueueDeleteOk(1)
    client.expect(1, BasicNack(1, False, True))
    other.expect(1, BasicNack(1, False, True))
    files.release()
    declare(other)
    client.send(each("q", 1))
    client.expect(1, BasicAck(2, False))
    assert numbers(client) == [b"1"]


def test_when_the_journal_fails_neither_a_message_nor_its_duplicate_is_confirmed(
    client: Client, connect: Connect, broker: leveret.Broker, files: GatedFiles
) -> None:
    declare(client)
    other = publisher(connect)
    files.hold()
    client.send(each("q", 1, 1))
    files.wait_until_syncing()
    other.send(each("q", 1))
    other.nothing_more()
    files.failing["sync_data"] = OSError(errno.EIO, "Input/output error")
    files.release()
    client.expect_closed()
    other.expect_closed()
    assert isinstance(failure_of(broker), OSError)


# --- What is rejected


def test_a_message_that_was_rejected_is_not_remembered_and_its_duplicate_is_nacked(
    client: Client,
) -> None:
    declare(client, x_max_length=1, x_overflow="reject-publish")
    client.send(each("q", 1, 2, 2, 1, 3))
    assert nacked(client, 1, 5) == {2, 3, 5}
    assert numbers(client) == [b"1"]
    client.send(each("q", 2, 2))
    client.expect_acks(range(6, 8))
    # A full queue confirms what it has had: it would have room for nothing new.
    client.send(each("q", 1, 3))
    assert nacked(client, 8, 9) == {9}
    assert numbers(client) == [b"2"]
