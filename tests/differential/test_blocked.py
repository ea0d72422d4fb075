"""connection.blocked and connection.unblocked: an alarm of the disk, raised and ended in both.

RabbitMQ is the one of the other tests, told by its own command line tool to want more free space
than there is. Leveret is one in this process, whose disk says that it is full.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

import leveret
import pytest
from both_brokers import Address, BothBrokers
from client_frames import publish
from gated_files import GatedFiles
from insides import context_of, wait_until
from leveret.amqp_frames.methods import (
    BasicConsume,
    BasicGet,
    ConfirmSelect,
    QueueDeclare,
    TxCommit,
    TxSelect,
)
from scripted_session import CAPABILITIES, Session

from benchmarks.brokers import RabbitMQ

AWARE = (*CAPABILITIES, "connection.blocked")
Q = QueueDeclare(queue="q")
# RabbitMQ's default, and more than any disk has.
FREE_BYTES_MIN = 50_000_000
FREE_BYTES_TOO_MANY = 1 << 60
# So long a broker must have been silent where it is to be; an answer may take longer.
SILENCE_SECONDS = 2.0


@pytest.fixture
def settings() -> dict[str, object]:
    return {"disk_check_interval_ms": 10}


@pytest.fixture
def alarmed(rabbitmq: RabbitMQ, broker: leveret.Broker, files: GatedFiles) -> Iterator[BothBrokers]:
    def limit_rabbitmq(is_full: bool) -> None:
        limit = FREE_BYTES_TOO_MANY if is_full else FREE_BYTES_MIN
        rabbitmq.control("set_disk_free_limit", str(limit))

    def fill_leveret(is_full: bool) -> None:
        files.free = 0 if is_full else None
        wait_until(lambda: bool(context_of(broker).alarms.reason) == is_full)

    try:
        yield BothBrokers(
            Address(rabbitmq.port, alarm=limit_rabbitmq), Address(broker.port, alarm=fill_leveret)
        )
    finally:
        limit_rabbitmq(False)


def raise_alarm(session: Session, is_full: bool) -> None:
    assert session.alarm is not None
    session.alarm(is_full)


def a_publisher(session: Session, capabilities: tuple[str, ...]) -> None:
    """Is told when it publishes, and when there is room again; then all is taken."""
    connection = session.connect(capabilities=capabilities)
    channel = connection.channel(1)
    channel.ask(Q, ConfirmSelect(), publish("q", b"before"))
    raise_alarm(session, True)
    # It is not blocked before it publishes.
    channel.ask(QueueDeclare(queue="q", passive=True))
    channel.send(publish("q", b"waits"))
    if "connection.blocked" in capabilities:
        connection.read()
    channel.send(publish("q", b"waits, too"))
    raise_alarm(session, False)
    if "connection.blocked" in capabilities:
        connection.read()
    channel.confirms(2)
    channel.ask(QueueDeclare(queue="q", passive=True))


def the_publish_that_meets_it(session: Session) -> None:
    connection = session.connect(capabilities=AWARE)
    channel = connection.channel(1)
    channel.ask(Q, ConfirmSelect())
    raise_alarm(session, True)
    channel.send(publish("q", b"body"))
    connection.read()
    # Nothing comes, nor to the goodbye: who is blocked is not read any more.
    connection.socket.settimeout(SILENCE_SECONDS)
    channel.read()


def one_that_never_publishes(session: Session) -> None:
    """Consumes what is there, and is told nothing."""
    session.channel().ask(Q, ConfirmSelect(), publish("q", b"before"))
    connection = session.connect(capabilities=AWARE)
    raise_alarm(session, True)
    channel = connection.channel(1)
    channel.ask(BasicGet(queue="q"), BasicConsume(queue="q", consumer_tag="c"))
    raise_alarm(session, False)
    channel.ask(QueueDeclare(queue="q", passive=True))


def one_that_comes_during_the_alarm(session: Session) -> None:
    """Is served until it publishes."""
    raise_alarm(session, True)
    connection = session.connect(capabilities=AWARE)
    channel = connection.channel(1)
    channel.ask(Q)
    channel.send(publish("q", b"waits"))
    connection.read()
    raise_alarm(session, False)
    connection.read()
    channel.ask(QueueDeclare(queue="q", passive=True))


def a_transaction(session: Session) -> None:
    """A publish that waits for its commit is one, too."""
    connection = session.connect(capabilities=AWARE)
    channel = connection.channel(1)
    channel.ask(Q, TxSelect())
    raise_alarm(session, True)
    channel.send(publish("q", b"held"), TxCommit())
    connection.read()
    raise_alarm(session, False)
    connection.read()
    channel.read()
    channel.ask(QueueDeclare(queue="q", passive=True))


SCRIPTS: dict[str, Callable[[Session], None]] = {
    "a publisher": partial(a_publisher, capabilities=AWARE),
    "a publisher that is not to be told": partial(a_publisher, capabilities=CAPABILITIES),
    "the publish that meets it": the_publish_that_meets_it,
    "one that never publishes": one_that_never_publishes,
    "one that comes during the alarm": one_that_comes_during_the_alarm,
    "a transaction": a_transaction,
}


@pytest.mark.parametrize("claim", SCRIPTS)
def test_a_full_disk(alarmed: BothBrokers, claim: str) -> None:
    alarmed.compare(f"blocked: {claim}", SCRIPTS[claim])
