"""What a journal's segments hold, by segment and by queue, and why each segment stays.

Entries are counted exactly. Bytes are those of the messages on the wire; those of live entries are
worked out from the share of a queue's entries in a segment that is live, as if these were of one
size, because the sizes of a million messages would have to be kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

from .ledger import RunningLedger
from .records import BodyRecord, EntriesRecord, Record

# A batch's entries records follow its body soon; of older ones the sizes are not known.
BATCHES_MAX: Final = 100_000
# So many segments are named in a reason.
_SEGMENTS_SHOWN_MAX: Final = 5

Row = dict[str, Any]


class Inventory:
    """`add` every record of every segment that counts, in order; then the rows."""

    def __init__(self, ledger: RunningLedger) -> None:
        """The ledger is what a recovery of these segments found."""
        self._ledger = ledger
        # Bytes of a message of each batch, the latest last.
        self._message_bytes: dict[int, float] = {}
        self._sizes: dict[int, int] = {}
        # By queue and segment of the entries record.
        self._entries: Counter[tuple[int, int]] = Counter()
        self._bytes: Counter[tuple[int, int]] = Counter()
        self._live: Counter[tuple[int, int]] = Counter()
        # Live entries by the segment of their body, if that is another.
        self._bodies: Counter[int] = Counter()
        for queue_id, live_entries in ledger.queues.items():
            for block in live_entries:
                count = len(block.entry_ids)
                self._live[queue_id, block.entries_segment] += count
                if block.body_segment != block.entries_segment:
                    self._bodies[block.body_segment] += count
        self._going = set(ledger.removable())

    def open(self, segment: int, size: int) -> None:
        """The records that follow are of this segment, of so many bytes."""
        self._sizes[segment] = size

    def add(self, segment: int, record: Record) -> None:
        """Count one record."""
        if isinstance(record, BodyRecord):
            sizes = self._message_bytes
            count = max(len(record.indexes), 1)
            sizes[record.batch_number] = (record.wire_end - record.wire_start) / count
            if len(sizes) > BATCHES_MAX:
                del sizes[next(iter(sizes))]
        elif isinstance(record, EntriesRecord):
            count, key = len(record.entry_ids), (record.queue_id, segment)
            self._entries[key] += count
            self._bytes[key] += round(count * self._message_bytes.get(record.batch_number, 0))

    def segments(self) -> list[Row]:
        """A row for each segment, with the reason why it stays."""
        rows = []
        for number, size in sorted(self._sizes.items()):
            keys = [key for key in self._entries if key[1] == number]
            row = {"segment": number, "bytes": size, **self._counts(keys)}
            rows.append(row | {"stays_for": "; ".join(self._reasons(number)) or "nothing"})
        return rows

    def queues(self, names: Mapping[int, str]) -> list[Row]:
        """A row for each queue that the segments speak of, by its id."""
        rows = []
        for queue_id in sorted({queue_id for queue_id, _ in self._entries} | names.keys()):
            keys = [key for key in self._entries if key[0] == queue_id]
            name = names.get(queue_id, "not in the catalog")
            rows.append({"queue_id": queue_id, "queue": name, **self._counts(keys)})
        return rows

    def _counts(self, keys: list[tuple[int, int]]) -> Row:
        entries = sum(self._entries[key] for key in keys)
        live = sum(self._live[key] for key in keys)
        all_bytes = sum(self._bytes[key] for key in keys)
        live_bytes = sum(self._bytes[key] * self._live[key] // self._entries[key] for key in keys)
        return {
            "live": live,
            "dead": entries - live,
            "live_bytes": live_bytes,
            "dead_bytes": all_bytes - live_bytes,
        }

    def _reasons(self, number: int) -> list[str]:
        ledger = self._ledger
        if number in self._going:
            return []
        reasons = []
        live = sum(count for (_, segment), count in self._live.items() if segment == number)
        if live:
            reasons.append(f"{live} live")
        if self._bodies[number]:
            reasons.append(f"bodies of {self._bodies[number]} live in later segments")
        if number == ledger.open_segment:
            reasons.append("the newest")
        elif ledger.remembered.keeps(number):
            reasons.append("identities of dedup windows")
        needed = sorted(ledger.needs(number) - self._going)
        if needed and not reasons:
            shown = ", ".join(map(str, needed[:_SEGMENTS_SHOWN_MAX]))
            more = ", ..." * (len(needed) > _SEGMENTS_SHOWN_MAX)
            reasons.append(f"settles and deliveries of entries in {shown}{more}")
        return reasons
