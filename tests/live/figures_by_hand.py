"""A trace's figures message by message, as `trace_figures` defines them: slow, and believable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from leveret.logs.reading.coverage import Coverage
from leveret.logs.report.figures import HOPS, QUANTILES, Counts, Latency, QueueFigures, TraceFigures

Line = dict[str, Any]
Message = tuple[str, int, int]
# A virtual host and a name.
Queue = tuple[str, str]
OF_QUEUES = {
    "message.enqueued",
    "journal.appended",
    "message.persisted",
    "confirm.queued",
    "message.delivered",
    "message.settled",
}


def numbers(spans: Iterable[list[int]]) -> Iterator[int]:
    for first, last in spans:
        yield from range(first, last + 1)


class ByHand:
    """All moments of all messages: (event, message, queue or none) -> t_ns."""

    def __init__(self, lines: list[Line]) -> None:
        self.lines = sorted(lines, key=lambda line: line["t_ns"])
        self.moments: dict[tuple[str, Message, Queue | None], int] = {}
        # Messages that are traced for what went wrong, and batches with how many one stands for.
        self._late: set[Message] = set()
        self.one_of: dict[tuple[str, int], int] = {}
        self._known = {
            (line["boot"], line["queue_id"]): queue_of(line)
            for line in reversed(self.lines)
            if line["event"] in ("message.enqueued", "message.recovered") and "queue_id" in line
        }
        for line in self.lines:
            self._messages(line)
        self._syncs()
        self._answers()
        self._weigh()
        self.moments = {key: at for key, at in self.moments.items() if key[1] not in self._late}

    def _weigh(self) -> None:
        begun: dict[tuple[str, int], int] = {}
        for (_event, (boot, batch, _place), _queue), t_ns in self.moments.items():
            begun[boot, batch] = min(t_ns, begun.get((boot, batch), t_ns))
        for (boot, batch), t_ns in begun.items():
            chosen = [
                line["one_of"]
                for line in self.lines
                if line["event"] == "trace.started" and line["boot"] == boot
                if line["t_ns"] <= t_ns
            ]
            self.one_of[boot, batch] = max(1, *chosen[-1:], 1)

    def _messages(self, line: Line) -> None:
        event = line["event"]
        queue = queue_of(line) if event in OF_QUEUES and "queue" in line else None
        if event == "journal.appended":
            queue = self._known.get((line["boot"], line["queue_id"]))
        if event in OF_QUEUES and queue is None:
            return
        for place in numbers(line.get("messages", ())):
            message = line["boot"], line["batch"], place
            if line.get("late"):
                self._late.add(message)
            self.moments.setdefault((event, message, queue), line["t_ns"])

    def _syncs(self) -> None:
        syncs = [line for line in self.lines if line["event"] == "journal.synced"]
        for (event, message, queue), t_ns in list(self.moments.items()):
            if event == "journal.appended":
                boot, batch, _ = message
                for line in syncs:
                    if line["boot"] == boot and line["t_ns"] >= t_ns and batch in line["batches"]:
                        self.moments["journal.synced", message, queue] = line["t_ns"]
                        break

    def _answers(self) -> None:
        open_numbers: dict[tuple[object, ...], Message] = {}
        for line in self.lines:
            if line["event"] not in ("command.assembled", "confirm.sent"):
                continue
            place = line["boot"], line["connection"], line["channel"]
            if line["event"] == "command.assembled":
                places = numbers(line["messages"])
                for number, at in zip(numbers(line.get("seq_no", ())), places, strict=False):
                    open_numbers[*place, number] = line["boot"], line["batch"], at
            else:
                for number in numbers(line["seq_no"]):
                    message = open_numbers.pop((*place, number), None)
                    if message is not None:
                        self.moments["confirm.sent", message, None] = line["t_ns"]

    def took(
        self, begin: str, end: str, is_per_queue: bool
    ) -> Iterator[tuple[Queue | None, int, int]]:
        """The queue, how long it took and for how many, of every message with both moments."""
        messages = {
            (message, queue)
            for _event, message, queue in self.moments
            if (queue is not None) == is_per_queue
        }
        for message, queue in messages:
            first, last = (
                self.moments.get((event, message, queue if self._is_of_queue(event) else None))
                for event in (begin, end)
            )
            if first is not None and last is not None:
                yield queue, last - first, self.one_of[message[:2]]

    def _is_of_queue(self, event: str) -> bool:
        return event in OF_QUEUES or event == "journal.synced"


def queue_of(line: Line) -> Queue:
    return line.get("vhost", ""), line["queue"]


def latency(taken: list[tuple[int, int]]) -> Latency:
    values = sorted(value for value, _stands_for in taken)
    if not values:
        return Latency()
    estimated = sum(stands_for for _value, stands_for in taken)
    ranks = [-(-round(quantile * 1000) * len(values) // 1000) for quantile in QUANTILES]
    return Latency(len(values), estimated, *(values[rank - 1] for rank in ranks), values[-1])


def figures_by_hand(lines: list[Line]) -> TraceFigures:
    found = ByHand(lines)
    coverage = Coverage()
    for line in lines:
        coverage.feed(line)
    coverage.finish()
    boots: dict[str, list[int]] = {}
    for line in lines:
        boots.setdefault(line["boot"], []).append(line["t_ns"])
    hops = {hop.name: list(found.took(hop.begin, hop.end, hop.is_per_queue)) for hop in HOPS}

    def queue_figures(queue: Queue) -> QueueFigures:
        def count(event: str) -> list[int]:
            of_event = [m for each, m, of in found.moments if (each, of) == (event, queue)]
            return [found.one_of[message[:2]] for message in of_event]

        def took(hop: str) -> list[tuple[int, int]]:
            return [taken for of, *taken in hops[hop] if of == queue]  # type: ignore[misc]

        # Each message's number of queues is in the trace: its confirm counts in each.
        confirmed = [
            found.one_of[message[:2]]
            for message in {m for _, m, of in found.moments if of == queue}
            if ("confirm.sent", message, None) in found.moments
        ]
        counted = [
            count("message.enqueued"),
            confirmed,
            count("message.delivered"),
            count("message.settled"),
        ]
        return QueueFigures(
            *queue,
            Counts(*map(len, counted)),
            Counts(*map(sum, counted)),
            latency(took("confirm")),
            latency(took("deliver")),
        )

    queues = sorted({queue for _, _, queue in found.moments if queue is not None})
    return TraceFigures(
        len(lines),
        0,
        sum(max(each) - min(each) for each in boots.values()) / 1e9,
        tuple(queue_figures(queue) for queue in queues),
        tuple((hop, latency([taken for _, *taken in hops[hop.name]])) for hop in HOPS),  # type: ignore[misc]
        tuple(coverage.notes()),
        any(one_of > 1 for one_of in found.one_of.values()),
    )
