"""Sums of bodies, by topic, whatever a batch is made of."""

from __future__ import annotations

import random

import pytest
from leveret.nsq_frames.body_bytes import body_bytes
from leveret.nsq_frames.commands import Scanner
from leveret.nsq_frames.publishes import PublishLimits, PublishRun
from nsq_wire import mpub, pub

LIMITS = PublishLimits(1_000_000, 5_000_000, 3_600_000)
EDGE = 131_064


@pytest.mark.parametrize(
    "sizes", [[1], [1, 2, 300], [EDGE - 1], [EDGE], [EDGE + 1, 5], [2 * EDGE, 2 * EDGE + 1, 1]]
)
def test_bodies_of_one_topic(sizes: list[int]) -> None:
    (run,) = Scanner(LIMITS).feed(mpub("topic", *(b"x" * size for size in sizes)))
    assert isinstance(run, PublishRun)
    assert body_bytes(run.batch) == {run.batch.distinct[0]: sum(sizes)}


def test_bodies_of_many_topics() -> None:
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    chance = random.Random(seed)
    expected = dict.fromkeys(("a", "bb", "ccc"), 0)
    commands = []
    for _ in range(50):
        topic = chance.choice(list(expected))
        size = chance.choice([1, 200, EDGE - 1, EDGE, EDGE + 1, 3 * EDGE])
        commands.append(pub(topic, b"x" * size))
        expected[topic] += size
    events = Scanner(LIMITS).feed(b"".join(commands))
    found = dict.fromkeys(expected, 0)
    for run in events:
        assert isinstance(run, PublishRun)
        for key, size in body_bytes(run.batch).items():
            found[key[1 : 1 + key[0]].decode()] += size
    assert found == expected
