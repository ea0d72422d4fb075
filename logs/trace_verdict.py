"""Why a message was confirmed, returned or nacked, or what it waits for; then where it is now."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from .trace_check import NO_ACK
from .trace_explain import printable
from .trace_find import Found, Life, paired
from .trace_reader import Line, holds

_LEFT = {
    "message.expired": "expired",
    "message.evicted": "had to leave",
    "message.rejected": "was rejected",
}
_DONE = "is done"
_REPEATS = "is a duplicate and was not enqueued"
_GONE = (_DONE, _REPEATS)
_COMES_BACK = "comes back at the broker's next start, for its queue has failed"
_UNCONFIRMED = "its channel was not in confirm mode"
_MUST_REPEAT = "whether it is kept is unknown to its publisher, which must publish it again."
_REPLIED = "passed to the channel whose reply consumer its key names"


def verdict(found: Found) -> str:
    """Plain sentences: the publisher's side, then each queue's, then its dead letters'."""
    sentences = (
        _origin(found),
        _publisher_s_side(found),
        _queues_side(found.lives[0], found.last_boot),
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
    if routed["boot"] != found.last_boot:
        return (
            f"Never answered because the broker ended first: {_MUST_REPEAT} It waited for "
            f"{waited_for}."
        )
    return f"Still waiting for {waited_for}."


def _unnumbered(life: Life, key: str) -> str:
    """Nobody is told of a publish outside confirm mode."""
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
    """What its commit was answered, and why."""
    key = _key(by_name["message.routed"])
    if "message.returned" in by_name:
        how = f"Returned because no queue is bound for {key} and it was mandatory"
    elif "message.dropped" in by_name:
        how = f"Dropped because no queue is bound for {key} (not mandatory)"
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


def _queues_side(life: Life, last_boot: str) -> str:
    """For each queue, what became of it there."""
    state: dict[str, str] = {}
    attempts: dict[str, int] = {}
    boots: dict[str, str] = {}
    on_disk: set[str] = set()
    for line in life.events:
        event, queue = line["event"], line.get("queue")
        if queue is None or event == "message.dead_lettered":
            continue
        boots[queue] = line["boot"]
        if event == "message.recovered" or holds(line.get("waits_for_sync", ()), life.place):
            on_disk.add(queue)
        if event == "message.enqueued":
            state[queue] = "is ready"
        elif event == "message.duplicate":
            state[queue] = _REPEATS
        elif event == "message.recovered":
            state[queue] = "came back from the journal at a start and is ready"
            attempts[queue] = line["attempt"]
        elif event == "message.delivered":
            attempts[queue] = line["attempt"]
            # Without acks it is done when it is on its way.
            if state.get(queue) != f"{_DONE} ({NO_ACK})":
                state[queue] = "is with a consumer"
        elif event == "message.requeued":
            state[queue] = f"is ready again ({line['reason']})"
        elif event in _LEFT:
            state[queue] = f"{_LEFT[event]} ({line['reason']}) and is not settled yet"
        elif event == "message.settled":
            state[queue] = f"{_DONE} ({line['reason']})"
        elif event == "queue.failed" and not state.get(queue, _DONE).startswith(_GONE):
            is_kept = queue in on_disk
            state[queue] = _COMES_BACK if is_kept else f"{_DONE} (in memory only, its queue failed)"
    sentences = []
    for queue, what in state.items():
        count = 0 if what == _COMES_BACK else attempts.get(queue, 0)
        times = f" after {count} deliver{'y' if count == 1 else 'ies'}" if count else ""
        has_ended = boots[queue] != last_boot and not what.startswith(_GONE)
        if has_ended and queue not in on_disk:
            what, times = "was in memory only, and went when the broker ended", ""
        sentences.append(f"In queue {queue!r} it {what}{times}.")
        if has_ended and queue in on_disk:
            sentences.append("The broker was started again since; the trace tells no more of it.")
    return " ".join(sentences)


# --- Dead letters


def _origin(found: Found) -> str:
    """What the message was made of, if it is a dead letter itself."""
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
        yield _queues_side(life, found.last_boot)
    for life in found.lives:
        for line in life.named("letter.dropped"):
            yield (
                f"Queue {line['queue']!r} made no dead letter ({line['reason']}): there is no such "
                "exchange, no queue for its key, or it would go round."
            )
