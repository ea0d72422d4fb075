"""The life of one message from its trace: a timeline, and a plain sentence on how it ended."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from .trace_reader import Line, TraceFilesError, holds, read_trace

_MESSAGE_ID = re.compile(r"([0-9a-f]+)-(\d+)-(\d+)")
# What every line of a timeline shows elsewhere.
_SHOWN_BEFORE = frozenset(
    ["t_ns", "time", "boot", "event", "actor", "batch", "messages", "connection", "channel"]
)


class Found(NamedTuple):
    """One message and all events that speak of it, in order."""

    boot: str
    batch: int
    place: int
    connection: str
    channel: int
    seq_no: int  # 0: not in confirm mode, or not known
    events: list[Line]

    @property
    def message_id(self) -> str:
        """As `leveret trace explain` takes it."""
        return f"{self.boot}-{self.batch}-{self.place}"


def find_by_id(files: Sequence[Path], message_id: str) -> Found:
    """All about the message of that id; TraceFilesError if the trace has nothing of it."""
    match = _MESSAGE_ID.fullmatch(message_id)
    if match is None:
        raise TraceFilesError(
            f"{message_id!r} is no message id: <boot>-<batch>-<place>, as in 3f2a9c01-42-0"
        )
    boot, batch, place = match[1], int(match[2]), int(match[3])
    return _found(files, boot, batch, place)


def find_by_seq_no(files: Sequence[Path], connection: str, channel: int, seq_no: int) -> Found:
    """The last publish with that number on that channel; TraceFilesError if there is none."""
    wanted = b'"command.assembled"'
    last: Line | None = None
    for line in read_trace(files, lambda data: wanted in data):
        if (
            line["connection"] == connection
            and line["channel"] == channel
            and holds(line.get("seq_no", ()), seq_no)
        ):
            last = line
    if last is None:
        raise TraceFilesError(
            f"no publish {seq_no} of {connection} on channel {channel} is in this trace: it "
            "may not have been traced, or not have come"
        )
    return _found(files, last["boot"], last["batch"], _place_of(last, seq_no))


def _place_of(assembled: Line, seq_no: int) -> int:
    """The place in the batch; places and numbers are listed in the same order."""
    numbers = [n for first, last in assembled["seq_no"] for n in range(first, last + 1)]
    places = [n for first, last in assembled["messages"] for n in range(first, last + 1)]
    place: int = places[numbers.index(seq_no)]
    return place


def _seq_no_of(assembled: Line, place: int) -> int:
    numbers = [n for first, last in assembled.get("seq_no", ()) for n in range(first, last + 1)]
    places = [n for first, last in assembled["messages"] for n in range(first, last + 1)]
    return numbers[places.index(place)] if numbers else 0


def _found(files: Sequence[Path], boot: str, batch: int, place: int) -> Found:
    connection, channel, seq_no = "", 0, 0
    events: list[Line] = []
    # Batch numbers go on from run to run, so a message that was recovered is the same one.
    for line in read_trace(files):
        if line.get("batch") == batch and holds(line.get("messages", ()), place):
            if line["event"] == "command.assembled":
                connection, channel = line["connection"], line["channel"]
                seq_no = _seq_no_of(line, place)
            events.append(line)
            continue
        is_sync = line["event"] == "journal.synced" and batch in line["batches"]
        if is_sync or (seq_no and _answers(line, boot, connection, channel, seq_no)):
            events.append(line)
    if not events:
        raise TraceFilesError(
            f"nothing of message {boot}-{batch}-{place} is in this trace: it was not traced, "
            "or its file is gone"
        )
    return Found(boot, batch, place, connection, channel, seq_no, events)


def _answers(line: Line, boot: str, connection: str, channel: int, seq_no: int) -> bool:
    return (
        line["event"] in ("confirm.sent", "confirm.nacked", "channel.closed")
        and line["boot"] == boot
        and line["connection"] == connection
        and line["channel"] == channel
        and holds(line["seq_no"], seq_no)
    )


def timeline(found: Found) -> Iterable[str]:
    """One line for each step: when, the wait before it, who, what, and what it is worth to know."""
    number = f", publish {found.seq_no}" if found.seq_no else ""
    yield (
        f"message {found.message_id}: {found.connection or 'unknown client'} channel "
        f"{found.channel}{number}"
    )
    began = before = found.events[0]["t_ns"]
    boot = found.events[0]["boot"]
    for line in found.events:
        if line["boot"] != boot:
            yield f"  --- the broker was started again ({line['boot']})"
            boot, began, before = line["boot"], line["t_ns"], line["t_ns"]
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
        elif name == "batches":
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


def _plain(value: object) -> str:
    """A client's name must not reach a terminal's escape codes."""
    text = str(value)
    return text if text.isprintable() else repr(text)


def verdict(found: Found) -> str:
    """Why it was confirmed, returned or nacked, or what it waits for; then where it is now."""
    return " ".join(filter(None, (_publisher_s_side(found), _queues_side(found))))


def _publisher_s_side(found: Found) -> str:
    by_name = {line["event"]: line for line in found.events}
    routed = by_name.get("message.routed")
    if routed is None:
        return "" if "message.recovered" in by_name else "Only a part of its life is in this trace."
    key = f"routing key {routed['routing_key']!r} on {_exchange(routed['exchange'])}"
    if "message.returned" in by_name:
        behind = ", and its own ack was written directly behind the return" if found.seq_no else ""
        return f"Returned because no queue is bound for {key} and it was mandatory{behind}."
    if "confirm.nacked" in by_name:
        reasons = [line for line in found.events if line["event"] == "confirm.rejected"]
        why = "; ".join(f"queue {line['queue']!r}: {line['reason']}" for line in reasons)
        return f"Nacked because a queue will not have it ({why or 'why is not in the trace'})."
    if "confirm.sent" in by_name:
        if "message.replied" in by_name:
            return "Confirmed, and passed to the channel whose reply consumer its key names."
        if "message.dropped" in by_name:
            return f"Confirmed, and dropped, because no queue is bound for {key} (not mandatory)."
        return f"Confirmed because {_all_have_it(found)}."
    if "channel.closed" in by_name:
        closed = by_name["channel.closed"]
        before = found._replace(events=found.events[: found.events.index(closed)])
        return (
            f"Never answered because its channel ended first ({closed['reply_code']} "
            f"{closed['reason']}): whether it is kept is unknown to its publisher, which must "
            f"publish it again. It waited for {_owing(before) or 'nothing'}."
        )
    if not found.seq_no:
        return "Not to be confirmed: its channel was not in confirm mode."
    return f"Still waiting for {_owing(found) or 'the channel to say it'}."


def _exchange(name: str) -> str:
    return f"exchange {name!r}" if name else "the default exchange"


def _all_have_it(found: Found) -> str:
    """Each queue with what it took, the slowest last."""
    said = [line for line in found.events if line["event"] == "confirm.queued"]
    synced = {line["queue"] for line in found.events if line["event"] == "message.persisted"}
    repeats = {line["queue"] for line in found.events if line["event"] == "message.duplicate"}
    parts = []
    for line in sorted(said, key=lambda each: each["t_ns"]):
        if line["queue"] in repeats:
            parts.append(f"queue {line['queue']!r} had one of that producer and id before")
            continue
        how = "after its fsync" if line["queue"] in synced else "in memory, as it promises"
        parts.append(f"queue {line['queue']!r} has it {how}")
    if not parts:
        return "all that had to have it had it"
    last = f"; {said[-1]['queue']!r} was the last" if len(parts) > 1 else ""
    return " and ".join(parts) + last


def _owing(found: Found) -> str:
    """Which queues have not answered, and what they wait for."""
    routed = [line for line in found.events if line["event"] == "message.routed"]
    queues = dict.fromkeys(queue for line in routed for queue in line["queues"])
    for line in found.events:
        if line["event"] in ("confirm.queued", "confirm.rejected"):
            queues.pop(line["queue"], None)
    waits = {
        line["queue"]
        for line in found.events
        if line["event"] == "message.enqueued" and holds(line["waits_for_sync"], found.place)
    }
    return ", ".join(
        f"queue {queue!r} ({'the sync of its disk' if queue in waits else 'to take it'})"
        for queue in queues
    )


def _queues_side(found: Found) -> str:
    """For each queue, what became of it there."""
    state: dict[str, str] = {}
    attempts: dict[str, int] = {}
    for line in found.events:
        event, queue = line["event"], line.get("queue")
        if queue is None:
            continue
        if event == "message.enqueued":
            state[queue] = "is ready"
        elif event == "message.duplicate":
            state[queue] = "is a duplicate and was not enqueued"
        elif event == "message.recovered":
            state[queue] = "came back from the journal at a start and is ready"
        elif event == "message.delivered":
            attempts[queue] = line["attempt"]
            state[queue] = "is with a consumer"
        elif event == "message.requeued":
            state[queue] = f"is ready again ({line['reason']})"
        elif event == "message.settled":
            state[queue] = f"is done ({line['reason']})"
    sentences = []
    for queue, what in state.items():
        count = attempts.get(queue, 0)
        times = f" after {count} deliver{'y' if count == 1 else 'ies'}" if count else ""
        sentences.append(f"In queue {queue!r} it {what}{times}.")
    return " ".join(sentences)
