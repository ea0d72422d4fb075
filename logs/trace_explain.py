"""The life of one message as a timeline: actor by actor, with the waits between."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from .trace_find import Found
from .trace_reader import Line

# What every line of a timeline shows elsewhere.
_SHOWN_BEFORE = frozenset(
    ["t_ns", "time", "boot", "event", "actor", "batch", "messages", "connection", "channel"]
)
# What makes one name look like several, or like none.
_UNCLEAR = frozenset(" ,[]'\"")


def timeline(found: Found) -> Iterator[str]:
    """Lines for a terminal: when, how long after the step before, who, what, and the state."""
    number = f", publish {found.seq_no}" if found.seq_no else ""
    yield (
        f"message {found.message_id()}: {found.connection or 'unknown client'} channel "
        f"{found.channel}{number}"
    )
    life, first = found.events[0]
    began = before = first["t_ns"]
    boot = first["boot"]
    for number_of_life, line in found.events:
        if line["boot"] != boot:
            yield f"  --- the broker was started again ({line['boot']})"
            boot, began, before = line["boot"], line["t_ns"], line["t_ns"]
        if number_of_life != life:
            life = number_of_life
            which = (
                "the message itself" if not life else f"its dead letter {found.message_id(life)}"
            )
            yield f"  --- {which}"
        since, waited = (line["t_ns"] - began) / 1e6, (line["t_ns"] - before) / 1e6
        before = line["t_ns"]
        yield (
            f"  {line['time'][11:26]} {since:10.3f} ms (+{waited:.3f})  {line['actor']:<8} "
            f"{line['event']:<21} {details(line)}"
        )


def details(line: Line, known: Collection[str] = _SHOWN_BEFORE) -> str:
    """The fields of a line, short and in its order, but for those that are known."""
    shown = []
    for name, value in line.items():
        if name in known:
            continue
        if name == "duration_ns":
            shown.append(f"took {value / 1e6:.3f} ms")
        elif name == "batches" and value:
            others = len(value) - 1
            shown.append(f"with {others} other traced batch{'es' if others != 1 else ''}")
        elif isinstance(value, list) and value and isinstance(value[0], list):
            spans = ",".join(f"{a}" if a == b else f"{a}-{b}" for a, b in value)
            shown.append(f"{name}={spans}")
        elif isinstance(value, list):
            shown.append(f"{name}=[{','.join(map(_plain, value))}]")
        else:
            shown.append(f"{name}={value!r}" if isinstance(value, str) else f"{name}={value}")
    return " ".join(shown)


def printable(text: str) -> str:
    """A client's words must not reach a terminal's escape codes."""
    if text.isprintable():
        return text
    return "".join(
        each if each.isprintable() else each.encode("unicode_escape").decode() for each in text
    )


def _plain(value: object) -> str:
    """One name of a list: quoted, if one could not tell where it begins and ends."""
    text = str(value)
    return text if text.isprintable() and text and _UNCLEAR.isdisjoint(text) else repr(text)
