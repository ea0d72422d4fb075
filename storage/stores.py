"""Catalog and journal of a data directory, opened together.

The order is: look into the catalog, read the journal, compare; only then is anything written. Where
the two do not belong together (`belonging.py`) the directory stays as it is, to the byte.
"""

from __future__ import annotations

import os
from contextlib import suppress

from ..amqp_frames.messages.publishes import decode_publishes
from .arrivals import WallDistance, no_distance
from .belonging import CatalogClaims, JournalClaims, NotTogetherError, contradictions, refusal
from .catalog import Catalog, CatalogFiles, Catalogs, read_claims
from .data_directory import CATALOG_FILE, JOURNAL_DIRECTORY, DataDirectory
from .errors import NoSpaceError
from .files import Files, OperatingSystemFiles
from .journal.background_check import BackgroundCheck
from .journal.journal import COMPACTION_RULES, CompactionRules, Journal
from .journal.opening import begin_journal
from .journal.records import CommitRecord
from .journal.recovery import OnProgress, Recovered, Recovery
from .journal.report import Report
from .journal.segment_reader import SegmentReader
from .journal.survey import Survey
from .journal.synced_file import read_synced


def _refused(directory: DataDirectory, proofs: list[str], dropped: str) -> NotTogetherError:
    paths = str(directory.path / CATALOG_FILE), str(directory.path / JOURNAL_DIRECTORY)
    return NotTogetherError(refusal(*paths, proofs, dropped))


class Stores:
    """The recovered contents of one directory: `open_catalog`, then `begin_journal`."""

    def __init__(
        self,
        directory: DataDirectory,
        files: Files | None,
        new_directory_id: bytes,
        drops_unmatched: bool = False,
        catalogs: Catalogs | None = None,
        *,
        may_use_indexes: bool = False,
        on_progress: OnProgress | None = None,
    ) -> None:
        """Read both; nothing is written. StorageError if the directory cannot be started on.

        `new_directory_id`, random bytes, is for a directory that has none yet. NotTogetherError if
        catalog and journal do not belong together, unless messages of the journal that do not fit
        are to be dropped. `catalogs` stands in for SQLite's files.
        `may_use_indexes`: closed segments may be read by their indexes, and are to be verified
        later (`background_check`). `on_progress` is called while the journal is read.
        """
        self._directory = directory
        self._files = OperatingSystemFiles() if files is None else files
        self._journal_path = str(directory.path / JOURNAL_DIRECTORY)
        self._catalog_path = directory.path / CATALOG_FILE
        self._may_be_new = not directory.has_journal()
        self._catalogs = CatalogFiles() if catalogs is None else catalogs
        claims = self._catalogs.read_claims(self._catalog_path, may_be_new=self._may_be_new)
        self._claims = claims._replace(directory_id=claims.directory_id or new_directory_id)
        self._recovery = Recovery(
            self._files,
            self._journal_path,
            self._claims,
            decode_publishes,
            may_use_indexes,
            on_progress,
        )
        self._recovery.read()
        self._found = self._recovery.journal_claims()
        proofs = self._proofs = contradictions(claims, self._found)
        if proofs and not drops_unmatched:
            raise _refused(directory, proofs, self._recovery.unmatched())

    @property
    def boot_number_min(self) -> int:
        """A start must have at least this boot number: above that of every segment's writer."""
        return self._recovery.epoch_max + 1

    @property
    def recovered(self) -> Recovered:
        """The recovered content of the journal."""
        return self._recovery.recovered

    @property
    def directory_id(self) -> bytes:
        """That of the journal's directory and its catalog."""
        return self._claims.directory_id

    @property
    def unverified_count(self) -> int:
        """How many segments were recovered by their index, and are verified later."""
        return len(self._recovery.unverified)

    def background_check(self, files: Files) -> BackgroundCheck:
        """The check of closed segments, once the journal is begun; `files` are for its thread."""
        return self._recovery.background_check(files)

    def open_catalog(self) -> Catalog:
        """Open it to be changed, at this broker's version; an error leaves it closed."""
        catalog = self._catalogs.open(
            self._catalog_path,
            may_be_new=self._may_be_new,
            new_directory_id=self._claims.directory_id,
        )
        try:
            if self._proofs:
                # What the journal speaks of must not come to be of a new queue.
                catalog.raise_numbers(self._found.queue_id_max, self._found.catalog_change)
            if self._claims.newest_segment >= self._recovery.next_segment_number:
                # The operator, or the report, knows of it: it must not be a contradiction again
                # after a crash.
                with suppress(NoSpaceError):
                    catalog.forget_newest_segment()
        except BaseException:
            # It is held exclusively, so the next try could not open it.
            catalog.close()
            raise
        return catalog

    def begin_journal(
        self,
        catalog: Catalog,
        epoch: int,
        segment_bytes_max: int,
        compaction: CompactionRules = COMPACTION_RULES,
        wall_distance_ns: WallDistance = no_distance,
    ) -> Journal:
        """Continue behind the recovered records; `wall_distance_ns`: as of `Journal`.

        When it returns, all recovered records are on the disk; an error leaves the journal closed.
        """
        self._files.make_directory(self._journal_path)
        journal = begin_journal(
            self._journal_path,
            self._files,
            segment_bytes_max,
            self._recovery,
            self._claims.directory_id,
            lambda: catalog.change_number,
            epoch,
            compaction,
            wall_distance_ns,
        )
        try:
            # Only now that the segment and its number in `synced` are on the disk. Not if the disk
            # is full: the next start notes it.
            with suppress(NoSpaceError):
                catalog.note_journal(self._recovery.next_segment_number)
        except BaseException:
            journal.abandon()
            raise
        return journal


