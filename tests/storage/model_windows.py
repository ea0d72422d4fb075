"""The identities that dedup windows must remember after a crash, for the journal's model."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from leveret.storage.journal.identity_runs import IDENTITY_BYTES, Identities
from leveret.storage.journal.recovery import Recovered
from model_entry import SYNCED, Entry


def identities_of(entry_ids: Iterable[int]) -> Identities:
    """One for each entry: its id, and an octet that is never 0."""
    return Identities(b"".join(entry_id.to_bytes(15, "big") + b"\2" for entry_id in entry_ids), 0)


class Windows:
    """Which entries of which queue have an identity that nobody has forgotten."""

    def __init__(self) -> None:
        self._known: dict[int, dict[int, Entry]] = defaultdict(dict)
        # Nothing is written of these, so a start may bring them back.
        self._forgotten: dict[int, set[int]] = defaultdict(set)

    def remember(self, queue_id: int, entries: dict[int, Entry]) -> None:
        """These entries were appended with their identities."""
        self._known[queue_id] |= entries
        self._forgotten[queue_id] -= entries.keys()

    def forget(self, queue_id: int, below: int) -> None:
        known = self._known[queue_id]
        gone = {entry_id for entry_id in known if entry_id < below}
        self._forgotten[queue_id] |= gone
        for entry_id in gone:
            del known[entry_id]

    def check(self, queue_id: int, recovered: Recovered, found: set[int], certain: int) -> None:
        """The identities that a start remembers, beside the entries that it has found."""
        remembered = _ids(recovered, queue_id)
        known = self._known[queue_id]
        for entry_id, entry in known.items():
            if entry.appended >= certain:
                assert entry_id in remembered
        for entry_id in remembered - self._forgotten[queue_id]:
            # Never one whose message is lost: it would be confirmed and not be there.
            assert entry_id in found or known[entry_id].settled is not None

    def restart(self, queue_id: int, recovered: Recovered, live: dict[int, Entry]) -> None:
        """Go on with what a start remembers."""
        remembered = _ids(recovered, queue_id)
        settled = Entry(b"", 0, SYNCED, SYNCED)
        known = {entry_id: live.get(entry_id, settled) for entry_id in remembered}
        # What came back that was forgotten may go again, or come again.
        for entry_id in self._forgotten[queue_id]:
            known.pop(entry_id, None)
        self._known[queue_id] = known


def _ids(recovered: Recovered, queue_id: int) -> set[int]:
    found = [
        int.from_bytes(run.identities[start : start + 15], "big")
        for run in recovered.identities.get(queue_id, ())
        for start in range(0, len(run.identities), IDENTITY_BYTES)
    ]
    assert len(found) == len(set(found)), "an identity is remembered twice"
    return set(found)
