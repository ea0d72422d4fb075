"""The streams that IDENTIFY agrees on begin in their order, each behind its own OK."""

from __future__ import annotations

from queue import SimpleQueue
from threading import Event
from typing import Any

import pytest
from leveret.actors.messages import Flush
from leveret.actors.nsq.upgrades import UpgradableTransport, Upgrades
from leveret.core.nsq.incoming import Incoming
from leveret.core.nsq.session import Negotiated
from leveret.nsq_frames.compression import DeflateDecompressor
from leveret.nsq_frames.publishes import PublishLimits
from leveret.nsq_frames.responses import OK


class Inbox:
    """A writer, as far as it is told."""

    def __init__(self) -> None:
        self.actor_stopped = Event()
        self.actor_inbox: SimpleQueue[object] = SimpleQueue()

    @property
    def messages(self) -> list[object]:
        return [self.actor_inbox.get() for _ in range(self.actor_inbox.qsize())]


class Parts:
    """Upgrades, and what they change."""

    def __init__(self) -> None:
        plain: Any = object()
        context: Any = None
        self.writer: Any = Inbox()
        self.transport = UpgradableTransport(plain)
        self.incoming = Incoming(PublishLimits(1_000, 1_000, 1_000))
        self.incoming.feed(b"  V2NOP\n")
        self.upgrades = Upgrades(context, self.transport, self.incoming, self.writer)


@pytest.fixture
def parts() -> Parts:
    return Parts()


def test_nothing_begins_that_is_not_agreed_on(parts: Parts) -> None:
    assert not parts.upgrades.agree(Negotiated(None))
    assert not parts.upgrades.is_due
    assert parts.incoming.has_more
    assert not parts.upgrades.begin(parts.writer, None)
    assert parts.writer.messages == []


def test_compression_begins_both_ways_when_the_answer_is_written(parts: Parts) -> None:
    upgrades = parts.upgrades
    assert upgrades.agree(Negotiated({}, deflate_level=6))
    assert upgrades.is_due
    # What the client has sent ahead is forgotten.
    assert not parts.incoming.has_more
    upgrades.flush(parts.writer)
    assert not upgrades.is_due
    assert parts.transport.compressor is None
    assert upgrades.begin(parts.writer, None)
    assert parts.writer.messages == [Flush(), OK]
    assert parts.transport.compressor is not None
    assert isinstance(parts.incoming.decompressor, DeflateDecompressor)
    assert not upgrades.is_due


def test_nothing_begins_behind_the_end_of_the_connection(parts: Parts) -> None:
    assert parts.upgrades.agree(Negotiated({}, deflate_level=6))
    parts.upgrades.flush(parts.writer)
    parts.upgrades.cancel()
    assert not parts.upgrades.begin(parts.writer, None)
    assert parts.transport.compressor is None
