"""A trace's figures as a picture: one SVG, or a page of HTML with it; nothing is loaded from afar.

Latencies stand on a logarithmic axis, because what a hop takes goes from microseconds to seconds: a
line from the median to the greatest value, with a dot for each quantile. Rates are bars from zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Final

from ..counted import counted
from ..reading.explain import printable
from .figures import Latency, QueueFigures, TraceFigures
from .tables import label, rate, rates_title, report, shown_rate, summary

# Pixels.
WIDTH: Final = 1080
_MARGIN: Final = 24
_LEFT: Final = 300
_RIGHT: Final = 140
_ROW: Final = 26
_BAR: Final = 9
_PANEL_GAP: Final = 46
# More queues than these make no picture; all of them are in the table.
QUEUES_MAX: Final = 24
_NAME_LETTERS_MAX: Final = 20
# Of what the trace lacks, so many sentences.
_NOTES_MAX: Final = 8

_INK, _FAINT, _GRID, _BAND = "#1f2933", "#6b7785", "#dde2e8", "#f4f6f8"
_QUANTILES: Final = (
    ("p50", "#1f4e79"),
    ("p95", "#2a9d8f"),
    ("p99", "#e9a23b"),
    ("p99.9", "#c8553d"),
)
_RATES: Final = (
    ("enqueued", "#1f4e79"),
    ("confirmed", "#2a9d8f"),
    ("delivered", "#e9a23b"),
    ("settled", "#c8553d"),
)
_UNITS: Final = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"), (1, "ns"))
_FONT: Final = "system-ui, 'Segoe UI', 'DejaVu Sans', Arial, sans-serif"

# A name, what stands small beside it, its figures, and whether it stands on a band.
Row = tuple[str, str, Latency, bool]


def page(figures: TraceFigures) -> str:
    """The picture and, below it, the tables, as one page of HTML."""
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>Leveret trace: {escape(summary(figures))}</title>\n"
        "<style>body{margin:24px auto;max-width:1080px;background:#fff;color:#1f2933;"
        f"font-family:{_FONT}}} svg{{width:100%;height:auto}} "
        "pre{font:12px/1.45 ui-monospace,'DejaVu Sans Mono',monospace;overflow-x:auto}</style>"
        f"</head>\n<body>\n{svg(figures)}\n<pre>{escape(report(figures))}</pre>\n</body></html>\n"
    )


def svg(figures: TraceFigures) -> str:
    """The picture alone."""
    queues = _largest(figures)
    parts = [
        _text(0, 24, "What happened to the messages", 22, weight=600),
        _text(0, 46, _subtitle(figures, queues), 13, _FAINT),
    ]
    notes = figures.notes[:_NOTES_MAX]
    more = len(figures.notes) - len(notes)
    shown = [*notes, f"{more} more such notes are in the table"] if more else list(notes)
    parts += [_text(0, 46.0 + 16 * n, note, 11, _FAINT) for n, note in enumerate(shown, 1)]
    hops: list[Row] = [
        (hop.name, f"{hop.begin} → {hop.end}", latency, hop.name == "confirm")
        for hop, latency in figures.hops
    ]
    waits: list[Row] = [
        row
        for number, queue in enumerate(queues)
        for row in (
            (label(queue, figures), "publish → confirm", queue.confirm, number % 2 == 0),
            ("", "in the queue → delivered", queue.deliver, number % 2 == 0),
        )
    ]
    top = 46.0 + 16 * len(shown) + _PANEL_GAP
    panels = [("How long each hop takes", hops), ("How long a message waits, by queue", waits)]
    for title, rows in panels:
        if rows:
            drawn, top = _latencies(title, rows, top)
            parts += drawn
            top += _PANEL_GAP
    if queues:
        drawn, top = _rates(figures, queues, top)
        parts += drawn
    height = round(top + 12)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{-_MARGIN} {-_MARGIN} '
        f'{WIDTH + 2 * _MARGIN} {height + 2 * _MARGIN}" width="{WIDTH}" font-family="{_FONT}">\n'
        f'<rect x="{-_MARGIN}" y="{-_MARGIN}" width="100%" height="100%" fill="#fff"/>\n'
        + "\n".join(parts)
        + "\n</svg>"
    )


def _largest(figures: TraceFigures) -> list[QueueFigures]:
    """Those with the most messages, the largest first."""
    ranked = sorted(figures.queues, key=lambda each: (-each.estimated.enqueued, each[:2]))
    return ranked[:QUEUES_MAX]


def _subtitle(figures: TraceFigures, queues: Sequence[QueueFigures]) -> str:
    more = len(figures.queues) - len(queues)
    return summary(figures) + (f" (the {len(queues)} largest are shown)" if more else "")


# --- Latencies


def _latencies(title: str, rows: Sequence[Row], top: float) -> tuple[list[str], float]:
    drawn = [latency for _, _, latency, _ in rows if latency.messages]
    values = [value for latency in drawn for value in latency.durations()]
    low = math.floor(math.log10(max(min(values, default=1_000), 1)))
    high = max(math.ceil(math.log10(max(max(values, default=1_000_000), 1))), low + 1)
    width = WIDTH - _LEFT - _RIGHT

    def at(value: float) -> float:
        share = (math.log10(max(value, 10**low)) - low) / (high - low)
        return _LEFT + width * share

    legend = [*_QUANTILES, ("slowest", _FAINT)]
    parts = [_text(0, top, title, 16, weight=600), *_legend(legend, top)]
    begin = top + 18
    end = begin + _ROW * len(rows)
    for number, (_, _, _, has_band) in enumerate(rows):
        if has_band:
            parts.append(_rect(0, begin + _ROW * number, WIDTH, _ROW, _BAND))
    for exponent in range(low, high + 1):
        x = at(10**exponent)
        parts.append(_line(x, begin, x, end, _GRID))
        parts.append(_text(x, end + 17, _duration(10**exponent), 12, _FAINT, "middle"))
    for number, row in enumerate(rows):
        parts += _latency_row(row, begin + _ROW * number, at)
    heads = _text(WIDTH, top, "p50 / p99", 12, _FAINT, "end")
    axis = _text(_LEFT + width / 2, end + 34, "time, logarithmic", 11, _FAINT, "middle")
    return [*parts, heads, axis], end + 34


def _latency_row(row: Row, top: float, at: Callable[[float], float]) -> list[str]:
    name, beside, latency, _ = row
    middle = top + _ROW / 2
    parts = [
        _text(0, middle + 4, _cut(name), 13, weight=600, full=name),
        _text(_LEFT - 12, middle + 4, beside, 10, _FAINT, "end"),
    ]
    if not latency.messages:
        return [*parts, _text(WIDTH, middle + 4, "no message", 12, _FAINT, "end")]
    quantiles = latency.durations()[:-1]
    parts.append(_line(at(quantiles[0]), middle, at(latency.max_ns), middle, "#aab4bf", 2))
    slowest = at(latency.max_ns)
    parts.append(
        _line(slowest, middle - 6, slowest, middle + 6, _FAINT, 2, _tooltip("slowest", row))
    )
    # The median is drawn last: where they lie upon each other it is what counts.
    for (quantile, color), value in reversed(list(zip(_QUANTILES, quantiles, strict=True))):
        told = _tooltip(quantile, row, value)
        parts.append(
            f'<circle cx="{at(value):.1f}" cy="{middle:.1f}" r="5" fill="{color}" stroke="#fff">'
            f"{_title(told)}</circle>"
        )
    shown = f"{_duration(latency.p50_ns)} / {_duration(latency.p99_ns)}"
    return [*parts, _text(WIDTH, middle + 4, shown, 12, _INK, "end")]


def _tooltip(what: str, row: Row, value: float | None = None) -> str:
    name, beside, latency, _ = row
    value = latency.max_ns if value is None else value
    return f"{name} {beside}: {what} {_duration(value)} of {counted(latency.messages, 'message')}"


# --- Rates


def _rates(
    figures: TraceFigures, queues: Sequence[QueueFigures], top: float
) -> tuple[list[str], float]:
    row = len(_RATES) * _BAR + 12
    width = WIDTH - _LEFT - _RIGHT
    counts = {label(queue, figures): queue.estimated for queue in queues}
    greatest = rate(max(max(each) for each in counts.values()), figures) or 1.0
    step = _round_step(greatest)
    limit = math.ceil(greatest / step) * step
    begin, end = top + 18, top + 18 + row * len(queues)
    parts = [_text(0, top, rates_title(figures), 16, weight=600), *_legend(_RATES, top)]
    for tick in range(round(limit / step) + 1):
        x = _LEFT + width * tick * step / limit
        parts.append(_line(x, begin, x, end, _GRID))
        parts.append(_text(x, end + 17, shown_rate(tick * step), 12, _FAINT, "middle"))
    for number, (name, values) in enumerate(counts.items()):
        y = begin + row * number + 6
        parts.append(_text(0, y + row / 2 - 3, _cut(name), 13, weight=600, full=name))
        for place, ((what, color), count) in enumerate(zip(_RATES, values, strict=True)):
            per_second = rate(count, figures)
            long = width * per_second / limit
            told = f"{name}: {what} {shown_rate(per_second)} a second, {count:,} in all"
            if count:
                parts.append(_rect(_LEFT, y + place * _BAR, max(long, 1), _BAR - 2, color, told))
            parts.append(
                _text(_LEFT + long + 6, y + place * _BAR + 7, shown_rate(per_second), 9, _FAINT)
            )
    axis = _text(_LEFT + width / 2, end + 34, "messages per second", 11, _FAINT, "middle")
    return [*parts, axis], end + 34


def _round_step(greatest: float) -> float:
    """1, 2 or 5 times a power of ten, for four to eight steps."""
    power = 10.0 ** math.floor(math.log10(greatest / 4))
    return next(power * each for each in (1, 2, 5, 10) if greatest / (power * each) <= 8)


# --- Shapes


def _legend(entries: Sequence[tuple[str, str]], top: float) -> Iterable[str]:
    x = WIDTH - _RIGHT - 86.0 * len(entries)
    for name, color in entries:
        yield _rect(x, top - 10, 10, 10, color)
        yield _text(x + 15, top - 1, name, 12)
        x += 86


def _cut(name: str) -> str:
    is_long = len(name) > _NAME_LETTERS_MAX
    return name[: _NAME_LETTERS_MAX - 1] + "…" if is_long else name


def _text(
    x: float,
    y: float,
    text: str,
    size: int,
    color: str = _INK,
    anchor: str = "start",
    weight: int = 400,
    full: str = "",
) -> str:
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" font-weight="{weight}" fill="{color}" '
        f'text-anchor="{anchor}">{escape(printable(text))}{_title(full)}</text>'
    )


def _line(
    x1: float, y1: float, x2: float, y2: float, color: str, width: int = 1, told: str = ""
) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{color}" '
        f'stroke-width="{width}">{_title(told)}</line>'
    )


def _rect(x: float, y: float, width: float, height: float, color: str, told: str = "") -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" '
        f'fill="{color}">{_title(told)}</rect>'
    )


def _title(told: str) -> str:
    """The text shown where the pointer rests."""
    # Characters that are not printable on a terminal are not in a page either, and some break the
    # picture.
    return f"<title>{escape(printable(told))}</title>" if told else ""


def _duration(nanoseconds: float) -> str:
    """Three digits and a unit."""
    for size, unit in _UNITS:
        if nanoseconds >= size:
            value = nanoseconds / size
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
    return "0"
