"""A delete on conditions decides once: what comes while it is decided is not confirmed and lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import leveret
import pytest
from leveret.amqp_frames.methods import (
    BasicCancel,
    BasicConsume,
    BasicDeliver,
    BasicGet,
    BasicNack,
    ChannelClose,
    ChannelCloseOk,
    QueueDelete,
    QueueDeleteOk,
)
from leveret.storage.catalog import Catalog
from timeouts import TIMEOUT_SECONDS
from wire import PERSISTENT, Client, publish

Connect = Callable[..., Client]


class Gate:
    """Holds back the catalog's commits."""

    def __init__(self, broker: leveret.Broker, patch: pytest.MonkeyPatch) -> None:
        self.reached = threading.Event()
        self.is_open = threading.Event()
        self.is_open.set()
        apply = Catalog.apply

        def gated(catalog: Catalog, changes: Any) -> None:
            self.reached.set()
            assert self.is_open.wait(TIMEOUT_SECONDS)
            apply(catalog, changes)

        patch.setattr(Catalog, "apply", gated)

    def hold(self) -> None:
        self.reached.clear()
        self.is_open.clear()


@pytest.fixture
def gate(broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    gate = Gate(broker, monkeypatch)
    yield gate
    gate.is_open.set()


@pytest.mark.parametrize("condition", [{"if_empty": True}, {"if_unused": True}, {}])
def test_publishes_during_the_commit_of_a_delete_are_nacked(
    client: Client, connect: Connect, gate: Gate, condition: dict[str, bool]
) -> None:
    client.declare("q", durable=True)
    deleter = connect()
    deleter.open_channel()
    gate.hold()
    deleter.send_methods(1, QueueDelete(queue="q", **condition))
    assert gate.reached.wait(TIMEOUT_SECONDS)
    client.send(publish("q"), publish("q", b"", PERSISTENT))
    # Neither, as long as it is not decided.
    client.nothing_more()
    gate.is_open.set()
    assert deleter.read_method(1) == QueueDeleteOk(0)
    client.expect(1, BasicNack(2, True, True))
    client.nothing_more()


@pytest.mark.parametrize("method", [BasicConsume(queue="q", consumer_tag="c"), BasicGet(queue="q")])
def test_a_question_during_the_commit_of_a_delete_gets_404(
    client: Client, connect: Connect, gate: Gate, method: BasicGet
) -> None:
    client.declare("q", durable=True)
    deleter = connect()
    deleter.open_channel()
    gate.hold()
    deleter.send_methods(1, QueueDelete(queue="q"))
    assert gate.reached.wait(TIMEOUT_SECONDS)
    client.send_methods(1, method)
    client.open_channel(2)
    gate.is_open.set()
    text = "NOT_FOUND - no queue 'q' in vhost '/'"
    client.expect(1, ChannelClose(404, text, method.class_id, method.method_id))
    assert deleter.read_method(1) == QueueDeleteOk(0)


def test_a_consumer_that_comes_while_an_unused_queue_is_deleted_is_refused(
    client: Client, connect: Connect, gate: Gate
) -> None:
    other = connect()
    other.open_channel()
    client.declare("q", durable=True, auto_delete=True)
    client.consume("q")
    gate.hold()
    client.send_methods(1, BasicCancel("c"))
    assert client.read_method(1).name == "basic.cancel-ok"
    assert gate.reached.wait(TIMEOUT_SECONDS)
    other.send_methods(1, BasicConsume(queue="q"))
    other.open_channel(2)
    gate.is_open.set()
    text = "NOT_FOUND - no queue 'q' in vhost '/'"
    other.expect(1, ChannelClose(404, text, 60, 20))


def test_a_delete_that_is_refused_loses_nothing_of_what_came_meanwhile(
    client: Client, connect: Connect
) -> None:
    client.declare("q", durable=True)
    deleter, consumer = connect(), connect()
    consumer.open_channel()
    consumer.consume("q", no_ack=True)
    deleter.open_channel()
    count = 100
    for number in range(1, count + 1):
        # In no order: some come before the refusal, some behind it.
        deleter.send_methods(1, QueueDelete(queue="q", if_unused=True))
        client.send(publish("q", b"%d" % number, PERSISTENT))
        assert deleter.expect_type(1, ChannelClose).reply_code == 406
        deleter.send_methods(1, ChannelCloseOk())
        deleter.open_channel()
    client.expect_acks(range(1, count + 1))
    for number in range(1, count + 1):
        consumer.expect_delivery(BasicDeliver("c", number, False, "", "q"), b"%d" % number)
