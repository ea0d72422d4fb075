"""Finds the changes that carry out a definitions file; the first item that cannot be says why.

Nothing is changed here, and all of the file is checked before anything is: the broker commits the
changes of the whole file in one transaction, so that a crash leaves all of them or none.

Existing objects are dealt with as RabbitMQ does: queues, exchanges and bindings stay as they are,
even where the file has them otherwise. Users, permissions, parameters and policies
become what the file says. A vhost is changed where the file has metadata for it.

Facts measured on RabbitMQ 3.10, whose imports these are like, with four differences. RabbitMQ
carries out the items before a mistake. It creates queues whose type, arguments or name no client
could use, and users with a hash that no password has. A user without a hash gets one of a random
password there; here nobody can log in as that user, and an existing user keeps its password.
A binding that lacks one of its ends is passed over by both, because `rabbitmqctl` exports those of
exclusive queues; here the log names them.

Names that begin with "amq." are as good as others in a file: a durable queue may have a generated
one. Exchanges with such names are RabbitMQ's own, and cannot be made by a file.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ...amqp_frames.constants import SHORT_STRING_BYTES_MAX
from ...amqp_frames.errors import AmqpError
from ...amqp_frames.values.field_table import Field, Table, encode_table
from ..definitions import (
    CLASSIC,
    HIDDEN_PREFIX,
    TO_EXCHANGE,
    TO_QUEUE,
    AddBinding,
    AddExchange,
    AddQueue,
    BindingDefinition,
    BindingIdentity,
    Change,
    Destination,
    ExchangeDefinition,
    QueueDefinition,
    check_exchange_arguments,
    check_queue_arguments,
    check_queue_properties,
    resource,
)
from ..exchanges.delayed import check_delayed_type, routing_type
from ..exchanges.exchange import Exchange
from ..exchanges.random_exchange import RandomExchange
from ..exchanges.table import (
    BUILT_TYPES,
    PREDECLARED,
    TYPES,
    ExchangeTable,
    TopologyLimits,
)
from ..json_tables import table_of_json
from ..parameters.limits import LIMITS, vhost_limits
from ..parameters.parameters import (
    OPERATOR_POLICY,
    VHOST_LIMITS,
    Parameters,
)
from ..policies.effective import Policies
from ..topology.topology import RESERVED_PREFIX, Vhosts, check_bindable
from ..users.accounts import (
    AccountChange,
    AccountChanges,
    AccountError,
    Accounts,
    Permission,
    TopicPermission,
    VhostMetadata,
    tags_from,
)
from ..users.password_hash import (
    IMPORTED_SALT_BYTES,
    NO_PASSWORD,
    UNNAMED_ALGORITHM,
    imported_hash,
    imported_password,
)
from .document import SECTIONS, Document, DocumentError, Item, item_name

_PATTERNS: Final = ("configure", "write", "read")
# A file of one vhost has no others.
_OF_VHOSTS: Final = ("parameters", "policies", "exchanges", "queues", "bindings")
_SHA256: Final = "rabbit_password_hashing_sha256"


@dataclass(slots=True)
class ImportPlan:
    """What a file comes to. The changes of accounts come first, vhosts before all else."""

    accounts: list[AccountChange] = field(default_factory=list)
    # By vhost: exchanges, queues, bindings, in this order.
    topology: dict[str, list[Change]] = field(default_factory=dict)
    # Bindings that lack an end.
    passed_over: list[BindingDefinition] = field(default_factory=list)
    # What the dedup windows of its queues may remember. Whether the node has room for that depends
    # on what the file's policies change for other queues, too: the caller checks both together.
    dedup_identities: int = 0


def plan_import(
    document: Document, accounts: Accounts, vhosts: Vhosts, vhost: str | None = None
) -> Iterator[ImportPlan]:
    """Plan it; yields the plan after each item, and complete at last; DocumentError.

    With `vhost` the file's exchanges, queues, bindings, policies and parameters are that vhost's,
    whatever they say, and all else in it is passed over. The plan holds until accounts or topology
    change otherwise.
    """
    planner = _Planner(document.version, accounts, vhosts, vhost)
    for section in SECTIONS if vhost is None else _OF_VHOSTS:
        plan = planner.planners[section]
        for number, item in enumerate(document.sections[section]):
            try:
                plan(item)
                _check_texts(item)
            except (AccountError, ValueError) as fault:
                # RabbitMQ's words for what cannot be validated have lines of their own.
                reason = " ".join(str(fault).split())
            except AmqpError as fault:
                reason = fault.reply_text.partition(" - ")[2] or fault.reply_text
            else:
                yield planner.plan
                continue
            raise DocumentError(f"{item_name(section, number, item)}: {reason}")
    planner.check_totals()
    yield planner.plan


class _Tables:
    """A vhost as it will be: its table, which may be none yet, and what the file adds."""

    def __init__(self, vhost: str, table: ExchangeTable | None) -> None:
        self._table = table
        self._vhost = vhost
        self._exchanges: dict[str, Exchange] = {}
        self._queues: dict[str, QueueDefinition] = {}
        self._bindings: dict[BindingIdentity, None] = {}
        # For each exchange an empty one of its kind, with those of the file's patterns that cost.
        self._patterns: dict[str, Exchange] = {}
        if table is None:
            for name, type_name in PREDECLARED:
                self.add_exchange(ExchangeDefinition(name, type_name, durable=True, vhost=vhost))

    def queue_count(self) -> int:
        there = 0 if self._table is None else len(self._table.queues())
        return there + len(self._queues)

    def find_exchange(self, name: str) -> Exchange | None:
        found = None if self._table is None else self._table.find_exchange(name)
        return found or self._exchanges.get(name)

    def find_destination(self, kind: str, name: str) -> Destination | None:
        if kind == TO_EXCHANGE:
            exchange = self.find_exchange(name)
            return None if exchange is None else exchange.definition
        return self.find_queue(name)

    def find_queue(self, name: str) -> QueueDefinition | None:
        found = None if self._table is None else self._table.find_queue(name)
        return found or self._queues.get(name)

    def add_exchange(self, definition: ExchangeDefinition) -> None:
        self._exchanges[definition.name] = _new_exchange(definition)

    def add_queue(self, queue: QueueDefinition) -> None:
        self._queues[queue.name] = queue

    def add_binding(
        self, source: Exchange, binding: BindingDefinition, destination: Destination, limit: int
    ) -> bool:
        """Whether it is new; ValueError if its pattern costs too much beside the others."""
        if binding.identity in source.bindings or binding.identity in self._bindings:
            return False
        self._bindings[binding.identity] = None
        key = binding.routing_key
        own = source.costly_words(key) - source.costly_words("")
        if own:
            patterns = self._patterns.get(binding.source)
            if patterns is None:
                patterns = self._patterns[binding.source] = _new_exchange(source.definition)
            if source.costly_words("") + patterns.costly_words(key) > limit:
                raise ValueError(f"the exchange would have patterns with more than {limit} words")
            patterns.bind(binding, destination)
        return True


def _new_exchange(definition: ExchangeDefinition) -> Exchange:
    built = BUILT_TYPES[routing_type(definition.type_name, definition.arguments)]
    if issubclass(built, RandomExchange):
        # It routes nothing.
        return built(definition, bytes)
    return built(definition)


class _Planner:
    """The plan as far as it is made."""

    def __init__(self, version: str, accounts: Accounts, vhosts: Vhosts, vhost: str | None) -> None:
        self.plan = ImportPlan()
        self._version = version
        self._vhosts = vhosts
        self._limits: TopologyLimits = vhosts.limits
        self._vhost = vhost
        # As they will be.
        self._accounts = Accounts(
            dict(accounts.users),
            dict(accounts.vhosts),
            dict(accounts.permissions),
            {key: dict(topics) for key, topics in accounts.topic_permissions.items()},
            Parameters(tuple(accounts.parameters)),
        )
        self._tables: dict[str, _Tables] = {}
        self._policies: dict[str, Policies] = {}
        self.planners: dict[str, Callable[[Item], None]] = {
            "vhosts": self._add_vhost,
            "users": self._put_user,
            "permissions": self._put_permission,
            "topic_permissions": self._put_topic_permission,
            "global_parameters": self._put_global_parameter,
            "parameters": self._put_parameter,
            "policies": self._put_policy,
            "exchanges": self._add_exchange,
            "queues": self._add_queue,
            "bindings": self._add_binding,
        }

    def _change(self, changes: AccountChanges) -> None:
        self._accounts.apply(changes)
        self.plan.accounts += changes

    def check_totals(self) -> None:
        """DocumentError if the queues are more than the limits of vhosts have it."""
        for vhost, tables in self._tables.items():
            limit = vhost_limits(self._accounts.parameters, vhost).queues_max
            count = tables.queue_count()
            if limit is not None and vhost in self.plan.topology and count > limit:
                raise DocumentError(
                    f"vhost '{vhost}' would have {count} queues, and its limit is {limit}"
                )

    # --- Accounts

    def _add_vhost(self, item: Item) -> None:
        name = _text(item, "name")
        before = self._accounts.vhosts.get(name)
        metadata = _metadata(item, before or VhostMetadata())
        if before is None:
            self._change(self._accounts.prepare_add_vhost(name, metadata))
        elif metadata != before:
            self._change(self._accounts.prepare_change_vhost(name, metadata))
        # RabbitMQ writes no limits as an empty list, and limits among the parameters, too.
        limits = item.get("limits")
        if limits:
            changes = self._accounts.prepare_set_parameter(VHOST_LIMITS, name, LIMITS, limits)
            self._change(changes)

    def _put_user(self, item: Item) -> None:
        name, accounts = _text(item, "name"), self._accounts
        if "tags" not in item:
            raise ValueError("it has no tags")
        tags = tags_from(item["tags"])
        known = accounts.users.get(name)
        password_hash = self._password_hash(item)
        if known is None:
            self._change(accounts.prepare_add_user(name, password_hash or NO_PASSWORD, tags))
        else:
            if password_hash is not None:
                self._change(accounts.prepare_change_password(name, password_hash))
            self._change(accounts.prepare_set_tags(name, tags))
        limits = item.get("limits")
        if limits is not None and limits != []:
            self._change(accounts.prepare_set_user_limits(name, limits))

    def _password_hash(self, item: Item) -> str | None:
        """None if the file has neither a hash nor a password."""
        if item.get("password") is not None:
            password = _text(item, "password")
            if not password:
                return NO_PASSWORD
            return imported_password(password, self._vhosts.random_octets(IMPORTED_SALT_BYTES))
        if item.get("password_hash") is None:
            return None
        algorithm = item.get("hashing_algorithm")
        if algorithm is None:
            algorithm = UNNAMED_ALGORITHM if _is_before_3_6(self._version) else _SHA256
        if not isinstance(algorithm, str):
            raise ValueError("'hashing_algorithm' must be a string")
        return imported_hash(_text(item, "password_hash"), algorithm)

    def _put_permission(self, item: Item) -> None:
        names = (_text(item, name) for name in ("user", "vhost", *_PATTERNS))
        self._change(self._accounts.prepare_set_permission(Permission(*names)))

    def _put_topic_permission(self, item: Item) -> None:
        names = (_text(item, name) for name in ("user", "vhost", "exchange", "write", "read"))
        self._change(self._accounts.prepare_set_topic_permission(TopicPermission(*names)))

    def _put_global_parameter(self, item: Item) -> None:
        name = _text(item, "name")
        self._change(self._accounts.prepare_set_global_parameter(name, _there(item, "value")))

    def _put_parameter(self, item: Item) -> None:
        vhost, accounts = self._vhost_of(item), self._accounts
        component, name = _text(item, "component"), _text(item, "name")
        value = _there(item, "value")
        if component == OPERATOR_POLICY:
            if not isinstance(value, dict):
                raise ValueError("'value' must be an object")
            changes = accounts.prepare_set_policy(vhost, name, value, is_operators=True)
        elif component == VHOST_LIMITS and value == []:
            # RabbitMQ's way to write no limits.
            changes = accounts.prepare_set_parameter(component, vhost, name, {})
        else:
            changes = accounts.prepare_set_parameter(component, vhost, name, value)
        self._change(changes)

    def _put_policy(self, item: Item) -> None:
        name, vhost = _text(item, "name"), self._vhost_of(item)
        self._change(self._accounts.prepare_set_policy(vhost, name, item, is_operators=False))

    # --- Topology

    def _vhost_of(self, item: Item) -> str:
        if self._vhost is not None:
            return self._vhost
        vhost = _text(item, "vhost")
        self._accounts.check_vhost(vhost)
        return vhost

    def _tables_of(self, vhost: str) -> _Tables:
        tables = self._tables.get(vhost)
        if tables is None:
            topology = self._vhosts.find(vhost)
            table = None if topology is None else topology.table
            tables = self._tables[vhost] = _Tables(vhost, table)
        return tables

    def _policies_of(self, vhost: str) -> Policies:
        """Those that will be: the file's are planned before its queues."""
        policies = self._policies.get(vhost)
        if policies is None:
            parameters, window = self._accounts.parameters, self._limits.dedup_window_max
            policies = self._policies[vhost] = Policies(parameters, vhost, window)
        return policies

    def _add(self, vhost: str, change: Change) -> None:
        self.plan.topology.setdefault(vhost, []).append(change)

    def _add_exchange(self, item: Item) -> None:
        vhost, name = self._vhost_of(item), _resource_name(item, "name")
        tables = self._tables_of(vhost)
        type_name, arguments = _text(item, "type"), _arguments(item)
        if not name or tables.find_exchange(name) is not None:
            return
        if name.startswith(RESERVED_PREFIX):
            raise ValueError("only the broker makes exchanges whose names begin with 'amq.'")
        if type_name not in TYPES:
            raise ValueError(f"unknown exchange type '{type_name}'")
        definition = ExchangeDefinition(
            name,
            type_name,
            _flag(item, "durable"),
            _flag(item, "auto_delete"),
            _flag(item, "internal", is_needed=False),
            arguments,
            vhost,
        )
        check_delayed_type(type_name, arguments, BUILT_TYPES)
        check_exchange_arguments(str(definition), arguments)
        BUILT_TYPES[routing_type(type_name, arguments)].check_arguments(arguments)
        tables.add_exchange(definition)
        self._add(vhost, AddExchange(definition))

    def _add_queue(self, item: Item) -> None:
        vhost, name = self._vhost_of(item), _resource_name(item, "name")
        if not name:
            raise ValueError("a queue's name must not be empty")
        if name.startswith(HIDDEN_PREFIX):
            raise ValueError(f"queues whose names begin with {HIDDEN_PREFIX} are the broker's own")
        tables = self._tables_of(vhost)
        arguments = _arguments(item)
        durable, auto_delete = _flag(item, "durable"), _flag(item, "auto_delete")
        if tables.find_queue(name) is not None:
            return
        queue_type = item.get("type")
        if "x-queue-type" not in arguments and queue_type not in (None, CLASSIC):
            # From RabbitMQ 3.11 on its exports have it here, too.
            arguments = {"x-queue-type": Field("longstr", _text(item, "type"))} | arguments
        named = resource("queue", name, vhost)
        check_queue_arguments(named, arguments, self._limits.dedup_window_max)
        queue = QueueDefinition(
            name,
            self._vhosts.next_queue_id(),
            durable,
            auto_delete=auto_delete,
            arguments=arguments,
            vhost=vhost,
        )
        check_queue_properties(queue)
        queue.put_in_effect(*self._policies_of(vhost).queue_arguments(queue))
        tables.add_queue(queue)
        self.plan.dedup_identities += queue.dedup_window
        self._add(vhost, AddQueue(queue))

    def _add_binding(self, item: Item) -> None:
        vhost = self._vhost_of(item)
        tables = self._tables_of(vhost)
        source_name, name = _resource_name(item, "source"), _resource_name(item, "destination")
        kind, key = _text(item, "destination_type"), _resource_name(item, "routing_key")
        if kind not in (TO_QUEUE, TO_EXCHANGE):
            raise ValueError(f"'destination_type' must be queue or exchange, and is '{kind}'")
        arguments = _arguments(item)
        if not source_name:
            # That of the default exchange, which every queue has.
            return
        check_bindable(source_name)
        if kind == TO_EXCHANGE:
            check_bindable(name)
        source, destination = tables.find_exchange(source_name), tables.find_destination(kind, name)
        durable = bool(source and destination and source.definition.durable and destination.durable)
        binding = BindingDefinition(source_name, name, key, durable, arguments, vhost, kind)
        if source is None or destination is None:
            self.plan.passed_over.append(binding)
            return
        source.check_binding(key, arguments)
        if isinstance(destination, QueueDefinition) and destination.exclusive:
            self.plan.passed_over.append(binding)
        elif tables.add_binding(source, binding, destination, self._limits.topic_costly_words_max):
            self._add(vhost, AddBinding(binding))


