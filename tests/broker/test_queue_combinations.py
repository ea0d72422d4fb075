"""A live queue with nearly every argument at once; all combinations are in tests/core."""

from __future__ import annotations

from identified import declare, known, nacked, numbers
from wire import Client, publish


def test_a_queue_with_nearly_every_argument_keeps_to_each_of_them(client: Client) -> None:
    declare(
        client,
        x_max_priority=5,
        x_max_length=3,
        x_overflow="reject-publish",
        x_message_ttl=3_600_000,
        x_single_active_consumer=True,
        x_dead_letter_exchange="",
        x_dead_letter_routing_key="dead",
    )
    client.declare("dead", durable=True)
    rows = ((1, 0), (2, 5), (1, 5), (3, 3), (4, 5), (2, 0), (4, 5))
    client.send(
        *(publish("q", b"%d" % number, known(number, priority=level)) for number, level in rows)
    )
    # 1 and 2 come again and are confirmed; 4 finds the queue full, and so does its repeat.
    assert nacked(client, 1, 7) == {5, 7}
    assert client.counts("q") == (3, 0)
    # What was rejected is not remembered: it may come when there is room.
    got = client.get("q", no_ack=True)
    assert got is not None
    assert got.body == b"2"
    client.send(publish("q", b"4", known(4, priority=5)))
    client.expect_acks(range(8, 9))
    assert numbers(client) == [b"4", b"3", b"1"]
    assert client.counts("dead") == (0, 0)
