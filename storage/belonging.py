"""Do the catalog and the journal of a directory belong together?

A journal's messages are of queues that the catalog knows by their ids. With yesterday's catalog, or
another directory's, they would be dropped as messages of queues that were deleted, or would get
into other queues. Ids that the catalog does not know are normal, for deleted queues leave messages
behind. Proof that the two do not belong together is one of these:

- a segment of the journal has another directory id than the catalog has;
- the journal speaks of a queue whose id the catalog has not given out yet;
- the journal has recorded a later change of the catalog than the catalog's last one. The catalog's
  transaction is on the disk before the journal is told its number, so a crash never leaves this;
- the catalog names a segment that a start created, and the journal has no trace of it or of a later
  one. The segment and its number in `synced` are on the disk before the catalog is told of it, so a
  crash never leaves this. Damage does not pass for it: both slots of `synced` must verify.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import Final, NamedTuple

from .errors import StorageError

DROP_OPTION: Final = "--drop-unmatched-messages"


class CatalogClaims(NamedTuple):
    """The catalog's claims about itself and its journal."""

    queue_ids: Set[int] = frozenset()
    # Of the queues: their names, for reports.
    queue_names: Mapping[int, str] = {}
    # Empty: the catalog is of a version that had none.
    directory_id: bytes = b""
    # Above every id that it has ever given to a queue; None: not known.
    next_queue_id: int | None = None
    change_number: int | None = None
    # Has a journal of format version 4 been begun with this catalog?
    has_journal: bool = False
    # The segment that the last start created; 0: not known.
    newest_segment: int = 0

    def name_of(self, queue_id: int) -> str:
        """How a report calls the queue."""
        name = self.queue_names.get(queue_id)
        return f"queue {queue_id}" if name is None else f"queue {queue_id} ({name})"


class JournalClaims(NamedTuple):
    """The journal's claims about the catalog."""

    # Are there segments with another directory id than the catalog's?
    has_foreign: bool
    queue_id_max: int
    catalog_change: int
    # No segment above this one has left a trace; None: not known, because `synced` is damaged.
    newest_segment: int | None = None


class NotTogetherError(StorageError):
    """Catalog and journal do not belong together."""


def contradictions(catalog: CatalogClaims, journal: JournalClaims) -> list[str]:
    """Every proof that the two do not belong together, as half a sentence."""
    proofs = []
    if journal.has_foreign:
        proofs.append(
            "segments of the journal are of another data directory"
            if catalog.directory_id
            else "the catalog was never used with a journal of this version"
        )
    next_queue_id, change_number = catalog.next_queue_id, catalog.change_number
    if next_queue_id is not None and journal.queue_id_max >= next_queue_id:
        proofs.append(
            f"the journal speaks of queue {journal.queue_id_max}, and the catalog has given no id "
            f"above {next_queue_id - 1}"
        )
    if change_number is not None and journal.catalog_change > change_number:
        proofs.append(
            f"the journal was written after change {journal.catalog_change} of the catalog, whose "
            f"last one is {change_number}"
        )
    newest_segment = journal.newest_segment
    if newest_segment is not None and newest_segment < catalog.newest_segment:
        proofs.append(
            f"the journal is older: it ends with segment {newest_segment}, and the last start with "
            f"this catalog created segment {catalog.newest_segment}, so all messages since are gone"
        )
    return proofs


def refusal(catalog_path: str, journal_path: str, proofs: list[str], dropped: str) -> str:
    """The refusal, in words for the operator."""
    return (
        f"catalog {catalog_path} and journal {journal_path} do not belong together: "
        f"{'; '.join(proofs)}. Nothing was changed: put back the catalog and the journal that were "
        f"used last, both of the same time; or start with `leveret serve {DROP_OPTION}`, which "
        f"drops {dropped}"
    )
