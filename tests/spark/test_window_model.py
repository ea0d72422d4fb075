"""The window against a broker of a few lines that may do all that a broker may do."""

from __future__ import annotations

from collections import Counter

import hypothesis.strategies as st
from hypothesis import given, settings
from leveret.spark.sink.publishes import Publish, Returned
from leveret.spark.sink.window import Policy, Window


def dead_letter(row: Publish, _code: int, _text: str) -> Publish:
    return row._replace(routing_key="dead", is_dead_letter=True)


class ModelBroker:
    """Takes publishes in order; answers late, in runs, with nacks; forgets who asked."""

    def __init__(self, unroutable: frozenset[int], full: dict[int, int]) -> None:
        self.taken: Counter[tuple[int, bool]] = Counter()
        self._unroutable = unroutable
        # How often each row will be nacked.
        self._full = full
        self._tag = 0
        # Tag, and whether it will be acked; and the returns that go before them.
        self._owed: list[tuple[int, bool]] = []

    def publish(self, window: Window, publish: Publish) -> None:
        self._tag += 1
        if publish.row in self._unroutable and not publish.is_dead_letter:
            message = Returned(publish.message_id, "", publish.routing_key, publish.body)
            window.returned(message, 312, "NO_ROUTE")
            self._owed.append((self._tag, True))
        elif self._full.get(publish.row, 0) > 0 and not publish.is_dead_letter:
            self._full[publish.row] -= 1
            self._owed.append((self._tag, False))
        else:
            self.taken[publish.row, publish.is_dead_letter] += 1
            self._owed.append((self._tag, True))

    def answer(self, window: Window, place: int, multiple: bool, now: float) -> None:
        if not self._owed:
            return
        tag, is_ack = self._owed[place % len(self._owed)]
        if multiple:
            run = [each for each in self._owed if each[0] <= tag]
            if any(each[1] != is_ack for each in run):
                multiple = False
            else:
                self._owed = [each for each in self._owed if each[0] > tag]
        if not multiple:
            self._owed.remove((tag, is_ack))
        (window.acked if is_ack else window.nacked)(tag, multiple, now)

    def lose_connection(self, window: Window, now: float) -> None:
        self._tag = 0
        self._owed.clear()
        window.connection_lost(now)


class Run:
    """Rows on their way from a window to the model."""

    def __init__(self, policy: Policy, rows: list[Publish], broker: ModelBroker) -> None:
        self.window = Window(policy, dead_letter)
        self.now = 0.0
        self.losses = 0
        self._size_max = policy.in_flight_max
        self._rows = rows
        self._broker = broker
        self._offered = 0

    def step(self, what: str, number: int, multiple: bool) -> None:
        self.now += 0.5
        if what == "send":
            self._send(number)
        elif what == "answer":
            self._broker.answer(self.window, number, multiple, self.now)
        else:
            self.losses += 1
            self._broker.lose_connection(self.window, self.now)
        assert self.window.in_flight <= len(self.window) <= self._size_max

    def finish(self) -> None:
        while self._offered < len(self._rows) or len(self.window):
            self.step("send", self._size_max, False)
            self.step("answer", 0, False)

    def _send(self, most: int) -> None:
        end = min(self.window.fitting(self._rows, self._offered), self._offered + most)
        self.window.offer(self._rows[self._offered : end])
        self._offered = end
        for publish in self.window.dequeue(self.now):
            self._broker.publish(self.window, publish)


def publishes(count: int, names: int, unroutable: frozenset[int]) -> list[Publish]:
    """Fewer names than rows: some share their id and body. Where they go, their key alone says."""
    keys = ["nowhere" if row in unroutable else "queue" for row in range(count)]
    return [
        Publish(row, f"m{row % names}", "", keys[row], b"", b"", b"%d" % (row % names))
        for row in range(count)
    ]


STEP = st.one_of(
    st.tuples(st.just("send"), st.integers(1, 10), st.just(False)),
    st.tuples(st.just("answer"), st.integers(0, 50), st.booleans()),
    st.tuples(st.just("lose"), st.just(0), st.just(False)),
)


@settings(max_examples=400, deadline=None)
@given(
    count=st.integers(0, 40),
    in_flight_max=st.integers(1, 12),
    on_returned=st.sampled_from(["fail", "deadletter", "count", "ignore"]),
    on_nacked=st.sampled_from(["deadletter", "ignore"]),
    unroutable=st.frozensets(st.integers(0, 39), max_size=6),
    full=st.dictionaries(st.integers(0, 39), st.integers(1, 4), max_size=6),
    names=st.integers(1, 40),
    steps=st.lists(STEP, max_size=120),
)
def test_every_row_ends_once_and_none_that_was_confirmed_is_missing(
    count: int,
    in_flight_max: int,
    on_returned: str,
    on_nacked: str,
    unroutable: frozenset[int],
    full: dict[int, int],
    names: int,
    steps: list[tuple[str, int, bool]],
) -> None:
    policy = Policy(
        in_flight_max=in_flight_max,
        on_returned=on_returned,
        on_nacked=on_nacked,
        retries_max=2,
        backoff_s=1.0,
    )
    broker = ModelBroker(unroutable, dict(full))
    run = Run(policy, publishes(count, names, unroutable), broker)
    for step in steps:
        run.step(*step)
    run.finish()
    window, losses, tally = run.window, run.losses, run.window.tally

    assert window.in_flight_bytes == 0
    assert tally.rows == count == tally.confirmed + tally.returned + tally.nacked
    buried = on_returned == "deadletter"
    letters = tally.returned * buried + tally.nacked * (on_nacked == "deadletter")
    assert tally.deadlettered == letters
    # Which rows are returned can be told where none shares its id and body with another.
    gone = set(unroutable & set(range(count)))
    given_up = {row for row, times in full.items() if times > 2 and row < count} - gone
    if names >= count:
        assert tally.returned == len(gone)
        if not losses:
            assert tally.nacked == len(given_up)
    for row in set(range(count)) - gone - given_up:
        assert broker.taken[row, False] >= 1
    if not losses and not full and names >= count:
        assert all(times == 1 for times in broker.taken.values())