def open_catalog_alone(directory: DataDirectory, new_directory_id: bytes) -> Catalog:
    """The catalog, to change accounts while no broker runs.

    NotTogetherError if the journal has recorded a later change, which changes made now would hide.
    Of the journal only what says so is read.
    """
    path = directory.path / CATALOG_FILE
    may_be_new = not directory.has_journal()
    claims = read_claims(path, may_be_new=may_be_new)
    if not may_be_new:
        found = _glance(OperatingSystemFiles(), str(directory.path / JOURNAL_DIRECTORY), claims)
        proofs = contradictions(claims, found)
        if proofs:
            raise _refused(
                directory, proofs, "the messages of queues that this catalog does not know"
            )
    directory.convert()
    return Catalog.open(path, may_be_new=may_be_new, new_directory_id=new_directory_id)


def _glance(files: Files, journal_path: str, claims: CatalogClaims) -> JournalClaims:
    """The facts of headers, of the newest segment and of `synced` about the catalog."""
    survey = Survey(files, journal_path, claims.directory_id, Report())
    slots = read_synced(files, journal_path)
    synced = slots.farthest
    headers = [file.header for file in survey.segments.values() if file.header is not None]
    changes = [0, *(header.catalog_change for header in headers)]
    has_foreign = bool(survey.foreign)
    if synced is not None:
        has_foreign = has_foreign or synced.directory_id != claims.directory_id
        changes.append(synced.catalog_change)
    if survey.segments:
        newest = survey.segments[max(survey.segments)]
        data = files.read(os.path.join(journal_path, newest.name), 0, newest.size)
        reader = SegmentReader(data, newest.number, claims.directory_id, newest.name)
        records = (record for _, record in reader.records())
        changes += [each.catalog_change for each in records if isinstance(each, CommitRecord)]
    newest_segment = None
    if synced is not None and slots.is_whole and not has_foreign:
        newest_segment = max(survey.next_number - 1, synced.segment)
    return JournalClaims(has_foreign, 0, max(changes), newest_segment)
