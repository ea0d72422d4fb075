"""The catalog's thread: durable topology is committed here before it is answered.

The catalog stores rows and knows no rules, core has definitions and accounts and knows no rows.
This module translates both ways: a row has its arguments encoded, and a user's tags in one text.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from ...amqp_frames.constants import RESOURCE_ERROR
from ...amqp_frames.errors import AmqpError, HardError
from ...amqp_frames.values.field_table import Table, decode_table, encode_table
from ...core import definitions
from ...core.definitions import BindingDefinition, ExchangeDefinition, QueueDefinition
from ...core.parameters import parameters
from ...core.parameters.parameters import Parameter, Parameters
from ...core.topology.topology import Vhosts
from ...core.users import accounts
from ...core.users.accounts import Accounts, Permission, TopicPermission, User, VhostMetadata
from ...logs.events import CATALOG_REFUSED
from ...storage import catalog as rows
from ...storage.catalog import (
    REMOVALS,
    AccountRows,
    BindingRow,
    Catalog,
    CatalogContents,
    CatalogDamagedError,
    Change,
    ExchangeRow,
    ParameterRow,
    PermissionRow,
    QueueRow,
    TopicPermissionRow,
    UserRow,
    VhostRow,
)
from ...storage.errors import NoSpaceError
from ...storage.reserve import Purpose, Reserve
from ..messages import Commit, Committed, DiskFull, Ref, Refused, WatchedBy
from ..runtime.runtime import tell
from ..runtime.thread_actor import ThreadActor

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


class CatalogActor(ThreadActor):
    """Owns the SQLite catalog. Parent: the node, which is told of anything fatal."""

    def __init__(
        self,
        catalog: Catalog,
        log: FilteringBoundLogger,
        on_fatal: Callable[[str, BaseException], None],
        reserve: Reserve | None = None,
    ) -> None:
        """`reserve` has room for when the disk has none."""
        super().__init__(log, on_fatal)
        self._catalog = catalog
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
            self._apply(catalog_changes(chain.from_iterable(each.changes for each in commits)))
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
                if self._reserve is None or not self._reserve.release_step(purpose):
                    raise

    def on_stop(self) -> None:
        """Close the file."""
        self._catalog.close()

    def on_failure(self, *_exception: object) -> None:
        """Close the file; changes that were not committed were not answered."""
        self._catalog.close()


def catalog_changes(
    changes: Iterable[definitions.Change | accounts.AccountChange],
) -> list[rows.Change]:
    """The changes of rows for the durable part of a plan, or for a change of accounts."""
    return [_change(change) for change in changes]


def _change(change: definitions.Change | accounts.AccountChange) -> rows.Change:
    match change:
        case definitions.AddQueue(queue):
            return rows.AddQueue(_queue_row(queue))
        case definitions.RemoveQueue(queue):
            return rows.RemoveQueue(queue.queue_id)
        case definitions.RenameQueue(queue, name):
            return rows.RenameQueue(queue.queue_id, name)
        case definitions.PauseQueue(queue, is_paused):
            return rows.PauseQueue(queue.queue_id, is_paused)
        case definitions.ReplaceQueueArguments() | definitions.ReplaceExchangeArguments():
            raise AssertionError(f"{change} is not durable")
        case definitions.AddExchange(exchange):
            return rows.AddExchange(_exchange_row(exchange))
        case definitions.RemoveExchange(exchange):
            return rows.RemoveExchange(exchange.vhost, exchange.name)
        case definitions.AddBinding(binding):
            return rows.AddBinding(_binding_row(binding))
        case definitions.RemoveBinding(binding):
            return rows.RemoveBinding(_binding_row(binding))
        case accounts.PutUser(user):
            tags, limits = ",".join(user.tags), json.dumps(dict(user.limits))
            return rows.PutUser(UserRow(user.name, user.password_hash, tags, limits))
        case accounts.RemoveUser(name):
            return rows.RemoveUser(name)
        case accounts.AddVhost(name, metadata) | accounts.ChangeVhost(name, metadata):
            return rows.PutVhost(VhostRow(name, json.dumps(metadata._asdict())))
        case accounts.RemoveVhost(name):
            return rows.RemoveVhost(name)
        case accounts.PutPermission(permission):
            return rows.PutPermission(PermissionRow(*permission))
        case accounts.RemovePermission(user_name, vhost):
            return rows.RemovePermission(user_name, vhost)
        case accounts.PutTopicPermission(topic):
            return rows.PutTopicPermission(TopicPermissionRow(*topic))
        case accounts.RemoveTopicPermission():
            return rows.RemoveTopicPermission(*change)
        case parameters.PutParameter(parameter):
            return rows.PutParameter(ParameterRow(*parameter[:3], json.dumps(parameter.value)))
        case parameters.RemoveParameter():
            return rows.RemoveParameter(*change)


def _queue_row(queue: QueueDefinition) -> QueueRow:
    return QueueRow(
        queue.queue_id,
        queue.vhost,
        queue.name,
        queue.durable,
        queue.auto_delete,
        _encoded(queue.arguments),
        queue.is_paused,
    )


def _exchange_row(exchange: ExchangeDefinition) -> ExchangeRow:
    return ExchangeRow(
        exchange.vhost,
        exchange.name,
        exchange.type_name,
        exchange.durable,
        exchange.auto_delete,
        exchange.internal,
        _encoded(exchange.arguments),
    )


def _binding_row(binding: BindingDefinition) -> BindingRow:
    return BindingRow(
        binding.vhost,
        binding.source,
        binding.destination,
        binding.destination_kind,
        binding.routing_key,
        _encoded(binding.arguments),
    )


def restore(vhosts: Vhosts, contents: CatalogContents) -> None:
    """Put into the vhosts what the catalog holds; CatalogDamagedError if it does not fit."""
    try:
        vhosts.restore(*restored(contents))
    except (ValueError, AmqpError) as fault:
        raise CatalogDamagedError(f"the catalog is damaged: {fault}") from fault


def restored(
    contents: CatalogContents,
) -> tuple[list[ExchangeDefinition], list[QueueDefinition], list[BindingDefinition]]:
    """The catalog's rows, as definitions."""
    exchanges = [
        ExchangeDefinition(
            row.name,
            row.type,
            row.durable,
            row.auto_delete,
            row.internal,
            _table(row.arguments),
            row.vhost,
        )
        for row in contents.exchanges
    ]
    queues = [
        QueueDefinition(
            row.name,
            row.queue_id,
            row.durable,
            auto_delete=row.auto_delete,
            arguments=_table(row.arguments),
            vhost=row.vhost,
            is_paused=row.paused,
        )
        for row in contents.queues
    ]
    bindings = [
        BindingDefinition(
            row.source,
            row.destination,
            row.routing_key,
            True,
            _table(row.arguments),
            row.vhost,
            row.destination_kind,
        )
        for row in contents.bindings
    ]
    return exchanges, queues, bindings


