"""The loop actor: turns, their bounds, asks and stops, and failures that stay its own."""

from __future__ import annotations

import threading
from typing import Any

import pykka
import pytest
import structlog
from hand_scheduler import HandScheduler
from insides import inside
from leveret.actors.messages import Ref
from leveret.actors.runtime.read_gathering import (
    LONE_READS_MAX,
    LONE_ROUNDS_MAX,
    MORE_POLLS_MAX,
    ROUND_BYTES_MAX,
)
from leveret.actors.runtime.runtime import (
    TURN_MESSAGES_MAX,
    TURNS_PER_ROUND_MAX,
    LoopActor,
    Runtime,
    tell,
)


class Guest(pykka.ThreadingActor):
    """An actor of a host application."""

    def on_receive(self, message: object) -> object:
        return message


@pytest.fixture
def scheduler() -> HandScheduler:
    return HandScheduler()


@pytest.fixture
def runtime(scheduler: HandScheduler) -> Runtime:
    return Runtime(scheduler, structlog.get_logger("test"))


class Diary(LoopActor):
    """Writes down what happens to it; fails of an exception that it is told."""

    def __init__(self, entries: list[object]) -> None:
        super().__init__()
        self.entries = entries

    def on_start(self) -> None:
        self.entries.append("start")

    def on_receive(self, message: object) -> object:
        if isinstance(message, BaseException):
            raise message
        self.entries.append(message)
        return message

    def on_idle(self) -> None:
        self.entries.append("idle")

    def on_stop(self) -> None:
        self.entries.append("stop")

    def on_failure(self, *exception: Any) -> None:
        self.entries.append(("failed", exception[0]))


def test_messages_are_handled_in_order_in_one_turn_and_then_it_is_idle(
    runtime: Runtime, scheduler: HandScheduler
) -> None:
    entries: list[object] = []
    actor = Diary.start_on(runtime, entries)
    for number in range(3):
        assert tell(actor, number)
    assert entries == ["start"]
    assert scheduler.run_round() == 1
    assert entries == ["start", 0, 1, 2, "idle"]
    assert scheduler.run_round() == 0


def test_a_turn_is_bounded_and_the_others_come_in_between(
    runtime: Runtime, scheduler: HandScheduler
) -> None:
    entries: list[object] = []
    busy = Diary.start_on(runtime, entries)
    other = Diary.start_on(runtime, entries)
    count = 2 * TURN_MESSAGES_MAX + 1
    for number in range(count):
        tell(busy, number)
    tell(other, "other")
    scheduler.run()
    assert entries.index("other") == 2 + TURN_MESSAGES_MAX
    assert [entry for entry in entries if isinstance(entry, int)] == list(range(count))


def test_a_round_is_bounded_so_that_sockets_are_looked_at(
    runtime: Runtime, scheduler: HandScheduler
) -> None:
    class Endless(LoopActor):
        turns = 0

        def on_receive(self, _message: object) -> None:
            Endless.turns += 1
            tell(self.actor_ref, "again")

    tell(Endless.start_on(runtime), "begin")
    scheduler.run_round()
    assert Endless.turns == TURNS_PER_ROUND_MAX * TURN_MESSAGES_MAX
    assert len(scheduler.soon) == 1


class Passing(LoopActor):
    """A reader: passes on what it is told."""

    def __init__(self, to: Ref) -> None:
        super().__init__()
        self._to = to
        self.read = 0

    def on_receive(self, message: object) -> None:
        self.read += 1
        tell(self._to, message)


def test_tell_now_gives_turns_at_once_also_to_whom_the_actor_tells(
    runtime: Runtime, scheduler: HandScheduler
) -> None:
    entries: list[object] = []
    second = Diary.start_on(runtime, entries)

    class First(LoopActor):
        def on_receive(self, message: object) -> None:
            tell(second, message)

    runtime.tell_now(First.start_on(runtime), "through")
    assert entries == ["start", "through", "idle"]
    assert not scheduler.soon
    assert runtime.is_idle()


