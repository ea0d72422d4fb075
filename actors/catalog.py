"""The catalog's thread: durable topology is committed here before it is answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..storage.catalog import Catalog
from .journal import ThreadActor
from .messages import Commit, Committed
from .runtime import tell

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


class CatalogActor(ThreadActor):
    """Owns the SQLite catalog. Parent: the node, which is told of anything fatal."""

    def __init__(
        self,
        catalog: Catalog,
        log: FilteringBoundLogger,
        on_fatal: Callable[[str, BaseException], None],
    ) -> None:
        super().__init__(log, on_fatal)
        self._catalog = catalog

    def on_receive(self, message: object) -> None:
        """Commit what has gathered, each in its order, in one transaction; then answer."""
        commits = [each for each in self.drained(message) if isinstance(each, Commit)]
        self._catalog.apply([change for commit in commits for change in commit.changes])
        for commit in commits:
            tell(commit.reply_to, Committed())

    def on_stop(self) -> None:
        """Close the file."""
        self._catalog.close()

    def on_failure(self, *_exception: object) -> None:
        """Close the file; what was not committed was not answered."""
        self._catalog.close()
