"""The catalog of a simulated node: a model of SQLite's, whose every change is on the disk at once.

That the real one keeps what it answered is shown with `strace` and `kill -9` (tests/crash).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leveret.storage import catalog as rows
from leveret.storage.belonging import CatalogClaims
from leveret.storage.catalog import AccountRows, CatalogContents


class CatalogModel:
    """All that a `Catalog` keeps; it is both the file and the open catalog."""

    def __init__(self) -> None:
        self.directory_id = b""
        self.change_number = 0
        self.next_queue_id = 1
        self._has_journal = False
        self._newest_segment = 0
        self._exchanges: dict[tuple[str, str], rows.ExchangeRow] = {}
        self._queues: dict[int, rows.QueueRow] = {}
        self._bindings: dict[rows.BindingRow, None] = {}
        self._users: dict[str, rows.UserRow] = {}
        self._vhosts: dict[str, rows.VhostRow] = {}
        self._permissions: dict[tuple[str, str], rows.PermissionRow] = {}
        self._are_accounts_new = True

    # Catalogs.

    def read_claims(self, _path: Path, *, may_be_new: bool) -> CatalogClaims:
        assert may_be_new or self.directory_id
        return CatalogClaims(
            frozenset(self._queues),
            {queue_id: row.name for queue_id, row in self._queues.items()},
            self.directory_id,
            self.next_queue_id,
            self.change_number,
            self._has_journal,
            self._newest_segment,
        )

    def open(self, _path: Path, *, may_be_new: bool, new_directory_id: bytes) -> Any:
        assert may_be_new or self.directory_id
        self.directory_id = self.directory_id or new_directory_id
        return self

    # Catalog.

    def load(self) -> CatalogContents:
        return CatalogContents(
            list(self._exchanges.values()), list(self._queues.values()), list(self._bindings)
        )

    def load_accounts(self) -> AccountRows:
        return AccountRows(
            list(self._users.values()),
            list(self._vhosts.values()),
            list(self._permissions.values()),
            [],
            [],
            self._are_accounts_new,
        )

    def apply(self, changes: Sequence[rows.Change]) -> None:
        if not changes:
            return
        for change in changes:
            self._apply(change)
        self.change_number += 1

    def _apply(self, change: rows.Change) -> None:
        match change:
            case rows.AddQueue(queue):
                assert queue.queue_id >= self.next_queue_id
                self.next_queue_id = queue.queue_id + 1
                self._queues[queue.queue_id] = queue
            case rows.RenameQueue(queue_id, name):
                self._queues[queue_id] = self._queues[queue_id]._replace(name=name)
            case rows.PauseQueue(queue_id, paused):
                self._queues[queue_id] = self._queues[queue_id]._replace(paused=paused)
            case rows.AddBinding(binding):
                self._bindings[binding] = None
            case rows.RemoveQueue(queue_id):
                queue = self._queues.pop(queue_id)
                self._bindings = {
                    each: None
                    for each in self._bindings
                    if (each.destination_kind, each.vhost, each.destination)
                    != ("queue", queue.vhost, queue.name)
                }
            case rows.RemoveBinding(binding):
                self._bindings.pop(binding, None)
            case rows.AddExchange(exchange):
                self._exchanges[exchange.vhost, exchange.name] = exchange
            case rows.PutUser(user):
                self._users[user.name] = user
                self._are_accounts_new = False
            case rows.PutVhost(vhost):
                self._vhosts[vhost.name] = vhost
            case rows.PutPermission(permission):
                self._permissions[permission.user, permission.vhost] = permission
            case _:
                raise AssertionError(f"the model knows no {change}")

    def note_journal(self, newest_segment: int) -> None:
        self._has_journal = True
        self._newest_segment = newest_segment

    def forget_newest_segment(self) -> None:
        self._newest_segment = 0

    def raise_numbers(self, queue_id: int, change_number: int) -> None:
        self.next_queue_id = max(self.next_queue_id, queue_id + 1)
        self.change_number = max(self.change_number, change_number)

    def close(self) -> None:
        """It has no file."""
