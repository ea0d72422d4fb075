"""The catalog's thread: durable topology is committed here before it is answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ...amqp_frames.constants import RESOURCE_ERROR
from ...amqp_frames.errors import HardError
from ...logs.events import CATALOG_REFUSED
from ...storage.catalog.catalog import REMOVALS, Catalog, Change
from ...storage.errors import NoSpaceError
from ...storage.reserve import Purpose, Reserve
from ..messages import CatalogChanged, Commit, Committed, DiskFull, Ref, Refused, WatchedBy
from ..runtime.runtime import tell
from ..runtime.thread_actor import ThreadActor

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


class CatalogActor(ThreadActor):
    """Owns the SQLite catalog. Parent: the node, which is told of anything fatal."""

    def __init__(
        self,
        catalog: Catalog,
        journal: Ref,
        log: FilteringBoundLogger,
        on_fatal: Callable[[str, BaseException], None],
        reserve: Reserve | None = None,
    ) -> None:
        """`reserve` has room for when the disk has none."""
        super().__init__(log, on_fatal)
        self._catalog = catalog
        self._journal = journal
        self._reserve = reserve
        # The actor that learns of a full disk; the node makes it after the catalog.
        self._watch: Ref | None = None

    def on_gathered(self, messages: list[object]) -> None:
        """Commit the gathered changes, each in its order, in one transaction; then answer.

        All of it is refused if the disk is full: none of the transaction is there.
        """
        commits: list[Commit] = []
        for each in messages:
            if isinstance(each, Commit):
                commits.append(each)
            elif isinstance(each, WatchedBy):
                self._watch = each.watch
        answer: Committed | Refused = Committed()
        try:
            self._apply([change for commit in commits for change in commit.changes])
            # Before it is answered: the journal names the change in what it writes from now on, so
            # that an older catalog is not taken for this one.
            tell(self._journal, CatalogChanged(self._catalog.change_number))
        except NoSpaceError as error:
            answer = Refused(HardError(RESOURCE_ERROR, "no space left on the disk"))
            self._log.error(CATALOG_REFUSED, reason=str(error), commits=len(commits))
        for commit in commits:
            tell(commit.reply_to, answer)

    def _apply(self, changes: list[Change]) -> None:
        """Commit; pure removals may use up more of the reserve, because they free room."""
        removes = all(isinstance(change, REMOVALS) for change in changes)
        purpose = Purpose.REMOVAL if removes else Purpose.CATALOG
        while True:
            try:
                self._catalog.apply(changes)
                break
            except NoSpaceError as error:
                if self._watch is not None:
                    tell(self._watch, DiskFull(str(error)))
                if self._reserve is None or not self._reserve.give_up(purpose):
                    raise

    def on_stop(self) -> None:
        """Close the file."""
        self._catalog.close()

    def on_failure(self, *_exception: object) -> None:
        """Close the file; changes that were not committed were not answered."""
        self._catalog.close()
