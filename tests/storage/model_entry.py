"""One entry of the journal's model, and how far each thing done to it has got to the disk."""

from __future__ import annotations

from dataclasses import dataclass, field

BUFFERED, WRITTEN, SYNCED = 0, 1, 2


@dataclass
class Entry:
    """The history of one entry, with how far each step has got to the disk."""

    wire: bytes
    deadline: int = 0
    appended: int = BUFFERED
    settled: int | None = None
    delivered: list[int] = field(default_factory=list)
    # Deliveries of which a full disk may have left fewer.
    doubted: int = 0
    # Until when it was deferred, one time after the other: 0 for not at all, as by a delivery.
    due_times: list[tuple[int, int]] = field(default_factory=lambda: [(0, BUFFERED)])

    def reach(self, level: int) -> None:
        """All that was done so far has got to the level, or was further."""
        self.appended = max(self.appended, level)
        if self.settled is not None:
            self.settled = max(self.settled, level)
        self.delivered = [max(each, level) for each in self.delivered]
        self.due_times = [(due_ms, max(each, level)) for due_ms, each in self.due_times]

    def may_be_due(self, certain: int) -> set[int]:
        """The due times that a start may find: the last certain one, and all behind it."""
        sure = [at for at, (_, level) in enumerate(self.due_times) if level >= certain]
        return {due_ms for due_ms, _ in self.due_times[max(sure, default=0) :]}

    def doubt(self) -> None:
        """Of the deliveries that are on no disk, one may be left."""
        kept = [level for level in self.delivered if level > BUFFERED]
        doubted = len(self.delivered) - len(kept)
        if doubted > 1:
            self.delivered = [*kept, BUFFERED]
            self.doubted += doubted - 1


# An entry's wire bytes, attempts and deadline.
Found = tuple[bytes, int, int]


def check_queue(entries: dict[int, Entry], found: dict[int, Found], certain: int) -> None:
    """Compare a start's findings about a queue with those that it must and may make."""
    for entry_id, (wire, attempts, deadline) in found.items():
        entry = entries[entry_id]
        assert (entry.wire, entry.deadline) == (wire, deadline)
        assert entry.settled is None or entry.settled < certain
        sure = sum(1 for level in entry.delivered if level >= certain)
        assert sure <= attempts <= len(entry.delivered) + entry.doubted
    for entry_id, entry in entries.items():
        if entry.settled is None and entry.appended >= certain:
            assert entry_id in found