# Most have no arguments: the length of a table without fields.
_NO_ARGUMENTS: Final = bytes(4)


def _encoded(table: Table) -> bytes:
    return encode_table(table) if table else _NO_ARGUMENTS


def _table(encoded: bytes) -> Table:
    return decode_table(encoded, 0, len(encoded)) if len(encoded) > len(_NO_ARGUMENTS) else {}


def restored_accounts(loaded: AccountRows) -> Accounts:
    """The accounts in the catalog; CatalogDamagedError if they cannot be read."""
    try:
        return _accounts(loaded)
    except (ValueError, TypeError) as fault:
        raise CatalogDamagedError(f"the catalog is damaged: {fault}") from fault


def _accounts(loaded: AccountRows) -> Accounts:
    users = {
        row.name: User(
            row.name,
            row.password_hash,
            tuple(filter(None, row.tags.split(","))),
            json.loads(row.limits),
        )
        for row in loaded.users
    }
    topics: dict[tuple[str, str], dict[str, TopicPermission]] = {}
    for topic in loaded.topic_permissions:
        of_user = topics.setdefault((topic.user, topic.vhost), {})
        of_user[topic.exchange] = TopicPermission(*topic)
    return Accounts(
        users,
        {row.name: _metadata(json.loads(row.metadata)) for row in loaded.vhosts},
        {(row.user, row.vhost): Permission(*row) for row in loaded.permissions},
        topics,
        Parameters([Parameter(*row[:3], json.loads(row.value)) for row in loaded.parameters]),
    )


def _metadata(stored: dict[str, Any]) -> VhostMetadata:
    metadata = VhostMetadata(**stored)
    # JSON has no tuples.
    return metadata._replace(tags=tuple(metadata.tags))
