"""Random publishing while queues come, go and fail and the disk stalls: each has one answer.

Every number is acked or nacked once and never both, a returned message's ack stands alone directly
behind its return, and what was acked is in the queue that was there all the time. A failure prints
the seed that replays it.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import leveret
import pytest
from gated_files import GatedFiles
from insides import context_of, fail, queue_actor, wait_until
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicNack,
    BasicReturn,
    ChannelFlow,
    ChannelFlowOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    Method,
    QueueBind,
    QueueBindOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
)
from wire import PERSISTENT, TRANSIENT, Client, publish

CHANNELS = (1, 2)
PASSING = ("durable", "transient")


class Publisher:
    """Publishes on two channels and accounts for every answer."""

    def __init__(self, client: Client, chance: random.Random) -> None:
        self.client = client
        self.chance = chance
        self.outstanding: dict[int, set[int]] = {channel: set() for channel in CHANNELS}
        self.next_seq_no = dict.fromkeys(CHANNELS, 1)
        self.kept: dict[tuple[int, int], int] = {}
        self.acked: set[int] = set()
        self.nacked_count = 0
        self.published = 0
        # The seq_no whose ack must be the next frame: its message has just been returned.
        self.returned: tuple[int, int] | None = None
        for channel in CHANNELS:
            client.open_channel(channel, confirms=True)

    def publish(self) -> None:
        channel = self.chance.choice(CHANNELS)
        pieces = []
        for _ in range(self.chance.choice((1, 3, 30))):
            exchange, key = self.chance.choice(
                (("", "kept"), ("", "durable"), ("", "transient"), ("all", ""), ("", "nowhere"))
            )
            seq_no = self.next_seq_no[channel]
            self.next_seq_no[channel] += 1
            self.outstanding[channel].add(seq_no)
            self.published += 1
            if key == "kept" or exchange == "all":
                self.kept[channel, seq_no] = self.published
            pieces.append(
                publish(
                    key,
                    b"%d %d %d" % (self.published, channel, seq_no),
                    self.chance.choice((PERSISTENT, TRANSIENT)),
                    exchange=exchange,
                    mandatory=self.chance.random() < 0.5,
                    channel=channel,
                )
            )
        self.client.send(*pieces)

    def read_answers(self) -> None:
        """Read until both channels have looked at everything that was sent."""
        waiting = set(CHANNELS)
        for channel in CHANNELS:
            self.client.send_methods(channel, ChannelFlow(True))
        while waiting:
            channel, method = self.client.read_any_method()
            if isinstance(method, ChannelFlowOk):
                waiting.remove(channel)
            else:
                self.answer(channel, method)

    def answer(self, channel: int, method: Method) -> None:
        if self.returned is not None:
            assert (channel, method) == (self.returned[0], BasicAck(self.returned[1], False))
            self.returned = None
        if isinstance(method, BasicReturn):
            _, of_channel, seq_no = map(int, self.client.read_content(channel).body.split())
            assert of_channel == channel
            self.returned = channel, seq_no
            return
        assert isinstance(method, BasicAck | BasicNack), method
        tag = method.delivery_tag
        outstanding = self.outstanding[channel]
        assert tag in outstanding, f"{method} answers what is answered already"
        tags = {each for each in outstanding if each == tag or (method.multiple and each < tag)}
        outstanding -= tags
        if isinstance(method, BasicNack):
            self.nacked_count += len(tags)
            return
        self.acked.update(self.kept[channel, each] for each in tags if (channel, each) in self.kept)


class Meddler:
    """Deletes, declares, binds, purges and breaks the queues that others publish to."""

    def __init__(
        self, client: Client, broker: leveret.Broker, files: GatedFiles, chance: random.Random
    ) -> None:
        self.client = client
        self.broker = broker
        self.files = files
        self.chance = chance
        client.open_channel()
        assert client.ask(1, ExchangeDeclare(exchange="all", type="fanout")) == ExchangeDeclareOk()
        client.declare("kept", durable=True)
        assert client.ask(1, QueueBind(queue="kept", exchange="all")) == QueueBindOk()

    def delete(self) -> None:
        answer = self.client.ask(1, QueueDelete(queue=self.chance.choice(PASSING)))
        assert isinstance(answer, QueueDeleteOk)

    def declare(self) -> None:
        name = self.chance.choice(PASSING)
        if name in self.there() and not self.alive(name):
            self.client.ask(1, QueueDelete(queue=name))
        self.client.declare(name, durable=name == "durable")
        assert self.client.ask(1, QueueBind(queue=name, exchange="all")) == QueueBindOk()

    def purge(self) -> None:
        name = self.chance.choice(PASSING)
        if name in self.there() and self.alive(name):
            # Its answer may have to wait for the disk.
            self.files.release()
            assert isinstance(self.client.ask(1, QueuePurge(queue=name)), QueuePurgeOk)

    def break_one(self) -> None:
        name = self.chance.choice(PASSING)
        if name in self.there() and self.alive(name):
            fail(queue_actor(self.broker, name))
            wait_until(lambda: not self.alive(name))

    def toggle(self) -> None:
        self.chance.choice((self.files.hold, self.files.release))()

    def there(self) -> set[str]:
        return {queue.name for queue in context_of(self.broker).vhosts["/"].table.queues()}

    def alive(self, name: str) -> bool:
        return queue_actor(self.broker, name).is_alive()


@pytest.mark.parametrize("seed", range(6))
def test_every_publish_is_answered_once_whatever_happens_to_its_queues(
    connect: Callable[..., Client], broker: leveret.Broker, files: GatedFiles, seed: int
) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    meddler = Meddler(connect(), broker, files, chance)
    publisher = Publisher(connect(), chance)
    meddling = [meddler.delete, meddler.declare, meddler.declare, meddler.purge]
    meddling += [meddler.break_one, meddler.toggle, meddler.toggle]
    for _ in range(200):
        what = chance.random()
        if what < 0.5:
            publisher.publish()
        elif what < 0.75:
            publisher.read_answers()
        else:
            chance.choice(meddling)()
    files.release()
    while any(publisher.outstanding.values()):
        publisher.read_answers()
    assert publisher.returned is None
    print(f"{publisher.published} published, {publisher.nacked_count} nacked")
    bodies = set()
    while (got := meddler.client.get("kept", no_ack=True)) is not None:
        bodies.add(int(got.body.split()[0]))
    assert publisher.acked <= bodies <= set(publisher.kept.values())
