"""A trace's figures as tables for a terminal; `trace_picture` draws the same ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ..counted import counted
from ..reading.explain import printable
from .figures import Latency, QueueFigures, TraceFigures

_GAP = "  "
_QUANTILE_HEADS = ("p50", "p95", "p99", "p99.9", "max")
_NANOSECONDS = 1e6  # in a millisecond


def report(figures: TraceFigures) -> str:
    """All tables, with a line above that says what they are about; ends in a line's end."""
    parts = ["".join(f"{line}\n" for line in (summary(figures), *map(printable, figures.notes)))]
    if figures.queues:
        parts.append(f"{rates_title(figures)}\n" + _table(_rates(figures)))
        parts.append("Milliseconds, by queue\n" + _table(_queue_latencies(figures)))
    parts.append("Milliseconds, by hop\n" + _table(_hop_latencies(figures)))
    return "\n".join(parts)


def summary(figures: TraceFigures) -> str:
    """The extent of the trace, in one line."""
    are = "is" if figures.bad_lines == 1 else "are"
    bad = f", {counted(figures.bad_lines, 'line')} that {are} no event" if figures.bad_lines else ""
    queues = counted(len(figures.queues), "queue")
    return f"{counted(figures.events, 'event')} in {figures.seconds:,.1f} s, {queues}{bad}"


def rates_title(figures: TraceFigures) -> str:
    """Explain the rates: a sample's messages stand for others."""
    estimated = ", estimated from those that are traced" if figures.is_sample else ""
    return f"Messages per second, by queue{estimated}"


def label(queue: QueueFigures, figures: TraceFigures) -> str:
    """The queue's name; where there are several virtual hosts, with its own."""
    is_one = len({each.vhost for each in figures.queues}) == 1
    return queue.queue if is_one else f"{queue.queue} ({queue.vhost})"


def rate(count: int, figures: TraceFigures) -> float:
    """So many a second; 0 if the trace covers no time."""
    return count / figures.seconds if figures.seconds else 0.0


def shown_rate(per_second: float) -> str:
    """In full above ten, with a decimal below."""
    return f"{per_second:,.0f}" if per_second >= 10 or not per_second else f"{per_second:.1f}"


def _rates(figures: TraceFigures) -> Iterable[Sequence[str]]:
    traced = "traced" if figures.is_sample else "messages"
    yield ("queue", "enqueued", "confirmed", "delivered", "settled", traced)
    for queue in figures.queues:
        shown = (shown_rate(rate(count, figures)) for count in queue.estimated)
        yield (printable(label(queue, figures)), *shown, f"{queue.traced.enqueued:,}")


def _queue_latencies(figures: TraceFigures) -> Iterable[Sequence[str]]:
    yield ("queue", "hop", "messages", *_QUANTILE_HEADS)
    for queue in figures.queues:
        yield (printable(label(queue, figures)), "confirm", *_latency(queue.confirm))
        yield ("", "deliver", *_latency(queue.deliver))


def _hop_latencies(figures: TraceFigures) -> Iterable[Sequence[str]]:
    yield ("hop", "from", "to", "a second", "messages", *_QUANTILE_HEADS)
    for hop, latency in figures.hops:
        per_second = shown_rate(rate(latency.estimated, figures))
        yield (hop.name, hop.begin, hop.end, per_second, *_latency(latency))


def _latency(latency: Latency) -> tuple[str, ...]:
    values = latency.durations()
    if not latency.messages:
        return ("0", *("-" for _ in values))
    return (f"{latency.messages:,}", *(f"{value / _NANOSECONDS:,.3f}" for value in values))


def _table(rows: Iterable[Sequence[str]]) -> str:
    """The first row is the heads; what begins with a digit or a minus stands right."""
    head, *body = rows
    widths = [max(len(row[place]) for row in (head, *body)) for place in range(len(head))]
    is_number = [
        all(row[place][:1].isdigit() or row[place] == "-" for row in body)
        for place in range(len(head))
    ]
    # A name that is a number is a name.
    is_number[0] = False
    lines = []
    for row in (head, *body):
        cells = [
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(row, widths, is_number, strict=True)
        ]
        lines.append(_GAP.join(cells).rstrip() + "\n")
    return "".join(lines)
