"""The end of a message's story: why it was confirmed, returned or nacked, and where it is now.

The verdict names the queue or the event that a publish still waits for; then, for each of its
queues, the place of the message or the reason why it left.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from ..counted import counted
from ..trace.parsing import Line
from .batch_rules import NO_ACK
from .coverage import Pause
from .explain import printable
from .find import Found, Life, paired
from .reader import holds

_LEFT = {
    "message.expired": "expired",
    "message.evicted": "had to leave",
    "message.rejected": "was rejected",
}
_UNTIL = ", which has time until "
_TOUCHED = ", which touched it and has time until "
_READY_AGAIN = "is ready again"
_DONE = "is done"
_REPEATS = "is a duplicate and was not enqueued"
_GONE = (_DONE, _REPEATS)
_IS_PAUSED = ", and the queue is paused: it delivers nothing before it is resumed"
_COMES_BACK = "comes back at the broker's next start, for its queue has failed"


class _InQueue:
    """One message in one queue, as its events tell in order."""

    def __init__(self) -> None:
        # In words; empty as long as nothing is known of it there.
        self.what = ""
        self.attempts = 0
        self.boot = ""
        self.vhost = ""
        self.is_on_disk = False

    @property
    def is_gone(self) -> bool:
        """Has it left the queue for good, or never come in?"""
        return self.what.startswith(_GONE)

    def apply(self, line: Line, place: int) -> None:
        """The next event of that queue; `place` is the message's in its batch."""
        event = line["event"]
        self.boot = line["boot"]
        self.vhost = line.get("vhost", self.vhost)
        if event == "message.recovered" or holds(line.get("waits_for_sync", ()), place):
            self.is_on_disk = True
        if event in ("message.recovered", "message.delivered"):
            self.attempts = line["attempt"]
        if event == "message.enqueued":
            self.what = "is ready"
        elif event == "message.duplicate":
            self.what = _REPEATS
        elif event == "message.recovered":
            self.what = "came back from the journal at a start and is ready"
        # Without acks it is done when it is on its way.
        elif event == "message.delivered" and self.what != f"{_DONE} ({NO_ACK})":
            until = f"{_UNTIL}{line['until']}" if "until" in line else ""
            self.what = f"is with {_consumer(line)}{until}"
        elif event == "message.touched":
            # The last time counts.
            holder = self.what.split(_TOUCHED)[0].split(_UNTIL)[0]
            self.what = f"{holder}{_TOUCHED}{line['until']}"
        elif event == "confirm.rejected" and self.what:
            # It was in, and is taken back: its disk has no room, or the queue goes.
            self.what = f"is not kept ({line['reason']})"
        elif event == "message.requeued":
            self.what = f"{_READY_AGAIN} ({line['reason']})"
        elif event == "message.deferred":
            reason = self.what[len(_READY_AGAIN) :] if self.what.startswith(_READY_AGAIN) else ""
            self.what = f"is deferred until {line['until']}{reason}"
        elif event == "message.due":
            self.what = "is ready (its delay is over)"
        elif event in _LEFT:
            self.what = f"{_LEFT[event]} ({line['reason']}) and is not settled yet"
        elif event == "message.settled":
            self.what = f"{_DONE} ({line['reason']})"
        elif event == "queue.failed" and self.what and not self.is_gone:
            lost = f"{_DONE} (in memory only, its queue failed)"
            self.what = _COMES_BACK if self.is_on_disk else lost

    def times(self) -> str:
        """How often it was delivered, behind what became of it."""
        if not self.attempts or self.what == _COMES_BACK:
            return ""
        return f" after {self.attempts} deliver{'y' if self.attempts == 1 else 'ies'}"


