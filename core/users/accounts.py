"""Who may do what: users, vhosts, the permissions of a user in a vhost, and runtime parameters.

As with topology, a change goes in three steps: `prepare_...` checks it and gives the changes, or
raises AccountError for who asked; the caller commits them to the catalog; `apply` makes them. The
broker's actor alone changes accounts; all others read them.

The rows of users, vhosts and permissions for reports never contain a password or its hash.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, NamedTuple

from ...amqp_frames.constants import NOT_ALLOWED
from ...amqp_frames.methods import ConnectionOpen
from ..parameters.limits import LimitsError, check_user_limits, check_vhost_limits
from ..parameters.parameters import (
    NODE_WIDE,
    OPERATOR_POLICY,
    POLICY,
    VHOST_LIMITS,
    Json,
    Parameter,
    ParameterChange,
    Parameters,
    PutParameter,
    RemoveParameter,
)
from ..patterns import PatternError, check_pattern
from ..policies.policy import PolicyError, checked_policy, policy_value
from .login_results import NO_SUCH_VHOST, NOT_PERMITTED, RefusedError
from .password_hash import check_password_hash

DEFAULT_VHOST: Final = "/"
ADMINISTRATOR: Final = "administrator"
# Its publishes may say any user_id.
IMPERSONATOR: Final = "impersonator"
# As a short string on the wire.
_NAME_BYTES_MAX: Final = 255
_TAGS_MAX: Final = 32
_DESCRIPTION_CHARACTERS_MAX: Final = 4096
# RabbitMQ's queue types that a vhost may have as its default.
_QUEUE_TYPES: Final = ("classic", "quorum")


class User(NamedTuple):
    """A user. `tags` say what a management interface lets it do; AMQP asks for IMPERSONATOR."""

    name: str
    password_hash: str
    tags: tuple[str, ...] = ()
    # As they were set; core/parameters/limits.py reads them.
    limits: Mapping[str, int] = MappingProxyType({})


class VhostMetadata(NamedTuple):
    """A vhost besides its contents, for management; broker and channels heed the last two.

    `default_queue_type`: of queues that are declared without one; empty: classic.
    """

    description: str = ""
    tags: tuple[str, ...] = ()
    default_queue_type: str = ""
    is_traced: bool = False


_NO_METADATA: Final = VhostMetadata()


class Permission(NamedTuple):
    """A user's permissions in a vhost: three regular expressions over names of resources."""

    user: str
    vhost: str
    configure: str
    write: str
    read: str


class TopicPermission(NamedTuple):
    """A user's permissions on one topic exchange: two regular expressions over routing keys."""

    user: str
    vhost: str
    exchange: str
    write: str
    read: str


class PutUser(NamedTuple):
    """The user is new, or has changed."""

    user: User


class RemoveUser(NamedTuple):
    """The user goes, with its permissions."""

    name: str


class AddVhost(NamedTuple):
    """The vhost is new."""

    name: str
    metadata: VhostMetadata = _NO_METADATA


class ChangeVhost(NamedTuple):
    """The vhost has other metadata from now on."""

    name: str
    metadata: VhostMetadata


class RemoveVhost(NamedTuple):
    """The vhost goes, with the permissions and parameters in it."""

    name: str


class PutPermission(NamedTuple):
    """The permission is new, or has changed."""

    permission: Permission


class RemovePermission(NamedTuple):
    """The user may not use the vhost any more."""

    user: str
    vhost: str


class PutTopicPermission(NamedTuple):
    """The topic permission is new, or has changed."""

    permission: TopicPermission


class RemoveTopicPermission(NamedTuple):
    """The topic permission goes."""

    user: str
    vhost: str
    exchange: str


AccountChange = (
    PutUser
    | RemoveUser
    | AddVhost
    | ChangeVhost
    | RemoveVhost
    | PutPermission
    | RemovePermission
    | PutTopicPermission
    | RemoveTopicPermission
    | ParameterChange
)
AccountChanges = tuple[AccountChange, ...]


class AccountError(Exception):
    """The request cannot be carried out; the text is for the person who asked."""


class MissingError(AccountError):
    """The request names something that is not there."""


