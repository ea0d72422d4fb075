"""Queues that are deleted when nobody has used them for so long."""

from __future__ import annotations

import signal
from pathlib import Path

import leveret
import pytest
from held_clock import HeldClock
from insides import context_of, wait_until
from leveret.amqp_frames.methods import (
    BasicCancel,
    BasicCancelOk,
    ChannelClose,
    ChannelCloseOk,
    QueueDeclare,
    QueueDeclareOk,
)
from leveret.amqp_frames.values.field_table import Field
from served import Served
from wire import PERSISTENT, Client

EXPIRES_SECONDS = 0.4


def expires(seconds: float = EXPIRES_SECONDS) -> dict[str, Field]:
    return {"x-expires": Field("signedint", round(seconds * 1000))}


@pytest.fixture
def clock(broker: leveret.Broker) -> HeldClock:
    return HeldClock(broker)


def is_gone(broker: leveret.Broker, queue: str) -> bool:
    """Looked up from inside, for to ask for it is a use of it."""
    return context_of(broker).vhosts["/"].table.find_queue(queue) is None


def assert_goes(client: Client, broker: leveret.Broker, clock: HeldClock) -> None:
    """When its lease, which has begun just now, is over, and not before."""
    clock.advance(EXPIRES_SECONDS - 0.001)
    client.nothing_more()
    assert not is_gone(broker, "q")
    clock.advance(0.001)
    wait_until(lambda: is_gone(broker, "q"))


@pytest.mark.parametrize("durable", [True, False])
def test_a_queue_that_nobody_uses_is_deleted_with_its_messages(
    client: Client, broker: leveret.Broker, clock: HeldClock, durable: bool
) -> None:
    client.declare("q", durable=durable, arguments=expires())
    clock.advance(EXPIRES_SECONDS / 2)
    # No use of it.
    client.publish_all("q", b"m", properties=PERSISTENT)
    clock.advance(EXPIRES_SECONDS / 2)
    wait_until(lambda: is_gone(broker, "q"))
    # Declared again it is a new one.
    assert client.declare("q", durable=durable, arguments=expires()).message_count == 0


@pytest.mark.parametrize(
    "use",
    [
        None,
        QueueDeclare(queue="q", arguments=expires()),
        QueueDeclare(queue="q", passive=True),
    ],
    ids=["get", "declare", "passive declare"],
)
def test_a_get_and_a_declaration_renew_the_lease(
    client: Client, broker: leveret.Broker, clock: HeldClock, use: QueueDeclare | None
) -> None:
    client.declare("q", arguments=expires())
    for _ in range(4):
        clock.advance(EXPIRES_SECONDS / 2)
        if use is None:
            client.get("q", no_ack=True)
        else:
            assert isinstance(client.ask(1, use), QueueDeclareOk)
    assert_goes(client, broker, clock)


@pytest.mark.parametrize("closes", [True, False], ids=["channel closed", "cancelled"])
def test_a_queue_with_a_consumer_is_in_use_until_the_last_has_gone(
    client: Client, broker: leveret.Broker, clock: HeldClock, closes: bool
) -> None:
    client.declare("q", arguments=expires())
    client.open_channel(2)
    client.consume("q", "1", channel=2)
    client.consume("q", "2", channel=2)
    assert client.ask(2, BasicCancel("1")) == BasicCancelOk("1")
    clock.advance(3 * EXPIRES_SECONDS)
    if closes:
        assert client.ask(2, ChannelClose(200, "")) == ChannelCloseOk()
    else:
        assert client.ask(2, BasicCancel("2")) == BasicCancelOk("2")
    assert_goes(client, broker, clock)


def test_a_lease_begins_anew_with_a_start_and_ends_for_good(tmp_path: Path) -> None:
    for start in range(3):
        with Served(tmp_path) as served, Client(served.host, served.port) as client:
            client.log_in()
            client.open_channel(1, confirms=True)
            if not start:
                client.declare("q", durable=True, arguments=expires(3600))
                client.declare("short", durable=True, arguments=expires())
            client.counts("q")
            if start:
                # Longer than the other's lease.
                client.declare("clock", arguments={"x-message-ttl": Field("signedint", 600)})
                client.publish_all("clock", b"tick")
                client.wait_for_counts("clock", (0, 0))
                client.open_channel(2)
                answer = client.ask(2, QueueDeclare(queue="short", passive=True))
                assert isinstance(answer, ChannelClose)
                assert answer.reply_code == 404
            served.signal(signal.SIGKILL)
            served.exit_code()
