"""The headers that record a message's deaths, as RabbitMQ 3.10 writes them.

    x-death  array of tables, newest first, one for each queue and reason:
             count long, reason, queue, time timestamp (seconds), exchange, routing-keys array,
             original-expiration if the message had an expiration
    x-first-death-reason, x-first-death-queue, x-first-death-exchange  never changed afterwards

A death that is there already is counted up and moves to the front, its other fields as they were.
Facts from rabbit_dead_letter:make_msg, update_x_death_header, group_by_queue_and_reason and
is_cycle. Clients may send what they like under these names: an x-death that is no array is
replaced, and entries of one queue and reason are merged, as RabbitMQ does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ...amqp_frames.values.field_table import Field, Table, encode_text
from ..definitions import name_of
from ..queue.effects import REJECTED

_COUNT_MAX: Final = 2**63 - 1


class Death(NamedTuple):
    """One death: where the message was, why it left, when (seconds since 1970), how it had come.

    `routing_keys`: the one that it was published with, then those of its CC header.
    """

    reason: str
    queue: str
    time_seconds: int
    exchange: str
    routing_keys: Sequence[str]
    original_expiration: str | None


def names_in(headers: Table | None, name: str) -> list[str]:
    """The longstrs of an array among the headers, such as CC."""
    listed = (headers or {}).get(name)
    if listed is None or not isinstance(listed.value, list):
        return []
    return [each for each in map(name_of, listed.value) if each is not None]


def headers_of_dead(headers: Table | None, death: Death) -> Table:
    """The headers with one more death among them, sorted by name as RabbitMQ's are."""
    headers = dict(headers or {})
    known = headers.get("x-death")
    if known is None:
        headers["x-first-death-reason"] = _longstr(death.reason)
        headers["x-first-death-queue"] = _longstr(death.queue)
        headers["x-first-death-exchange"] = _longstr(death.exchange)
    newest, others = _entry_of(death), []
    if known is not None and isinstance(known.value, list):
        entries = _merged(known.value)
        same = [entry for entry in entries if _is_of(entry, death)]
        others = [entry for entry in entries if not _is_of(entry, death)]
        # RabbitMQ sorts the fields of any but the first.
        newest = _sorted(_counted_up(same[0]) if same else newest)
    headers["x-death"] = Field("array", [Field("table", newest), *others])
    return _sorted(headers)


def is_cycle(queue: str, headers: Table) -> bool:
    """Has the message died in this queue before, and not been rejected by anyone since?

    Then nobody but the broker moves it about, and it would never come to rest.
    """
    deaths = headers["x-death"].value
    assert isinstance(deaths, list)
    for entry in deaths:
        if not isinstance(entry.value, dict):
            # A client has put it there.
            return False
        if name_of(entry.value.get("reason")) == REJECTED:
            return False
        if name_of(entry.value.get("queue")) == queue:
            return True
    return False


def _entry_of(death: Death) -> Table:
    entry: Table = {
        "count": Field("long", 1),
        "reason": _longstr(death.reason),
        "queue": _longstr(death.queue),
        "time": Field("timestamp", death.time_seconds),
        "exchange": _longstr(death.exchange),
        "routing-keys": Field("array", [_longstr(key) for key in death.routing_keys]),
    }
    if death.original_expiration is not None:
        entry["original-expiration"] = _longstr(death.original_expiration)
    return entry


def _counted_up(entry: Field) -> Table:
    table = entry.value
    assert isinstance(table, dict)
    counted = table.get("count")
    count = 0
    if counted is not None and isinstance(counted.value, int):
        count = counted.value
    return {**table, "count": Field("long", min(count + 1, _COUNT_MAX))}


def _merged(entries: list[Field]) -> list[Field]:
    """The first entry of each queue and reason; without a count, with that of such entries.

    Only clients send several. RabbitMQ leaves an entry that stands alone as it is.
    """
    if len(entries) < 2:
        return entries
    alike: dict[object, list[Field]] = {}
    for position, entry in enumerate(entries):
        table = entry.value
        key = _key(table) if isinstance(table, dict) else position
        alike.setdefault(key, []).append(entry)
    return [_with_count(same[0], len(same)) for same in alike.values()]


def _with_count(entry: Field, count: int) -> Field:
    if not isinstance(entry.value, dict) or "count" in entry.value:
        return entry
    return Field("table", {"count": Field("long", count), **entry.value})


def _key(entry: Table) -> tuple[object, object]:
    """Queue and reason as RabbitMQ compares them: by their values in Erlang, without AMQP's types.

    Both kinds of octets are one type there, and so are integers of all sizes.
    """
    return _compared(entry.get("queue")), _compared(entry.get("reason"))


def _compared(field: Field | None) -> object:
    value = None if field is None else field.value
    if isinstance(value, str):
        return encode_text(value)
    # In Python, 1, 1.0 and True are equal.
    return value if isinstance(value, bytes) or value is None else (type(value), repr(value))


def _sorted(table: Table) -> Table:
    return dict(sorted(table.items(), key=_octets))


def _is_of(entry: Field, death: Death) -> bool:
    table = entry.value
    return isinstance(table, dict) and _key(table) == (
        encode_text(death.queue),
        encode_text(death.reason),
    )


def _octets(item: tuple[str, Field]) -> bytes:
    # As `encode_text`, which would be called for every field of every table.
    return item[0].encode("utf-8", "surrogateescape")


def _longstr(text: str) -> Field:
    return Field("longstr", text)
