"""What a message's headers say of its deaths, as RabbitMQ 3.10 writes it.

    x-death  array of tables, newest first, one for each queue and reason:
             count long, reason, queue, time timestamp (seconds), exchange, routing-keys array,
             original-expiration if the message had an expiration
    x-first-death-reason, x-first-death-queue, x-first-death-exchange  never changed afterwards

A death that is there already is counted up and moves to the front, its other fields as they were.
Facts from rabbit_dead_letter:make_msg, update_x_death_header and is_cycle. Clients may send
what they like under these names: an x-death that is no array is replaced, as RabbitMQ does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from ..amqp_frames.field_types import Field, Table
from ..amqp_frames.short_strings import decode_text, encode_text

REJECTED: Final = "rejected"
MAXLEN: Final = "maxlen"
EXPIRED: Final = "expired"
DELIVERY_LIMIT: Final = "delivery_limit"
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


def name_of(field: Field | None) -> str | None:
    """A longstr as the names of queues and exchanges are kept: any octets in a str."""
    if field is None or field.kind != "longstr":
        return None
    value = field.value
    return decode_text(value) if isinstance(value, bytes) else str(value)


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
        same = [entry for entry in known.value if _is_of(entry, death)]
        others = [entry for entry in known.value if not _is_of(entry, death)]
        if len(known.value) > 1:
            others = [_with_count(entry) for entry in others]
        # RabbitMQ sorts the fields of any but the first.
        newest = _sorted(_counted_up(same) if same else newest)
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


def _counted_up(same: Sequence[Field]) -> Table:
    """The newest of these entries, which differ in nothing that counts, once more."""
    entry = same[0].value
    assert isinstance(entry, dict)
    counted = entry.get("count")
    count = len(same)
    if counted is not None and isinstance(counted.value, int):
        count = counted.value
    return {**entry, "count": Field("long", min(count + 1, _COUNT_MAX))}


def _with_count(entry: Field) -> Field:
    """One that a client made up may lack it."""
    if not isinstance(entry.value, dict) or "count" in entry.value:
        return entry
    return Field("table", {"count": Field("long", 1), **entry.value})


def _sorted(table: Table) -> Table:
    return dict(sorted(table.items(), key=_octets))


def _is_of(entry: Field, death: Death) -> bool:
    table = entry.value
    return (
        isinstance(table, dict)
        and name_of(table.get("queue")) == death.queue
        and name_of(table.get("reason")) == death.reason
    )


def _octets(item: tuple[str, Field]) -> bytes:
    return encode_text(item[0])


def _longstr(text: str) -> Field:
    return Field("longstr", text)