# --- Fields. Each raises ValueError for a person.


def _there(item: Item, name: str) -> Any:
    if name not in item:
        raise ValueError(f"it has no '{name}'")
    return item[name]


def _check_texts(item: Item) -> None:
    """JSON may write half of a surrogate pair, which nothing that is UTF-8 can have."""
    try:
        json.dumps(item, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("a text in it is not UTF-8") from None


def _text(item: Item, name: str) -> str:
    value = _there(item, name)
    if not isinstance(value, str):
        raise ValueError(f"'{name}' must be a string")
    return value


def _resource_name(item: Item, name: str) -> str:
    """A name, or a routing key, that AMQP can have on the wire."""
    value = _text(item, name)
    try:
        size = len(value.encode())
    except UnicodeEncodeError:
        raise ValueError(f"'{name}' is not UTF-8") from None
    if size > SHORT_STRING_BYTES_MAX:
        raise ValueError(f"'{name}' has more than {SHORT_STRING_BYTES_MAX} bytes")
    return value


def _flag(item: Item, name: str, *, is_needed: bool = True) -> bool:
    value = item.get(name, None if is_needed else False)
    if not isinstance(value, bool):
        raise ValueError(f"'{name}' must be true or false")
    return value


def _arguments(item: Item) -> Table:
    table = table_of_json(item.get("arguments"))
    if table:
        # What AMQP's tables cannot have, a name that is too long.
        encode_table(table)
    return table


def _metadata(item: Item, before: VhostMetadata) -> VhostMetadata:
    """As it was before, but for what the item names; from RabbitMQ 3.11 on it is an object."""
    inner = item.get("metadata")
    given: Mapping[str, Any] = {**item, **(inner if isinstance(inner, dict) else {})}
    changed: dict[str, Any] = {}
    if given.get("description") is not None:
        changed["description"] = _text(given, "description")
    if given.get("tags") is not None:
        changed["tags"] = tuple(tags_from(given["tags"]))
    if given.get("default_queue_type") is not None:
        queue_type = _text(given, "default_queue_type")
        changed["default_queue_type"] = "" if queue_type == "undefined" else queue_type
    return before._replace(**changed)


def _is_before_3_6(version: str) -> bool:
    major, _, rest = version.partition(".")
    minor = rest.partition(".")[0]
    if not (major.isdecimal() and minor.isdecimal()):
        return False
    return (int(major), int(minor)) < (3, 6)