@dataclass(slots=True)
class Accounts:
    """All of a node's. `version` goes up with every change, so that answers may be kept till then.

    Vhosts are in the order in which they were added.
    """

    users: dict[str, User] = field(default_factory=dict)
    vhosts: dict[str, VhostMetadata] = field(default_factory=dict)
    permissions: dict[tuple[str, str], Permission] = field(default_factory=dict)
    # By user and vhost, then by exchange.
    topic_permissions: dict[tuple[str, str], dict[str, TopicPermission]] = field(
        default_factory=dict
    )
    parameters: Parameters = field(default_factory=Parameters)
    version: int = 0

    def apply(self, changes: Iterable[AccountChange]) -> None:
        """Make changes that are committed."""
        self.version += 1
        for change in changes:
            match change:
                case PutUser(user):
                    self.users[user.name] = user
                case RemoveUser(name):
                    del self.users[name]
                    self._keep_permissions(lambda user, _: user != name)
                case AddVhost(name, metadata) | ChangeVhost(name, metadata):
                    self.vhosts[name] = metadata
                case RemoveVhost(name):
                    del self.vhosts[name]
                    self._keep_permissions(lambda _, vhost: vhost != name)
                    self.parameters.remove_vhost(name)
                case PutPermission(permission):
                    self.permissions[permission.user, permission.vhost] = permission
                case RemovePermission(user, vhost):
                    del self.permissions[user, vhost]
                case PutTopicPermission(topic):
                    of_user = self.topic_permissions.setdefault((topic.user, topic.vhost), {})
                    of_user[topic.exchange] = topic
                case RemoveTopicPermission(user, vhost, exchange):
                    del self.topic_permissions[user, vhost][exchange]
                    if not self.topic_permissions[user, vhost]:
                        del self.topic_permissions[user, vhost]
                case PutParameter() | RemoveParameter():
                    self.parameters.apply(change)

    def _keep_permissions(self, is_kept: Callable[[str, str], bool]) -> None:
        self.permissions = {key: each for key, each in self.permissions.items() if is_kept(*key)}
        self.topic_permissions = {
            key: each for key, each in self.topic_permissions.items() if is_kept(*key)
        }

    # --- Users.

    def prepare_add_user(
        self, name: str, password_hash: str, tags: Iterable[str]
    ) -> AccountChanges:
        """A new user, who may use no vhost yet."""
        _check_name("user name", name)
        if name in self.users:
            raise AccountError(f"user '{name}' exists already")
        _check_hash(password_hash)
        return (PutUser(User(name, password_hash, _checked_tags(tags))),)

    def prepare_change_password(self, name: str, password_hash: str) -> AccountChanges:
        """Another password; connections that are open stay open."""
        _check_hash(password_hash)
        return (PutUser(self.user(name)._replace(password_hash=password_hash)),)

    def prepare_replace_hash(self, name: str, before: str, password_hash: str) -> AccountChanges:
        """Another hash of the same password; nothing if that has changed meanwhile."""
        user = self.users.get(name)
        if user is None or user.password_hash != before:
            return ()
        return self.prepare_change_password(name, password_hash)

    def prepare_set_tags(self, name: str, tags: Iterable[str]) -> AccountChanges:
        """These tags instead of those it had."""
        return (PutUser(self.user(name)._replace(tags=_checked_tags(tags))),)

    def prepare_set_user_limits(self, name: str, limits: Json) -> AccountChanges:
        """These limits instead of those it had; connections and channels that are open stay."""
        try:
            checked = check_user_limits(limits)
        except LimitsError as fault:
            raise AccountError(str(fault)) from None
        return (PutUser(self.user(name)._replace(limits=checked)),)

    def prepare_delete_user(self, name: str) -> AccountChanges:
        """The user and its permissions go."""
        return (RemoveUser(self.user(name).name),)

    # --- Vhosts.

    def prepare_add_vhost(
        self, name: str, metadata: VhostMetadata = _NO_METADATA
    ) -> AccountChanges:
        """A new vhost, which no user may use yet."""
        _check_name("vhost name", name)
        if name in self.vhosts:
            raise AccountError(f"vhost '{name}' exists already")
        return (AddVhost(name, _checked_metadata(metadata)),)

    def prepare_change_vhost(self, name: str, metadata: VhostMetadata) -> AccountChanges:
        """Other metadata instead of those it had."""
        self.check_vhost(name)
        return (ChangeVhost(name, _checked_metadata(metadata)),)

    def prepare_delete_vhost(self, name: str) -> AccountChanges:
        """The vhost goes with all its contents."""
        self.check_vhost(name)
        return (RemoveVhost(name),)

    # --- Permissions.

    def prepare_set_permission(self, permission: Permission) -> AccountChanges:
        """These patterns instead of those the user had in the vhost, if any."""
        self.user(permission.user)
        self.check_vhost(permission.vhost)
        _check_patterns(permission.configure, permission.write, permission.read)
        return (PutPermission(permission),)

    def prepare_clear_permission(self, user: str, vhost: str) -> AccountChanges:
        """The user may not open the vhost any more; no permission is no error, as in RabbitMQ."""
        self.user(user)
        self.check_vhost(vhost)
        if (user, vhost) not in self.permissions:
            return ()
        return (RemovePermission(user, vhost),)

    def prepare_set_topic_permission(self, permission: TopicPermission) -> AccountChanges:
        """These patterns for the exchange, which need not be there, instead of those it had."""
        self.user(permission.user)
        self.check_vhost(permission.vhost)
        _check_patterns(permission.write, permission.read)
        try:
            size = len(permission.exchange.encode())
        except UnicodeEncodeError:
            raise AccountError("the name of an exchange is not UTF-8") from None
        if size > _NAME_BYTES_MAX:
            raise AccountError(f"the name of an exchange has at most {_NAME_BYTES_MAX} bytes")
        return (PutTopicPermission(permission),)

    def prepare_clear_topic_permissions(
        self, user: str, vhost: str, exchange: str | None = None
    ) -> AccountChanges:
        """The user's routing keys on that exchange, or on all, are free again."""
        self.user(user)
        self.check_vhost(vhost)
        exchanges = self.topic_permissions.get((user, vhost), {})
        return tuple(
            RemoveTopicPermission(user, vhost, each)
            for each in exchanges
            if exchange in (None, each)
        )

    # --- Parameters.

    def prepare_set_parameter(
        self, component: str, vhost: str, name: str, value: Json
    ) -> AccountChanges:
        """This value instead of the one it had, if any."""
        self.check_vhost(vhost)
        if component in (POLICY, OPERATOR_POLICY):
            raise AccountError("policies may not be set using this method")
        if component != VHOST_LIMITS:
            raise AccountError(f"Validation failed\n\ncomponent {component} not found\n")
        _check_name("parameter name", name)
        try:
            limits = check_vhost_limits(value)
        except LimitsError as fault:
            raise AccountError(f"Validation failed\n\n{fault}\n") from None
        return (PutParameter(Parameter(component, vhost, name, limits)),)

    def prepare_set_policy(
        self, vhost: str, name: str, given: Mapping[str, Json], *, is_operators: bool
    ) -> AccountChanges:
        """This policy, or operator policy, in place of any policy with its name."""
        self.check_vhost(vhost)
        _check_name("policy name", name)
        try:
            policy = checked_policy(vhost, name, given, is_operators=is_operators)
        except PolicyError as fault:
            raise AccountError(str(fault)) from None
        component = OPERATOR_POLICY if is_operators else POLICY
        return (PutParameter(Parameter(component, vhost, name, policy_value(policy))),)

    def prepare_set_global_parameter(self, name: str, value: Json) -> AccountChanges:
        """This value, any JSON, instead of the one it had, if any."""
        _check_name("parameter name", name)
        return (PutParameter(Parameter(NODE_WIDE, NODE_WIDE, name, value)),)

    def prepare_clear_parameter(self, component: str, vhost: str, name: str) -> AccountChanges:
        """The parameter goes; a global one if component and vhost are NODE_WIDE."""
        if self.parameters.find(component, vhost, name) is None:
            raise MissingError(f"there is no parameter '{name}' of component '{component}'")
        return (RemoveParameter(component, vhost, name),)

    def check_open(self, user: str, vhost: str) -> None:
        """530 if the vhost is not there, or the user has no permission in it, were it an empty one.

        connection.open is the culprit of both.
        """
        if vhost not in self.vhosts:
            reason, text = NO_SUCH_VHOST, f"vhost {vhost} not found"
        elif (user, vhost) not in self.permissions:
            reason, text = NOT_PERMITTED, f"access to vhost '{vhost}' refused for user '{user}'"
        else:
            return
        ids = ConnectionOpen.class_id, ConnectionOpen.method_id
        raise RefusedError(reason, NOT_ALLOWED, text, *ids)

    def user(self, name: str) -> User:
        """The user; MissingError if there is none."""
        user = self.users.get(name)
        if user is None:
            raise MissingError(f"there is no user '{name}'")
        return user

    def check_vhost(self, name: str) -> None:
        """MissingError unless there is the vhost."""
        if name not in self.vhosts:
            raise MissingError(f"there is no vhost '{name}'")