def whereabouts(found: Found, life: Life) -> str:
    """For each queue, what became of it there."""
    queues: dict[str, _InQueue] = {}
    for line in life.events:
        if "queue" in line and line["event"] != "message.dead_lettered":
            queues.setdefault(line["queue"], _InQueue()).apply(line, life.place)
    sentences = []
    for name, queue in queues.items():
        if not queue.what:
            continue
        what = f"{queue.what}{queue.times()}"
        if queue.boot == found.last_boot and (queue.vhost, name) in found.paused:
            what += _IS_PAUSED if "is ready" in queue.what else ""
        has_ended = queue.boot != found.last_boot and not queue.is_gone
        is_unsure = not queue.is_gone and _may_lack_more(found, life, queue.boot)
        is_over = queue.is_gone or queue.what == _COMES_BACK
        pause = None if is_over else _pause_behind(found, life, queue.boot)
        has_stopped = found.coverage.boots[queue.boot].has_stopped and not is_over
        if (has_ended or has_stopped) and not queue.is_on_disk:
            before = ", if it had not left before" if is_unsure or pause is not None else ""
            what = f"was in memory only, and went when the broker ended{before}"
        elif pause is not None:
            until = f"from then to {pause.end}" if pause.end else "since"
            what = (
                f"{_in_the_past(what)} when the trace was switched off at {pause.begin}; what "
                f"happened {until} is not in the trace"
            )
        elif is_unsure:
            what += " as far as the trace tells"
        elif has_stopped:
            what = f"{_in_the_past(what)} when its broker stopped"
            if not has_ended:
                what += "; what happened since is not in the trace"
        sentences.append(f"In queue {name!r} it {what}.")
        if has_ended and queue.is_on_disk:
            sentences.append("The broker was started again since; the trace tells no more of it.")
    return " ".join(sentences)


def _consumer(delivered: Line) -> str:
    """Name the consumer of the message."""
    place = f"{delivered['connection']} channel {delivered['channel']}"
    client = f" ({delivered['client']!r})" if delivered.get("client") else ""
    tag = delivered.get("consumer_tag")
    # A message from basic.get has no consumer.
    return f"{f'consumer {tag!r} of ' if tag else ''}{place}{client}"


def _in_the_past(what: str) -> str:
    """The same of a moment that is over. The first `is` is the verb: names stand behind it."""
    return re.sub(r"\bis\b", "was", what, count=1)


def _last_in(life: Life, boot: str) -> Line:
    """The last event of the message in that run."""
    return [line for line in life.events if line["boot"] == boot][-1]


def _pause_behind(found: Found, life: Life, boot: str) -> Pause | None:
    """When the trace of this run was off behind what it tells of the message; None if it was on."""
    return found.coverage.boots[boot].pause_behind(_last_in(life, boot))


def _may_lack_more(found: Found, life: Life, boot: str) -> bool:
    """May the trace of this run lack events of the message behind the last one that it has?"""
    coverage = found.coverage.boots[boot]
    return coverage.end == "cut" or coverage.lost_behind(_last_in(life, boot)) > 0


_UNCONFIRMED = "its channel was not in confirm mode"
_MUST_REPEAT = "whether it is kept is unknown to its publisher, which must publish it again."
# How a publish stands whose answer is not in the trace, by how that ends.
_UNANSWERED = {
    "cut": "The trace is cut here: whether it was answered is unknown. By then it waited for {}.",
    "stopped": (
        "It was not answered when the trace was switched off: whether it was later is unknown. By "
        "then it waited for {}."
    ),
    "unknown": (
        "It was not answered where the trace ends: whether it was later is unknown. By then it "
        "waited for {}."
    ),
    "running": "Still waiting for {}.",
}
_CARRIED_OUT = "carried out as a command about a delivery"
_REPLIED = "passed to the channel whose reply consumer its key names"


def verdict(found: Found) -> str:
    """Plain sentences: the publisher's side, then each queue's, then its dead letters'."""
    sentences = (
        _late(found.lives[0]),
        _origin(found),
        _publisher_s_side(found),
        whereabouts(found, found.lives[0]),
        *_letters(found),
    )
    # Reply texts quote what clients have sent.
    return printable(" ".join(filter(None, sentences)))