def test_a_callback_at_a_wake_comes_once_and_behind_the_turns(
    runtime: Runtime, scheduler: HandScheduler
) -> None:
    entries: list[object] = []
    actor = Diary.start_on(runtime, entries)
    runtime.call_at_wake(lambda: entries.append("woken"))
    # From the loop itself it is no wake.
    tell(actor, "own")
    scheduler.run_round()
    assert "woken" not in entries
    entries.clear()
    for number in range(2):
        thread = threading.Thread(target=tell, args=(actor, number))
        thread.start()
        thread.join()
        scheduler.run_round()
    assert [each for each in entries if each != "idle"] == [0, "woken", 1]


def test_telling_from_another_thread_wakes_the_loop_once(
    runtime: Runtime, scheduler: HandScheduler
) -> None:
    entries: list[object] = []
    actors = [Diary.start_on(runtime, entries) for _ in range(3)]
    thread = threading.Thread(target=lambda: [tell(actor, 1) for actor in actors * 5])
    thread.start()
    thread.join()
    assert len(scheduler.soon) == 1
    scheduler.run()
    assert entries.count(1) == 15


def test_messages_of_another_thread_do_not_wait_behind_the_reads_of_this_round(
    runtime: Runtime, scheduler: HandScheduler
) -> None:
    # The loop was woken for it, and calls back for many reads before it looks at what woke it.
    told: list[object] = []
    read: list[object] = []
    queue = Diary.start_on(runtime, told)
    thread = threading.Thread(target=tell, args=(queue, "persisted"))
    thread.start()
    thread.join()
    runtime.tell_now(Diary.start_on(runtime, read), "bytes")
    assert read == ["start", "bytes", "idle"]
    assert told == ["start", "persisted", "idle"]
    scheduler.run()
    assert runtime.is_idle()


def begin_to_gather(runtime: Runtime, scheduler: HandScheduler, reader: Ref) -> None:
    """Reads come in pairs until they are gathered."""
    for _ in range(LONE_READS_MAX):
        for _ in range(2):
            runtime.tell_read(reader, b"read")
        scheduler.run()


def test_lone_reads_are_worked_on_at_once(runtime: Runtime, scheduler: HandScheduler) -> None:
    entries: list[object] = []
    reader = Passing.start_on(runtime, Diary.start_on(runtime, entries))
    for _ in range(3 * LONE_READS_MAX):
        # A round of the event loop for each read.
        runtime.tell_read(reader, b"read")
        scheduler.run()
    assert entries.count(b"read") == 3 * LONE_READS_MAX
    assert entries.count("idle") == 3 * LONE_READS_MAX
    assert runtime.is_idle()