def default_accounts(user: str, password_hash: str) -> AccountChanges:
    """The accounts of a new node: one vhost, and one user who may do everything in it."""
    return (
        AddVhost(DEFAULT_VHOST),
        PutUser(User(user, password_hash, (ADMINISTRATOR,))),
        PutPermission(Permission(user, DEFAULT_VHOST, ".*", ".*", ".*")),
    )


def _check_name(what: str, name: str) -> None:
    if not name:
        raise AccountError(f"a {what} must not be empty")
    if not name.isprintable():
        # It is shown in tables and in the log. Surrogates are not printable either.
        raise AccountError(f"a {what} has printable characters only")
    if len(name.encode()) > _NAME_BYTES_MAX:
        raise AccountError(f"a {what} has at most {_NAME_BYTES_MAX} bytes")


def _check_hash(password_hash: str) -> None:
    try:
        check_password_hash(password_hash)
    except ValueError as fault:
        raise AccountError(str(fault)) from None


def _check_patterns(*patterns: str) -> None:
    for pattern in patterns:
        try:
            check_pattern(pattern)
        except PatternError as fault:
            raise AccountError(str(fault)) from None


def _checked_metadata(metadata: VhostMetadata) -> VhostMetadata:
    if len(metadata.description) > _DESCRIPTION_CHARACTERS_MAX:
        raise AccountError(f"a description has at most {_DESCRIPTION_CHARACTERS_MAX} characters")
    if metadata.default_queue_type not in ("", *_QUEUE_TYPES):
        raise AccountError(f"unsupported queue type '{metadata.default_queue_type}'")
    return metadata._replace(tags=_checked_tags(metadata.tags))


