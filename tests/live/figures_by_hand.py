"""A trace's figures message by message, as `trace_figures` defines them: slow, and believable."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from leveret.logs.trace_figures import HOPS, QUANTILES, Latency, QueueFigures, TraceFigures

Line = dict[str, Any]
Message = tuple[str, int, int]
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
        self.moments: dict[tuple[str, Message, str | None], int] = {}
        self._known = {
            (line["boot"], line["queue_id"]): line["queue"]
            for line in reversed(self.lines)
            if line["event"] in ("message.enqueued", "message.recovered") and "queue_id" in line
        }
        for line in self.lines:
            self._messages(line)
        self._syncs()
        self._answers()

    def _messages(self, line: Line) -> None:
        event = line["event"]
        queue = line.get("queue") if event in OF_QUEUES else None
        if event == "journal.appended":
            queue = self._known.get((line["boot"], line["queue_id"]))
        if event in OF_QUEUES and queue is None:
            return
        for place in numbers(line.get("messages", ())):
            message = line["boot"], line["batch"], place
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

    def took(self, begin: str, end: str, is_per_queue: bool) -> Iterator[tuple[str | None, int]]:
        """The queue, and how long it took, of every message that has both moments."""
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
                yield queue, last - first

    def _is_of_queue(self, event: str) -> bool:
        return event in OF_QUEUES or event == "journal.synced"


def latency(values: list[int]) -> Latency:
    values = sorted(values)
    if not values:
        return Latency()
    ranks = [-(-round(quantile * 1000) * len(values) // 1000) for quantile in QUANTILES]
    return Latency(len(values), *(values[rank - 1] for rank in ranks), values[-1])


def figures_by_hand(lines: list[Line]) -> TraceFigures:
    found = ByHand(lines)
    boots: dict[str, list[int]] = {}
    for line in lines:
        boots.setdefault(line["boot"], []).append(line["t_ns"])
    hops = {hop.name: list(found.took(hop.begin, hop.end, hop.is_per_queue)) for hop in HOPS}

    def queue_figures(queue: str) -> QueueFigures:
        def count(event: str) -> int:
            return sum((each, of) == (event, queue) for each, _, of in found.moments)

        def took(hop: str) -> list[int]:
            return [value for of, value in hops[hop] if of == queue]

        return QueueFigures(
            queue,
            count("message.enqueued"),
            len(took("confirm")),
            count("message.delivered"),
            count("message.settled"),
            latency(took("confirm")),
            latency(took("deliver")),
        )

    queues = sorted({queue for _, _, queue in found.moments if queue is not None})
    return TraceFigures(
        len(lines),
        0,
        sum(max(each) - min(each) for each in boots.values()) / 1e9,
        tuple(queue_figures(queue) for queue in queues),
        tuple((hop, latency([value for _, value in hops[hop.name]])) for hop in HOPS),
    )
