"""A queue with a dedup window whose actor fails in the middle of a publish."""

from __future__ import annotations

import leveret
import pytest
from identified import declare, each, known
from leveret.actors.queue.answers import QueueAnswers
from leveret.amqp_frames.methods import BasicNack
from wire import Client


@pytest.mark.parametrize("priorities", [0, 3])
def test_new_messages_and_repeats_are_nacked_once_each(
    client: Client, broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch, priorities: int
) -> None:
    arguments = {"x_max_priority": priorities} if priorities else {}
    declare(client, **arguments)
    client.publish_all("q", b"0", properties=known(0))

    def fail(*_arguments: object) -> None:
        raise ValueError("a mistake of ours")

    monkeypatch.setattr(QueueAnswers, "owe", fail)
    # One that the window holds, a new one, its repeat, and another new one.
    client.send(each("q", 0, 1, 1, 2))
    client.expect(1, BasicNack(5, True, True))
    client.nothing_more()


@pytest.mark.parametrize("priorities", [0, 3])
def test_a_queue_that_fails_while_it_answers_repeats_nacks_each_of_them_once(
    client: Client, broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch, priorities: int
) -> None:
    arguments = {"x_max_priority": priorities} if priorities else {}
    declare(client, **arguments)
    client.publish_all("q", b"0", properties=known(0))

    def fail(*_arguments: object, **_named: object) -> None:
        raise ValueError("a mistake of ours")

    monkeypatch.setattr(QueueAnswers, "repeat", fail)
    client.send(each("q", 0, 1, 1, 2))
    client.expect(1, BasicNack(5, True, True))
    client.nothing_more()