def tags_from(given: object) -> list[str]:
    """Tags as a list, or as one text with commas: RabbitMQ's clients send both; ValueError.

    Spaces at their ends and empty tags are left out.
    """
    if isinstance(given, str):
        given = given.split(",")
    if not isinstance(given, list) or not all(isinstance(each, str) for each in given):
        raise ValueError("tags must be strings")
    return [each.strip() for each in given if each.strip()]


def _checked_tags(tags: Iterable[str]) -> tuple[str, ...]:
    kept = tuple(dict.fromkeys(tags))
    if len(kept) > _TAGS_MAX:
        raise AccountError(f"there may be at most {_TAGS_MAX} tags")
    for tag in kept:
        _check_name("tag", tag)
        if "," in tag:
            # The catalog keeps a user's tags as one text with commas.
            raise AccountError(f"tag '{tag}' has a comma in it")
    return kept


Row = dict[str, object]


def _users(accounts: Accounts) -> list[Row]:
    return [{"user": user.name, "tags": list(user.tags)} for user in accounts.users.values()]


def _vhosts(accounts: Accounts) -> list[Row]:
    return [{"vhost": name} for name in accounts.vhosts]


def _permissions(accounts: Accounts) -> list[Row]:
    return [permission._asdict() for permission in accounts.permissions.values()]


ACCOUNT_LISTS: Final[dict[str, Callable[[Accounts], list[Row]]]] = {
    "user list": _users,
    "vhost list": _vhosts,
    "permissions list": _permissions,
}
