"""A disk that fails: nothing more is confirmed, every connection closes, the process ends."""

from __future__ import annotations

import errno
import resource
from collections.abc import Callable
from pathlib import Path

import leveret
import pytest
from gated_files import GatedFiles
from insides import TIMEOUT_SECONDS, channel_actor, context_of, failure_of, inside, on_loop, readers
from leveret.amqp_frames.decoder import Decoder
from leveret.amqp_frames.methods import BasicAck
from leveret.storage.journal.log import JournalUnusableError
from served import Served
from wire import FRAME_MAX_BYTES, PERSISTENT, Client, publish


@pytest.mark.parametrize("operation", ["write", "sync_data"])
def test_a_failed_write_or_sync_confirms_nothing_and_closes_every_connection(
    client: Client,
    connect: Callable[..., Client],
    broker: leveret.Broker,
    files: GatedFiles,
    operation: str,
) -> None:
    other = connect()
    client.declare("durable", durable=True)
    client.send(publish("durable", b"kept", PERSISTENT))
    client.expect(1, BasicAck(1, False))
    files.failing[operation] = OSError(errno.EIO, "Input/output error")
    client.send(publish("durable", b"lost", PERSISTENT))
    client.expect_closed()
    other.expect_closed()
    failure = failure_of(broker)
    assert isinstance(failure, OSError)
    assert failure.errno == errno.EIO
    with pytest.raises(ConnectionRefusedError):
        Client(broker.host, broker.port)


def test_a_failed_large_commit_is_the_failure_that_is_told(
    client: Client, broker: leveret.Broker, files: GatedFiles
) -> None:
    client.declare("durable", durable=True)
    error = OSError(errno.EIO, "Input/output error")
    files.failing["sync_data"] = error
    # On the disk's own thread: what the journal's is told meanwhile meets a journal that failed.
    client.send(publish("durable", bytes(8_000), PERSISTENT) * 100)
    client.expect_closed()
    context_of(broker).on_fatal("JournalActor", JournalUnusableError("an earlier write failed"))
    assert failure_of(broker) is error


def test_a_queue_that_meets_a_failed_journal_neither_fails_nor_answers(
    client: Client,
    broker: leveret.Broker,
    files: GatedFiles,
    capfd: pytest.CaptureFixture[str],
) -> None:
    client.declare("durable", durable=True)
    files.hold()
    client.send(publish("durable", b"1", PERSISTENT))
    files.wait_until_syncing()
    channel = inside(channel_actor(readers(broker)[0]))
    [read] = Decoder(FRAME_MAX_BYTES, 1000, 1000).feed(publish("durable", b"2", PERSISTENT))
    files.failing["sync_data"] = OSError(errno.EIO, "Input/output error")
    journal = context_of(broker).journal
    # The loop stands still until the journal is gone: the queue is told before the node ends.
    on_loop(
        broker,
        files.release,
        lambda: journal.actor_stopped.wait(TIMEOUT_SECONDS),
        lambda: channel.on_receive(read),
    )
    client.expect_closed()
    failure_of(broker)
    assert "queue.failed" not in capfd.readouterr().err


def test_messages_behind_a_failed_sync_are_not_confirmed_by_a_later_one(
    client: Client, broker: leveret.Broker, files: GatedFiles
) -> None:
    client.declare("durable", durable=True)
    files.hold()
    client.send(publish("durable", b"1", PERSISTENT))
    files.wait_until_syncing()
    client.send(publish("durable", b"2", PERSISTENT))
    client.nothing_more()
    files.failing["sync_data"] = OSError(errno.EIO, "Input/output error")
    files.release()
    client.expect_closed()
    failure_of(broker)
    assert files.syncs_begun == 1


def test_a_file_that_may_not_grow_ends_the_process_with_an_exit_code_and_no_confirm(
    tmp_path: Path,
) -> None:
    def limit_files_to_a_megabyte() -> None:
        # A write past this fails with EFBIG.
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))

    with (
        Served(tmp_path, limit_files_to_a_megabyte) as served,
        Client(served.host, served.port).log_in() as client,
    ):
        client.open_channel(1, confirms=True)
        client.declare("durable", durable=True)
        client.send(publish("durable", b"small", PERSISTENT))
        client.expect(1, BasicAck(1, False))
        client.send(publish("durable", bytes(2 << 20), PERSISTENT))
        client.expect_closed()
        assert served.exit_code() == 1
        assert "broker.failed" in served.log()
        assert "File too large" in served.log()
