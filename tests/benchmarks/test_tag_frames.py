from __future__ import annotations

import pytest

from benchmarks import wire
from benchmarks.tag_frames import TagFrames


@pytest.mark.parametrize(
    ("first", "last"),
    [(1, 1), (1, 5), (250, 260), (4090, 4100), (65530, 65540), (1048570, 1048580)],
)
def test_frames_carry_the_tags_asked_for(first: int, last: int) -> None:
    frames = TagFrames(wire.ack(7, 0), 11)
    expected = b"".join(wire.ack(7, tag) for tag in range(first, last + 1))
    assert b"".join(frames.between(first, last)) == expected


def test_the_template_around_the_tag_is_kept() -> None:
    publish = wire.publish(1, "", "queue", wire.body_of(200))
    frames = TagFrames(publish + wire.ack(1, 0), len(publish) + 11)
    assert b"".join(frames.between(4096, 4096)) == publish + wire.ack(1, 4096)