def test_reads_that_come_together_are_worked_on_together(
    runtime: Runtime, scheduler: HandScheduler
) -> None:
    entries: list[object] = []
    queue = Diary.start_on(runtime, entries)
    readers = [Passing.start_on(runtime, queue) for _ in range(20)]
    for _ in range(2 + LONE_READS_MAX // len(readers)):
        for reader in readers:
            runtime.tell_read(reader, b"read")
        scheduler.run()
    entries.clear()
    for reader in readers:
        runtime.tell_read(reader, b"read")
    # The readers have counted their bytes; nobody else has had a turn.
    assert {inside(reader).read for reader in readers} == {3 + LONE_READS_MAX // len(readers)}
    assert entries == []
    scheduler.run()
    assert entries == [b"read"] * 20 + ["idle"]


def test_sockets_are_polled_again_while_that_brings_reads_up_to_a_bound(
    runtime: Runtime, scheduler: HandScheduler
) -> None:
    entries: list[object] = []
    reader = Passing.start_on(runtime, Diary.start_on(runtime, entries))
    begin_to_gather(runtime, scheduler, reader)
    entries.clear()
    for polls in range(1 + MORE_POLLS_MAX):
        assert entries == []
        # Each poll brings one.
        runtime.tell_read(reader, b"%d" % polls)
        scheduler.run_round()
    assert entries == [*(b"%d" % polls for polls in range(1 + MORE_POLLS_MAX)), "idle"]
    # And a poll that brings none is the last.
    entries.clear()
    runtime.tell_read(reader, b"last")
    scheduler.run_round()
    assert entries == []
    scheduler.run_round()
    assert entries == [b"last", "idle"]


def test_a_round_that_has_read_much_is_worked_on_before_the_next_poll(
    runtime: Runtime, scheduler: HandScheduler
) -> None:
    entries: list[object] = []
    reader = Passing.start_on(runtime, Diary.start_on(runtime, entries))
    begin_to_gather(runtime, scheduler, reader)
    entries.clear()
    large = bytes(ROUND_BYTES_MAX)
    runtime.tell_read(reader, large)
    scheduler.run_round()
    assert entries == [large, "idle"]


def test_reads_that_come_alone_again_are_worked_on_at_once_again(
    runtime: Runtime, scheduler: HandScheduler
) -> None:
    entries: list[object] = []
    reader = Passing.start_on(runtime, Diary.start_on(runtime, entries))
    begin_to_gather(runtime, scheduler, reader)
    for _ in range(LONE_ROUNDS_MAX):
        runtime.tell_read(reader, b"read")
        scheduler.run()
    entries.clear()
    runtime.tell_read(reader, b"read")
    assert entries == [b"read", "idle"]


class Picky(Diary):
    """Tells itself of what it reads, or fails of it."""

    def on_receive(self, message: object) -> object:
        if message == b"fail":
            raise ValueError
        if message == b"read":
            tell(self.actor_ref, "told itself")
        return super().on_receive(message)


def test_what_a_reader_is_told_while_it_reads_it_handles_in_another_turn(
    runtime: Runtime, scheduler: HandScheduler
) -> None:
    begin_to_gather(runtime, scheduler, Diary.start_on(runtime, []))
    entries: list[object] = []
    reader = Picky.start_on(runtime, entries)
    runtime.tell_read(reader, b"read")
    assert entries == ["start", b"read"]
    scheduler.run()
    assert entries == ["start", b"read", "told itself", "idle"]
    assert runtime.is_idle()


def test_a_reader_that_fails_of_what_it_reads_stops_alone(
    runtime: Runtime, scheduler: HandScheduler
) -> None:
    entries: list[object] = []
    other = Diary.start_on(runtime, [])
    begin_to_gather(runtime, scheduler, other)
    reader = Picky.start_on(runtime, entries)
    runtime.tell_read(reader, b"fail")
    assert entries == ["start", ("failed", ValueError)]
    assert not tell(reader, b"read")
    runtime.tell_read(reader, b"read")
    scheduler.run()
    assert entries == ["start", ("failed", ValueError)]
    assert other.is_alive()


def test_an_ask_is_answered_in_its_place(runtime: Runtime, scheduler: HandScheduler) -> None:
    entries: list[object] = []
    actor = Diary.start_on(runtime, entries)
    tell(actor, 1)
    answer = actor.ask(2, block=False)
    tell(actor, 3)
    scheduler.run()
    assert answer.get(timeout=0) == 2
    assert entries == ["start", 1, 2, 3, "idle"]


def test_a_stop_comes_behind_what_was_told_and_what_comes_behind_it_is_refused(
    runtime: Runtime, scheduler: HandScheduler
) -> None:
    entries: list[object] = []
    actor = Diary.start_on(runtime, entries)
    tell(actor, 1)
    stopped = actor.stop(block=False)
    tell(actor, 2)
    answer = actor.ask(3, block=False)
    scheduler.run()
    assert entries == ["start", 1, "stop"]
    assert stopped.get(timeout=0) is True
    with pytest.raises(pykka.ActorDeadError):
        answer.get(timeout=0)
    assert not tell(actor, 4)


@pytest.mark.parametrize("error", [ValueError("ours"), KeyboardInterrupt(), SystemExit(1)])
def test_any_exception_of_a_handler_stops_that_actor_alone_and_is_reported(
    runtime: Runtime, scheduler: HandScheduler, error: BaseException
) -> None:
    entries: list[object] = []
    failing, other = Diary.start_on(runtime, entries), Diary.start_on(runtime, [])
    tell(failing, error)
    tell(failing, "never")
    tell(other, 1)
    scheduler.run()
    assert entries == ["start", ("failed", type(error))]
    assert not failing.is_alive()
    assert not tell(failing, 2)
    assert other.is_alive()
    assert tell(other, 2)


@pytest.mark.parametrize(
    ("error", "is_alive"), [(ValueError("ours"), True), (KeyboardInterrupt(), False)]
)
def test_whatever_a_handler_raises_for_an_ask_reaches_its_asker_and_no_other_actor(
    runtime: Runtime, scheduler: HandScheduler, error: BaseException, is_alive: bool
) -> None:
    guest = Guest.start()
    try:
        asked = Diary.start_on(runtime, [])
        answer = asked.ask(error, block=False)
        scheduler.run()
        with pytest.raises(type(error)):
            answer.get(timeout=0)
        assert asked.is_alive() is is_alive
        # An actor of the host application, in Pykka's registry.
        assert guest.ask("still there") == "still there"
    finally:
        guest.stop()


@pytest.mark.parametrize("fails_at_start", [False, True])
def test_a_failure_of_on_failure_ends_the_node_because_nobody_has_heard_of_the_first(
    scheduler: HandScheduler, fails_at_start: bool
) -> None:
    class Hopeless(LoopActor):
        def on_start(self) -> None:
            if fails_at_start:
                raise ValueError

        def on_receive(self, message: object) -> None:
            raise ValueError(message)

        def on_failure(self, *_exception: object) -> None:
            raise KeyboardInterrupt

    fatal: list[tuple[str, type[BaseException]]] = []
    runtime = Runtime(
        scheduler,
        structlog.get_logger("test"),
        on_fatal=lambda name, error: fatal.append((name, type(error))),
    )
    entries: list[object] = []
    tell(Hopeless.start_on(runtime), 1)
    tell(Diary.start_on(runtime, entries), 2)
    scheduler.run()
    assert fatal == [("Hopeless", KeyboardInterrupt)]
    # No exception has left the actor's turn.
    assert entries == ["start", 2, "idle"]


def test_a_failure_at_the_start_is_reported_as_any_other(runtime: Runtime) -> None:
    class Stillborn(Diary):
        def on_start(self) -> None:
            raise ValueError

    entries: list[object] = []
    actor = Stillborn.start_on(runtime, entries)
    assert entries == [("failed", ValueError)]
    assert not tell(actor, 1)


def test_loop_actors_are_in_no_registry(runtime: Runtime) -> None:
    Diary.start_on(runtime, [])
    assert pykka.ActorRegistry.get_all() == []


def test_a_stopped_actor_lets_go_of_what_it_held(
    runtime: Runtime, scheduler: HandScheduler
) -> None:
    actor = Diary.start_on(runtime, [])
    stopped = inside(actor)
    actor.stop(block=False)
    scheduler.run()
    assert not hasattr(stopped, "entries")


def test_telling_when_the_loop_is_closed_is_no_error(
    runtime: Runtime, scheduler: HandScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    def closed(_callback: object) -> None:
        raise RuntimeError("Event loop is closed")

    monkeypatch.setattr(scheduler, "call_soon_threadsafe", closed)
    actor = Diary.start_on(runtime, [])
    told: list[bool] = []
    thread = threading.Thread(target=lambda: told.append(tell(actor, 1)))
    thread.start()
    thread.join()
    assert told == [True]
