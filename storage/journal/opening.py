"""Opens a journal on the local disk: the recovery of a directory, and a log that goes on behind it.

`begin_journal` is for a broker, which has compared the recovery with its catalog (`stores.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Set

from ...amqp_frames.messages.publishes import decode_publishes
from ..arrivals import WallDistance, no_distance
from ..belonging import CatalogClaims
from ..files import Files, OperatingSystemFiles
from .discarding import Discarding
from .journal import COMPACTION_RULES, SEGMENT_BYTES_MAX, CompactionRules, Found, Journal
from .loading import Decode
from .records import DIRECTORY_ID_BYTES
from .recovery import Recovered, Recovery
from .segment_log import SegmentLog
from .survey import directory_id_in


def begin_journal(
    directory: str,
    files: Files,
    segment_bytes_max: int,
    recovery: Recovery,
    directory_id: bytes,
    catalog_change: Callable[[], int],
    epoch: int,
    compaction: CompactionRules,
    wall_distance_ns: WallDistance = no_distance,
) -> Journal:
    """Go on behind what `recovery` has read, in a new segment.

    When it returns, all recovered records are on the disk. `catalog_change`, `epoch` and
    `wall_distance_ns`: as of `Journal`. An OSError may leave a segment behind, which the next start
    ignores.
    """
    recovery.make_safe()
    discarding = Discarding(
        files,
        directory,
        recovery.names(),
        recovery.damaged,
        recovery.leftovers,
        recovery.in_the_way,
    )
    log = SegmentLog(files, directory, segment_bytes_max, recovery.known_before, discarding)
    found = Found(
        directory_id,
        recovery.ledger,
        recovery.next_segment_number,
        recovery.before,
        recovery.torn,
        recovery.dropped_entries,
        recovery.recovered.next_batch_number,
        recovery.entries,
        recovery.damaged,
        recovery.compacted,
    )
    return Journal(
        log, found, segment_bytes_max, catalog_change, epoch, compaction, wall_distance_ns
    )


def open_journal(
    directory: str,
    files: Files | None = None,
    known_queue_ids: Set[int] = frozenset(),
    segment_bytes_max: int = SEGMENT_BYTES_MAX,
    decode: Decode = decode_publishes,
    epoch: int | None = None,
    compaction: CompactionRules = COMPACTION_RULES,
) -> tuple[Journal, Recovered]:
    """Recover what the directory holds, whatever catalog it belongs to, and go on.

    For tests and measurements; a broker first makes sure that both belong together
    (`stores.py`). Entries of queues that are not known are dropped. JournalVersionError if a
    segment is of another format version.
    """
    files = OperatingSystemFiles() if files is None else files
    files.make_directory(directory)
    directory_id = directory_id_in(files, directory) or bytes(DIRECTORY_ID_BYTES)
    catalog = CatalogClaims(known_queue_ids, directory_id=directory_id)
    recovery = Recovery(files, directory, catalog, decode)
    recovery.read()
    epoch = recovery.epoch_max + 1 if epoch is None else epoch
    journal = begin_journal(
        directory, files, segment_bytes_max, recovery, directory_id, lambda: 0, epoch, compaction
    )
    return journal, recovery.recovered
