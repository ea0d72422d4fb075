"""A client cancels a consumer while another deletes its queue, in many orders of turns."""

from __future__ import annotations

from amqp_client import Client, ClientChannel, cancel, consume
from checker import QueueBook
from leveret.amqp_frames.methods import (
    Method,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)
from node_simulation import NodeSimulation

SEEDS = 25


class Two:
    """A node with a client that consumes from "going", and one that deletes it."""

    def __init__(self, seed: int) -> None:
        self._simulation = NodeSimulation(seed)
        _, client, other = self._simulation.clients
        self.channel = self._channel(client)
        self._other = self._channel(other)
        for name in ("going", "staying"):
            self.consumer_count(name)
        self.consume("going")
        self.rest()

    def _channel(self, client: Client) -> ClientChannel:
        self._simulation.connect(client)
        self.rest()
        return client.open_channel(1, "")

    def rest(self) -> None:
        assert self._simulation.rest()

    def consumer_count(self, name: str) -> int:
        """By the answer to a declaration."""
        counts: list[int] = []

        def declared(answer: Method) -> None:
            assert isinstance(answer, QueueDeclareOk)
            counts.append(answer.consumer_count)

        self._other.ask(QueueDeclare(queue=name, durable=True), QueueDeclareOk, declared)
        self.rest()
        return counts[0]

    def consume(self, name: str) -> None:
        queue = QueueBook(name, True, {})
        consume(self.channel, queue, "tag", no_ack=False, timeout_ms=None)

    def delete_and_cancel(self) -> None:
        self._other.ask(QueueDelete(queue="going"), QueueDeleteOk, lambda _: None)
        cancel(self.channel, "tag")


def test_a_cancelled_consumer_is_not_cancelled_once_more_by_the_end_of_its_queue() -> None:
    for seed in range(SEEDS):
        two = Two(seed)
        two.delete_and_cancel()
        two.rest()
        assert not two.channel.consumers, seed


def test_the_end_of_a_queue_leaves_the_next_consumer_with_the_same_tag() -> None:
    for seed in range(SEEDS):
        two = Two(seed)
        two.delete_and_cancel()
        two.consume("staying")
        two.rest()
        assert two.consumer_count("staying") == 1, seed
