"""Answers go out in the order of the commands, and a publish's when all its messages are safe."""

from __future__ import annotations

from array import array

from leveret.core.nsq.answers import Answers, PublishedRun
from leveret.nsq_frames.responses import CLOSE_WAIT, OK, error_frame

REFUSED = b"refused "


def answers() -> Answers:
    return Answers(lambda command: REFUSED + command)


def test_publishes_are_answered_below_the_smallest_unconfirmed() -> None:
    owed = answers()
    owed.published(PublishedRun(b"PUB", 1, 5, None))
    assert owed.due(1, ()) == (b"", False)
    assert owed.due(3, ()) == (OK * 2, False)
    assert owed.due(3, ()) == (b"", False)
    assert owed.due(0, ()) == (OK * 3, False)
    assert len(owed) == 0


def test_an_mpub_is_answered_once_when_its_last_message_is_safe() -> None:
    owed = answers()
    owed.published(PublishedRun(b"MPUB", 1, 6, array("I", (2, 3, 1))))
    assert owed.due(2, ()) == (b"", False)
    assert owed.due(3, ()) == (OK, False)
    assert owed.due(5, ()) == (b"", False)
    assert owed.due(6, ()) == (OK, False)
    assert owed.due(0, ()) == (OK, False)


def test_other_answers_wait_for_the_publishes_before_them() -> None:
    owed = answers()
    owed.put(CLOSE_WAIT)
    owed.published(PublishedRun(b"PUB", 1, 1, None))
    owed.put(error_frame(b"E_X x"))
    owed.published(PublishedRun(b"PUB", 2, 1, None))
    assert owed.due(1, ()) == (CLOSE_WAIT, False)
    assert owed.due(2, ()) == (OK + error_frame(b"E_X x"), False)
    assert owed.due(0, ()) == (OK, False)


def test_a_refused_publish_is_the_last_answer_and_waits_for_its_turn() -> None:
    owed = answers()
    owed.published(PublishedRun(b"PUB", 1, 5, None))
    assert owed.due(1, [(3, 3)]) == (b"", False)
    assert owed.due(2, [(3, 3)]) == (OK, False)
    assert owed.due(4, [(3, 3)]) == (OK + REFUSED + b"PUB", True)
    assert len(owed) == 0


def test_an_mpub_is_refused_as_a_whole() -> None:
    owed = answers()
    owed.published(PublishedRun(b"MPUB", 1, 6, array("I", (2, 3, 1))))
    assert owed.due(3, [(4, 4)]) == (OK, False)
    assert owed.due(0, [(4, 4)]) == (REFUSED + b"MPUB", True)
