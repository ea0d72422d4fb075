"""Random consumers, credit, acks, requeues and lost connections: each message is settled once.

At every delivery: the message is nobody else's at that time, was not settled before, and says
truly whether it was delivered before. A failure prints the seed that replays it.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import leveret
import pytest
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicNack,
    BasicQos,
    BasicQosOk,
    ChannelFlow,
    ChannelFlowOk,
    Method,
)
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Field
from wire import PERSISTENT, TRANSIENT, Client, publish

Connect = Callable[..., Client]


class Messages:
    """Where every message is."""

    def __init__(self) -> None:
        self.count = 0
        self.available: set[int] = set()
        self.delivered: set[int] = set()
        self.settled: set[int] = set()


class Consumer:
    """A client that consumes from q on channel 1, and what it holds: delivery tag -> message."""

    def __init__(self, client: Client, messages: Messages, chance: random.Random) -> None:
        self.client = client
        self.messages = messages
        self.chance = chance
        self.held: dict[int, int] = {}
        self.limit = chance.choice((0, 1, 3, 50))
        self.tags: list[str] = []
        client.open_channel()
        is_global = chance.random() < 0.4
        assert client.ask(1, BasicQos(0, self.limit, is_global)) == BasicQosOk()
        self.start(chance.choice((1, 1, 2)) if is_global or not self.limit else 1)

    def start(self, count: int) -> None:
        for _ in range(count):
            tag = f"c{len(self.tags)}"
            self.tags.append(tag)
            priority = Field("signedint", self.chance.choice((0, 0, 0, 5, -5)))
            consume = BasicConsume(queue="q", consumer_tag=tag, arguments={"x-priority": priority})
            self.await_answer(consume, BasicConsumeOk(tag))

    def await_answer(self, question: Method, answer: Method) -> None:
        """Take deliveries until the answer comes."""
        self.client.send_methods(1, question)
        while (method := self.client.read_method(1)) != answer:
            assert isinstance(method, BasicDeliver), method
            self.delivered(method, int(self.client.read_content(1).body.split(b" ")[0]))
        assert not self.limit or len(self.held) <= self.limit

    def delivered(self, method: BasicDeliver, message: int) -> None:
        messages = self.messages
        assert message in messages.available, f"{message} is another's, or settled"
        messages.available.remove(message)
        assert method.redelivered == (message in messages.delivered)
        messages.delivered.add(message)
        self.held[method.delivery_tag] = message

    def drain(self) -> None:
        self.await_answer(ChannelFlow(True), ChannelFlowOk(True))

    def settle(self) -> None:
        """Ack or give back some of what it holds."""
        for _ in range(self.chance.choice((1, 3, 10))):
            if not self.held:
                break
            tag = self.chance.choice(list(self.held))
            multiple = self.chance.random() < 0.3
            tags = [each for each in self.held if each == tag or (multiple and each < tag)]
            gone = [self.held.pop(each) for each in tags]
            if self.chance.random() < 0.75:
                self.client.send_methods(1, BasicAck(tag, multiple))
                self.messages.settled.update(gone)
            else:
                self.client.send_methods(1, BasicNack(tag, multiple, True))
                self.messages.available.update(gone)
        self.drain()

    def cancel(self) -> None:
        tag = self.tags.pop()
        self.await_answer(BasicCancel(tag), BasicCancelOk(tag))

    def end(self) -> None:
        """Lose the connection; what it holds, and what is on its way to it, goes back."""
        self.drain()
        self.messages.available.update(self.held.values())
        self.client.drop()


PRIORITY_MAX = 5
QUEUES: tuple[dict[str, Field], ...] = (
    {},
    {"x-single-active-consumer": Field("bool", True)},
    {"x-max-priority": Field("byte", PRIORITY_MAX)},
)


def priority_of(message: int) -> int:
    return message * 7 % 9


@pytest.mark.parametrize("seed", range(9))
def test_each_message_is_settled_once_and_is_never_two_consumers_at_a_time(
    client: Client, connect: Connect, broker: leveret.Broker, seed: int
) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    messages = Messages()
    arguments = QUEUES[seed % len(QUEUES)]
    client.declare("q", durable=True, arguments=arguments)
    consumers: list[Consumer] = []
    for _ in range(150):
        what = chance.random()
        if what < 0.4:
            _publish(client, messages, chance)
        elif what < 0.5 and len(consumers) < 5:
            consumers.append(Consumer(connect(), messages, chance))
        elif what < 0.53 and consumers:
            _lose(client, consumers, chance)
        elif what < 0.55 and consumers:
            consumer = chance.choice(consumers)
            if consumer.tags:
                consumer.cancel()
        elif consumers:
            chance.choice(consumers).settle()
    while consumers:
        _lose(client, consumers, chance)
    client.wait_for_counts("q", (len(messages.available), 0))
    assert messages.settled | messages.available == set(range(messages.count))
    # What is left comes in order.
    left = sorted(messages.available)
    if "x-max-priority" in arguments:
        left.sort(key=lambda message: min(priority_of(message), PRIORITY_MAX), reverse=True)
    for message in left:
        got = client.get("q", no_ack=True)
        assert got is not None
        assert int(got.body.split(b" ")[0]) == message
        assert got.redelivered == (message in messages.delivered)
    assert client.get("q") is None


def _publish(client: Client, messages: Messages, chance: random.Random) -> None:
    count = chance.choice((1, 2, 10, 40))
    numbers = range(messages.count, messages.count + count)
    mode = chance.choice((PERSISTENT, TRANSIENT)).delivery_mode
    # First: a consumer may have it before its confirm is here.
    messages.available.update(numbers)
    messages.count += count
    padding = bytes(chance.choice((0, 100, 20_000)))
    client.send(
        *(
            publish(
                "q", b"%d " % number + padding, Properties(delivery_mode=mode, priority=priority)
            )
            for number, priority in zip(numbers, map(priority_of, numbers), strict=True)
        )
    )
    client.expect_acks(range(numbers[0] + 1, numbers[-1] + 2))


def _lose(client: Client, consumers: list[Consumer], chance: random.Random) -> None:
    consumer = consumers.pop(chance.randrange(len(consumers)))
    count = sum(len(each.tags) for each in consumers)
    consumer.end()
    # Until the broker has noticed, the messages are still the lost one's.
    while client.counts("q")[1] != count:
        pass