def _publisher_s_side(found: Found) -> str:
    life = found.lives[0]
    by_name = {line["event"]: line for line in life.events}
    if "message.refused" in by_name:
        mistake = _reply(by_name["message.refused"])
        return f"Refused, with its channel: {mistake}. It was not published and is not confirmed."
    routed = by_name.get("message.routed")
    if found.lives[0].is_late():
        return _late_publisher_s_side(found, by_name)
    if routed is None:
        is_known = {"message.recovered", "message.dead_lettered"} & by_name.keys()
        return "" if is_known else "Only a part of its life is in this trace."
    if "transaction" in by_name.get("command.assembled", {}):
        return _transaction_s_side(life, by_name)
    key = _key(routed)
    if "message.returned" in by_name:
        behind = ", and its own ack was written directly behind the return" if found.seq_no else ""
        replied = f" It was {_REPLIED} all the same." if "message.replied" in by_name else ""
        return (
            f"Returned because no queue is bound for {key} and it was mandatory{behind}.{replied}"
        )
    if not found.seq_no:
        return _unnumbered(life, key)
    if "confirm.nacked" in by_name:
        why = _reasons(life.named("confirm.rejected")) or "why is not in the trace"
        return f"Nacked because a queue will not have it ({why})."
    if "confirm.sent" in by_name:
        if "message.replied" in by_name:
            return f"Confirmed, and {_REPLIED}."
        if "command.carried_out" in by_name:
            return f"Confirmed, and {_CARRIED_OUT}."
        if "message.dropped" in by_name:
            return f"Confirmed, and dropped, because no queue is bound for {key} (not mandatory)."
        return f"Confirmed because {_all_have_it(life)}."
    if "channel.closed" in by_name:
        closed = by_name["channel.closed"]
        return (
            f"Never answered because its channel ended first ({_reply(closed)}): {_MUST_REPEAT} "
            f"It waited for {_owing(life, closed) or 'nothing'}."
        )
    waited_for = _owing(life) or "the channel to say it"
    boot = found.coverage.boots[routed["boot"]]
    lost = boot.lost_behind(routed)
    if lost:
        return (
            f"The trace lacks {counted(lost, 'event')} behind its routing: whether it was "
            f"answered is unknown. As far as the trace tells it waited for {waited_for}."
        )
    end = boot.end if boot.pause_behind(routed) is None else "stopped"
    return _UNANSWERED[end].format(waited_for)


def _late(life: Life) -> str:
    """The part of its life that the trace lacks because the sample does not include it."""
    if not life.is_late():
        return ""
    first = life.events[0]
    return (
        "It is not among the messages that were chosen to be traced, and is traced only since "
        f"{first['event']} ({first.get('reason', 'it took long')}): its earlier hops are not in "
        "the trace."
    )


def _late_publisher_s_side(found: Found, by_name: dict[str, Line]) -> str:
    """The answers that its publisher got since then."""
    if "message.returned" in by_name:
        behind = ", and its own ack was written directly behind the return" if found.seq_no else ""
        return f"Returned because no queue is bound for it and it was mandatory{behind}."
    if "confirm.nacked" in by_name:
        why = _reasons(found.lives[0].named("rejection.received")) or "why is not in the trace"
        return f"Nacked because a queue will not have it ({why})."
    if "confirm.slow" in by_name:
        return f"Confirmed {by_name['confirm.slow']['duration_ns'] / 1e6:.3f} ms after its read."
    return ""


def _unnumbered(life: Life, key: str) -> str:
    """Nobody is told of a publish outside confirm mode."""
    if life.named("command.carried_out"):
        return f"{_CARRIED_OUT.capitalize()}; not to be confirmed."
    if life.named("message.dropped"):
        return (
            f"Dropped because no queue is bound for {key} (not mandatory). Nobody was told: "
            f"{_UNCONFIRMED}."
        )
    if life.named("message.replied"):
        return f"{_REPLIED.capitalize()}; not to be confirmed."
    rejected = life.named("confirm.rejected")
    if rejected:
        return f"Not taken ({_reasons(rejected)}). Nobody was told: {_UNCONFIRMED}."
    return f"Not to be confirmed: {_UNCONFIRMED}."


