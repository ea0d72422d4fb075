"""Random publishing, getting, acking, requeuing and restarting, beside a model of one queue.

The broker must agree with the model at every step: which message is next, whether it was delivered
before, how many are left. A failure prints the seed that replays it.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path

import leveret
import pytest
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicNack,
    BasicRecover,
    BasicRecoverOk,
    BasicReject,
    ChannelClose,
    ChannelCloseOk,
    QueuePurge,
    QueuePurgeOk,
)
from wire import PERSISTENT, TRANSIENT, Client, Got, publish

CHANNELS = (1, 2, 3)


class Session:
    """A broker, a client with three channels, and what queue q must hold."""

    def __init__(self, directory: Path, chance: random.Random) -> None:
        self.directory = directory
        self.chance = chance
        self.published = 0
        self.ready: list[int] = []
        self.delivered: set[int] = set()
        self.persistent: set[int] = set()
        # Per channel: delivery tag -> message, and the next tag.
        self.unacked: dict[int, dict[int, int]] = {}
        self.next_tags: dict[int, int] = {}
        self.start()

    def start(self) -> None:
        self.broker = leveret.Broker(
            data_dir=self.directory, port=0, log_level="error", segment_bytes_max=1 << 20
        )
        self.broker.start()
        self.client = Client(self.broker.host, self.broker.port).log_in()
        self.confirms = 0
        for channel in CHANNELS:
            self.open(channel)
        self.client.declare("q", durable=True)

    def stop(self) -> None:
        self.client.drop()
        self.broker.stop()

    def open(self, channel: int) -> None:
        self.client.open_channel(channel, confirms=channel == 1)
        self.unacked[channel] = {}
        self.next_tags[channel] = 1
        if channel == 1:
            self.confirms = 0

    def give_back(self, messages: list[int]) -> None:
        self.ready = sorted(self.ready + messages)

    # --- Steps

    def publish(self) -> None:
        count = self.chance.choice((1, 1, 2, 5, 20))
        size = self.chance.choice((0, 10, 5000, 60_000))
        pieces = []
        for _ in range(count):
            self.published += 1
            if is_persistent := self.chance.random() < 0.6:
                self.persistent.add(self.published)
            properties = PERSISTENT if is_persistent else TRANSIENT
            pieces.append(publish("q", b"%d " % self.published + bytes(size), properties))
            self.ready.append(self.published)
        self.client.send(*pieces)
        self.client.expect_acks(range(self.confirms + 1, self.confirms + count + 1))
        self.confirms += count

    def get(self) -> None:
        channel = self.chance.choice(CHANNELS)
        no_ack = self.chance.random() < 0.1
        for _ in range(self.chance.choice((1, 3, 10))):
            got = self.client.get("q", no_ack=no_ack, channel=channel)
            if not self.ready:
                assert got is None
                return
            message = self.ready.pop(0)
            tag = self.next_tags[channel]
            self.next_tags[channel] += 1
            assert got is not None
            number = int(got.body.split(b" ")[0])
            seen = Got(got.delivery_tag, got.redelivered, got.left, b"%d" % number)
            was_delivered = message in self.delivered
            assert seen == (tag, was_delivered, len(self.ready), b"%d" % message)
            self.delivered.add(message)
            if not no_ack:
                self.unacked[channel][tag] = message

    def settle(self) -> None:
        channel = self.chance.choice(CHANNELS)
        unacked = self.unacked[channel]
        for _ in range(self.chance.choice((1, 2, 4))):
            if not unacked:
                break
            tag = self.chance.choice(list(unacked))
            multiple = self.chance.random() < 0.3
            tags = [each for each in unacked if each == tag or (multiple and each < tag)]
            messages = [unacked.pop(each) for each in tags]
            how = self.chance.choice(("ack", "ack", "nack", "requeue"))
            if how == "ack":
                self.client.send_methods(channel, BasicAck(tag, multiple))
            elif multiple or self.chance.random() < 0.5:
                self.client.send_methods(channel, BasicNack(tag, multiple, how == "requeue"))
            else:
                self.client.send_methods(channel, BasicReject(tag, how == "requeue"))
            if how == "requeue":
                self.give_back(messages)
        # Channels are not in step with each other.
        self.client.nothing_more(channel)

    def recover(self) -> None:
        channel = self.chance.choice(CHANNELS)
        assert self.client.ask(channel, BasicRecover(True)) == BasicRecoverOk()
        self.give_back(list(self.unacked[channel].values()))
        self.unacked[channel].clear()

    def close_channel(self) -> None:
        channel = self.chance.choice(CHANNELS)
        assert self.client.ask(channel, ChannelClose(200, "")) == ChannelCloseOk()
        self.give_back(list(self.unacked[channel].values()))
        self.open(channel)

    def purge(self) -> None:
        assert self.client.ask(2, QueuePurge(queue="q")) == QueuePurgeOk(len(self.ready))
        self.ready.clear()

    def restart(self) -> None:
        self.stop()
        for unacked in self.unacked.values():
            self.give_back(list(unacked.values()))
        self.ready = [message for message in self.ready if message in self.persistent]
        self.start()

    def count(self) -> None:
        assert self.client.counts("q") == (len(self.ready), 0)


@pytest.mark.parametrize("seed", range(6))
def test_the_broker_agrees_with_a_model_of_a_queue(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    session = Session(tmp_path / "data", chance)
    steps: list[Callable[[], None]] = [
        *[session.publish] * 8,
        *[session.get] * 8,
        *[session.settle] * 10,
        *[session.count] * 2,
        session.recover,
        session.close_channel,
    ]
    rare = [session.purge, session.restart, session.restart]
    try:
        for _ in range(300):
            step = chance.choice(rare) if chance.random() < 0.03 else chance.choice(steps)
            step()
    finally:
        session.stop()
