"""Confirms of messages that do not stay in a queue, and of channels that end.

The rows of SEMANTICS, "When is the confirm sent", that have no test of their own beside their
feature's; test_confirms_rows.py says where the others are.
"""

from __future__ import annotations

from collections.abc import Callable

import leveret
import pytest
from gated_files import GatedFiles
from insides import readers, wait_until
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicDeliver,
    ChannelClose,
    ExchangeDeclare,
    ExchangeDeclareOk,
    QueueBind,
    QueueBindOk,
)
from leveret.amqp_frames.values.field_table import Field
from wire import PERSISTENT, Client, publish


def expect_ack_behind_the_sync(client: Client, files: GatedFiles) -> None:
    """Ours: what did not stay until its sync is confirmed behind it all the same."""
    files.wait_until_syncing()
    client.nothing_more()
    files.release()
    client.expect(1, BasicAck(1, False))


def test_messages_delivered_without_acks_are_confirmed_after_their_sync(
    client: Client, files: GatedFiles
) -> None:
    client.declare("durable", durable=True)
    client.open_channel(2)
    client.consume("durable", channel=2, no_ack=True)
    files.hold()
    client.send(publish("durable", b"1", PERSISTENT))
    client.expect_delivery(BasicDeliver("c", 1, False, "", "durable"), b"1", 2)
    expect_ack_behind_the_sync(client, files)
    assert client.counts("durable") == (0, 1)


def test_a_transient_message_that_a_no_ack_consumer_took_waits_for_no_sync(
    client: Client, files: GatedFiles
) -> None:
    client.declare("durable", durable=True)
    client.open_channel(2)
    client.consume("durable", channel=2, no_ack=True)
    files.hold()
    client.send(publish("durable", b"1"))
    client.expect_delivery(BasicDeliver("c", 1, False, "", "durable"), b"1", 2)
    client.expect(1, BasicAck(1, False))
    assert files.syncs_begun == 0


@pytest.mark.parametrize("durable", [True, False])
def test_a_message_that_expires_at_once_is_dropped_and_confirmed(
    client: Client, files: GatedFiles, durable: bool
) -> None:
    client.declare("q", durable=durable, arguments={"x-message-ttl": Field("signedint", 0)})
    files.hold()
    client.send(publish("q", b"1", PERSISTENT))
    if durable:
        files.wait_until_syncing()
        assert client.counts("q") == (0, 0)
        files.release()
    client.expect(1, BasicAck(1, False))
    assert client.counts("q") == (0, 0)


def test_a_message_dropped_from_the_head_before_its_sync_is_confirmed_after_it(
    client: Client, files: GatedFiles
) -> None:
    client.declare("q", durable=True, arguments={"x-max-length": Field("signedint", 1)})
    files.hold()
    client.send(publish("q", b"1", PERSISTENT), publish("q", b"2", PERSISTENT))
    files.wait_until_syncing()
    assert client.counts("q") == (1, 0)
    files.release()
    client.expect(1, BasicAck(2, True))


def test_a_quorum_queue_confirms_after_the_sync(client: Client, files: GatedFiles) -> None:
    client.declare("q", durable=True, arguments={"x-queue-type": Field("longstr", "quorum")})
    files.hold()
    client.send(publish("q", b"1", PERSISTENT))
    expect_ack_behind_the_sync(client, files)


def test_a_mandatory_message_that_its_queue_rejects_is_nacked_and_not_returned(
    client: Client,
) -> None:
    # Mandatory asks whether there is a queue, not whether it takes the message.
    arguments = {
        "x-max-length": Field("signedint", 0),
        "x-overflow": Field("longstr", "reject-publish"),
    }
    client.declare("q", arguments=arguments)
    client.send(publish("q", mandatory=True))
    assert client.read_method(1).name == "basic.nack"
    client.nothing_more()


def test_messages_that_an_alternate_exchange_routes_are_not_returned(client: Client) -> None:
    spare = {"alternate-exchange": Field("longstr", "amq.fanout")}
    assert client.ask(1, ExchangeDeclare(exchange="x", arguments=spare)) == ExchangeDeclareOk()
    client.declare("q")
    assert client.ask(1, QueueBind(queue="q", exchange="amq.fanout")) == QueueBindOk()
    client.send(publish("nowhere", exchange="x", mandatory=True))
    client.expect(1, BasicAck(1, False))


def test_confirms_of_a_channel_that_made_a_mistake_are_never_sent(
    client: Client, files: GatedFiles
) -> None:
    client.declare("durable", durable=True)
    files.hold()
    client.send(publish("durable", b"", PERSISTENT))
    files.wait_until_syncing()
    client.send(publish("k", exchange="missing"), publish("durable", b"", PERSISTENT))
    client.expect_type(1, ChannelClose)
    client.open_channel(2)
    files.release()
    assert client.counts("durable", 2) == (1, 0)
    client.nothing_more(2)


def test_publishes_of_a_lost_connection_are_kept(
    client: Client, files: GatedFiles, broker: leveret.Broker, connect: Callable[..., Client]
) -> None:
    client.declare("durable", durable=True)
    files.hold()
    client.send(publish("durable", b"", PERSISTENT))
    files.wait_until_syncing()
    client.drop()
    wait_until(lambda: not readers(broker))
    files.release()
    other = connect()
    other.open_channel()
    assert other.counts("durable") == (1, 0)
