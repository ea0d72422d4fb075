"""The life of one message as a timeline: actor by actor, with the waits between."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ..counted import counted
from ..trace.parsing import Line
from .find import GAP, Found

# Fields that a timeline shows elsewhere on each line.
_SHOWN_BEFORE = frozenset(
    ["t_ns", "time", "boot", "event", "actor", "batch", "messages", "connection", "channel"]
)
# Fields of the publisher, shown once above its messages; those of another client are shown.
_OF_PUBLISHER = _SHOWN_BEFORE | {"vhost", "client"}
_OF_OTHERS = _SHOWN_BEFORE - {"connection", "channel"}
# Facts of the journal's whole commit, of which a batch is a part.
_OF_COMMIT = {"appends": "commit_appends", "records": "commit_records", "bytes": "commit_bytes"}
# Characters that make one name look like several, or like none.
_UNCLEAR = frozenset(" ,[]'\"")


def timeline(found: Found) -> Iterator[str]:
    """Lines for a terminal: when, how long after the step before, who, what, and the state."""
    yield _head(found)
    for note in found.coverage.notes(found.boots()):
        yield f"  --- {note}"
    life, first = found.events[0]
    began = before = first["t_ns"]
    boot, vhost = first["boot"], _publisher(found).get("vhost")
    for number_of_life, line in found.events:
        if number_of_life == GAP:
            yield f"  --- {_gap(line)}"
            continue
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
        place = line.get("connection"), line.get("channel")
        known = _OF_PUBLISHER
        if place not in ((None, None), (found.connection, found.channel)):
            known = _OF_OTHERS
        if line.get("vhost") != vhost:
            known = known - {"vhost"}
        elif vhost is not None:
            known = known | {"vhost"}
        yield (
            f"  {line['time'][11:26]} {since:10.3f} ms (+{waited:.3f})  {line['actor']:<8} "
            f"{line['event']:<21} {details(line, known)}"
        ).rstrip()


def _publisher(found: Found) -> Line:
    """The event in which the channel took the publish, if it is there."""
    return next(iter(found.lives[0].named("command.assembled")), {})


def _head(found: Found) -> str:
    """Which message, and whose."""
    taken = _publisher(found)
    parts = [f"{found.connection or 'unknown client'} channel {found.channel}"]
    if taken.get("client"):
        parts[0] = f"{parts[0]} ({taken['client']!r})"
    if found.seq_no:
        parts.append(f"publish {found.seq_no}")
    if "vhost" in taken:
        parts.append(f"vhost {taken['vhost']!r}")
    return printable(f"message {found.message_id()}: {', '.join(parts)}")


def _gap(line: Line) -> str:
    if line["event"] == "trace.lost":
        are = "is" if line["dropped"] == 1 else "are"
        return f"{counted(line['dropped'], 'event')} {are} missing here"
    if line["event"] == "trace.stopped":
        return "the trace was switched off here"
    if line["event"] == "trace.started":
        return "the trace was switched on again here"
    return "the trace is cut here"


def details(line: Line, known: Collection[str] = _SHOWN_BEFORE) -> str:
    """The fields of an event, short and in its order, except for the `known` ones."""
    shown = []
    for name, value in line.items():
        if name in known:
            continue
        if name == "bytes" and line["event"] == "frame.received":
            shown.append(f"batch_bytes={value}")
        elif name in _OF_COMMIT and line["event"] == "journal.synced":
            shown.append(f"{_OF_COMMIT[name]}={value}")
        elif name == "duration_ns":
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
