"""A batch does not change once the codec has handed it on: what is learned of it has one writer."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import leveret
import pika
import pytest
from leveret.amqp_frames.messages.batch import Batch
from nsq_wire import NsqClient, pub

PERSISTENT = 2
# The columns of a batch, which only the codec fills.
COLUMNS = ("starts", "headers", "ends", "keys", "distinct", "persistent", "flagged", "wire")
# A batch is routed by whoever publishes it: a channel, or the dead-letter publisher.
ROUTED_BY = {"core.publishing.publisher", "core.dead_letters.letters"}
WRITERS = {
    # The journal gives batches back with their numbers.
    "number": ROUTED_BY | {"storage.journal.loading"},
    "durable": ROUTED_BY,
    "ttls_ms": {"core.publishing.publisher"},
    "journal_place": {"storage.journal.journal", "storage.journal.loading"},
    "received_ns": {
        "actors.connection.reader",
        "actors.dead_letters.publisher",
        "actors.nsq.commands",
    },
    # And those that read messages back while the broker runs, which need more messages than here.
    "arrived": {"storage.journal.loading"},
    "traced": {"actors.tracing.marks"},
}
WRITTEN_ONCE = {"number", "durable", "ttls_ms", "received_ns", "arrived"}


class Watch:
    """Every assignment to an attribute of a batch, outside of the codec."""

    def __init__(self) -> None:
        self.writers: dict[str, set[str]] = {}
        self.twice: list[str] = []
        # Each batch when the first of these was written, with its columns as they were then.
        self.seen: dict[int, tuple[Batch, tuple[bytes, ...]]] = {}
        self._written: set[tuple[int, str]] = set()

    def set(self, batch: Batch, name: str, value: object) -> None:
        """For `Batch.__setattr__`."""
        object.__setattr__(batch, name, value)
        module = sys._getframe(2).f_globals["__name__"].removeprefix("leveret.")
        if module.startswith(("amqp_frames.", "nsq_frames.")):
            return
        self.writers.setdefault(name, set()).add(module)
        self.seen.setdefault(id(batch), (batch, columns(batch)))
        if (id(batch), name) in self._written and name in WRITTEN_ONCE:
            self.twice.append(f"{name} by {module}")
        self._written.add((id(batch), name))


def columns(batch: Batch) -> tuple[bytes, ...]:
    return tuple(repr(getattr(batch, name)).encode() for name in COLUMNS)


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watch]:
    watch = Watch()
    monkeypatch.setattr(Batch, "__setattr__", lambda *given: watch.set(*given), raising=False)
    return watch


def work(broker: leveret.Broker) -> None:
    """Publish, expire, reject to a dead-letter queue, requeue, and leave messages behind."""
    with pika.BlockingConnection(pika.ConnectionParameters(broker.host, broker.port)) as client:
        channel = client.channel()
        channel.confirm_delivery()
        letters = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "letters"}
        channel.queue_declare("letters", durable=True)
        channel.queue_declare("q", durable=True, arguments=letters)
        channel.queue_declare("also", durable=True)
        channel.exchange_declare("both", "fanout")
        for queue in ("q", "also"):
            channel.queue_bind(queue, "both")
        for expiration in (None, "1", "60000"):
            properties = pika.BasicProperties(delivery_mode=PERSISTENT, expiration=expiration)
            for exchange in ("both", ""):
                channel.basic_publish(exchange, "q", b"body", properties, mandatory=True)
        with pytest.raises(pika.exceptions.UnroutableError):
            channel.basic_publish("", "nowhere", b"lost", mandatory=True)
        carbon = pika.BasicProperties(headers={"BCC": ["also"]})
        channel.basic_publish("", "q", b"copied", carbon)
        method, _, _ = channel.basic_get("q")
        channel.basic_reject(method.delivery_tag, requeue=False)
        method, _, _ = channel.basic_get("also")
        channel.basic_nack(method.delivery_tag, requeue=True)
        letter = None
        while letter is None:
            letter, _, _ = channel.basic_get("letters")
        channel.basic_ack(letter.delivery_tag)


def test_nothing_but_what_is_learned_is_written_to_a_batch_and_that_by_one_writer(
    watch: Watch, tmp_path: Path
) -> None:
    for _start in range(2):
        settings = {"log_level": "error", "trace_one_of": 1}
        with leveret.Broker(data_dir=tmp_path, port=0, nsq_port=0, **settings) as broker:
            work(broker)
            assert broker.nsq_port
            with NsqClient(broker.nsq_port) as client:
                client.send(pub("topic", b"body")).ok()
    assert watch.writers == WRITERS
    assert watch.twice == []
    changed = [batch for batch, before in watch.seen.values() if columns(batch) != before]
    assert changed == []
    assert len(watch.seen) > 20