def _transaction_s_side(life: Life, by_name: dict[str, Line]) -> str:
    """The answer to its commit, and why."""
    key = _key(by_name["message.routed"])
    if "message.returned" in by_name:
        how = f"Returned because no queue is bound for {key} and it was mandatory"
    elif "message.dropped" in by_name:
        how = f"Dropped because no queue is bound for {key} (not mandatory)"
    elif "command.carried_out" in by_name:
        how = _CARRIED_OUT.capitalize()
    elif "message.replied" in by_name and not by_name["message.routed"]["queues"]:
        how = _REPLIED.capitalize()
    else:
        how = ""
    if "transaction.committed" in by_name:
        if how:
            return f"{how}; its transaction was committed."
        return f"Committed with its transaction, because {_all_have_it(life)}."
    rejected = life.named("confirm.rejected")
    if rejected:
        why = _reasons(rejected)
        return f"Its transaction failed because a queue will not have it ({why})."
    if "transaction.failed" in by_name:
        return (
            f"Its transaction failed ({by_name['transaction.failed']['reason']}), because of "
            "another of its messages; what queues had taken by then stays."
        )
    waits = _owing(life)
    waits = f" It waits for {waits}." if waits else ""
    if how:
        return f"{how}. Its transaction's commit is not answered."
    return f"Its transaction's commit is not answered.{waits}"


def _reasons(rejected: Sequence[Line]) -> str:
    return "; ".join(f"queue {line['queue']!r}: {line['reason']}" for line in rejected)


def _reply(closed: Line) -> str:
    """The reply code and text of a channel's end; an end without a code has none."""
    code = closed["reply_code"]
    return f"{code} {closed['reason']}" if code else str(closed["reason"])


def _key(routed: Line) -> str:
    exchange = f"exchange {routed['exchange']!r}" if routed["exchange"] else "the default exchange"
    return f"routing key {routed['routing_key']!r} on {exchange}"


def _all_have_it(life: Life) -> str:
    """Each queue with what it took, the slowest last."""
    said = sorted(life.named("confirm.queued"), key=lambda each: each["t_ns"])
    synced = {line["queue"] for line in life.named("message.persisted")}
    repeats = {line["queue"] for line in life.named("message.duplicate")}
    parts = []
    for line in said:
        if line["queue"] in repeats:
            parts.append(f"queue {line['queue']!r} had one of that producer and id before")
            continue
        how = "after its fsync" if line["queue"] in synced else "in memory, as it promises"
        parts.append(f"queue {line['queue']!r} has it {how}")
    if not parts:
        return "all that had to have it had it"
    last = f"; {said[-1]['queue']!r} was the last" if len(parts) > 1 else ""
    return " and ".join(parts) + last


def _owing(life: Life, end: Line | None = None) -> str:
    """Which queues had not answered by then, and what they waited for."""
    events = life.events if end is None else life.events[: life.events.index(end)]
    routed = [line for line in events if line["event"] == "message.routed"]
    queues = dict.fromkeys(queue for line in routed for queue in line["queues"])
    for line in events:
        if line["event"] in ("confirm.queued", "confirm.rejected"):
            queues.pop(line["queue"], None)
    waits = {
        line["queue"]
        for line in events
        if line["event"] == "message.enqueued" and holds(line["waits_for_sync"], life.place)
    }
    return ", ".join(
        f"queue {queue!r} ({'the sync of its disk' if queue in waits else 'to take it'})"
        for queue in queues
    )


# --- Dead letters


def _origin(found: Found) -> str:
    """The message that this one was made of, if it is a dead letter itself."""
    life = found.lives[0]
    for line in life.named("message.dead_lettered"):
        if line["letter_batch"] == life.batch:
            place = paired(line["letters"], line["messages"], life.place)
            return (
                f"It is a dead letter of queue {line['queue']!r} ({line['reason']}), made of "
                f"message {line['boot']}-{line['batch']}-{place}."
            )
    return ""


def _letters(found: Found) -> Iterator[str]:
    """Each life behind the first: where it came from, where it went, where it is."""
    made = [line for life in found.lives for line in life.named("message.dead_lettered")]
    for number, life in enumerate(found.lives[1:], 1):
        line = next(
            line
            for line in made
            if line["letter_batch"] == life.batch and holds(line["letters"], life.place)
        )
        queues = " and ".join(repr(queue) for queue in line["queues"])
        yield (
            f"Its dead letter {found.message_id(number)} (queue {line['queue']!r}: "
            f"{line['reason']}) goes to queue {queues}."
        )
        yield whereabouts(found, life)
    for life in found.lives:
        for line in life.named("letter.dropped"):
            yield (
                f"Queue {line['queue']!r} made no dead letter ({line['reason']}): there is no such "
                "exchange, no queue for its key, or it would go round."
            )
