"""One request to the API, its answer, and a row of the table of resources.

A row (`Action`) is a method of a path, with the tag that its user needs. Tags include each other as
RabbitMQ's do: an administrator may do all, policymaker and monitoring all that management may.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final, NamedTuple

from ..actors.node_context import NodeContext
from ..core.json_depth import check_depth
from ..core.statistics.history import Range
from ..core.users.access import Access
from ..core.users.accounts import User
from .about import About
from .prometheus.texts import MetricTexts
from .snapshots import Snapshots
from .statistics import Ranges, Statistics
from .text import decoded

JSON: Final = "application/json"


class ApiError(Exception):
    """A request that cannot be carried out: its status and RabbitMQ's two words for it.

    `error` is the kind; `reason` is for the person who asked.
    """

    def __init__(
        self,
        status: int,
        error: str,
        reason: object,
        headers: Mapping[str, str] | None = None,
        logged_reason: str = "",
    ) -> None:
        """`logged_reason` is for the log, where that may say more than the client may know."""
        super().__init__(str(reason))
        self.status = status
        self.error = error
        self.reason = reason
        self.headers = {} if headers is None else headers
        self.logged_reason = logged_reason or str(reason)


def not_found() -> ApiError:
    """404, in RabbitMQ's words."""
    return ApiError(404, "Object Not Found", "Not Found")


def bad_request(reason: object) -> ApiError:
    """400."""
    return ApiError(400, "bad_request", reason)


def not_authorised(reason: str) -> ApiError:
    """401: the user is known, and may not do this."""
    return ApiError(401, "not_authorised", reason)


def flag(given: dict[str, Any], name: str, default: bool = False) -> bool:
    """A truth value of the body, which RabbitMQ's clients send as text, too; 400."""
    value = given.get(name, default)
    if isinstance(value, bool):
        return value
    if value in ("true", "false"):
        return bool(value == "true")
    raise bad_request(["not_boolean", value])


class Tag(Enum):
    """What a row asks of its user: RabbitMQ's tags, or less."""

    # Not even a login.
    NONE = "none"
    # None either, where the setting `http_health_without_password` has it so.
    NONE_FOR_HEALTH = "health"
    # The same, by the setting `prometheus_without_password`; with a login, that of a monitor.
    NONE_FOR_METRICS = "metrics"
    # A login.
    ANY = "any"
    MANAGEMENT = "management"
    POLICYMAKER = "policymaker"
    MONITORING = "monitoring"
    ADMINISTRATOR = "administrator"


_DIGITS_MAX: Final = 9

# Which tags of a user a row's tag is satisfied by, and what RabbitMQ says of a user without any.
_MONITORS: Final = (frozenset({"monitoring", "administrator"}), "Not monitor user")
TAGS: Final[dict[Tag, tuple[frozenset[str], str]]] = {
    Tag.MANAGEMENT: (
        frozenset({"management", "policymaker", "monitoring", "administrator"}),
        "Not management user",
    ),
    Tag.POLICYMAKER: (
        frozenset({"policymaker", "administrator"}),
        "User not authorised to access object",
    ),
    Tag.MONITORING: _MONITORS,
    Tag.NONE_FOR_METRICS: _MONITORS,
    Tag.ADMINISTRATOR: (frozenset({"administrator"}), "Not administrator user"),
}


def refusal_of(tags: Collection[str], needed: Tag) -> str:
    """Why these tags of a user are not enough, in RabbitMQ's words; "" if they are.

    RabbitMQ asks for the least tag first.
    """
    for each in (Tag.MANAGEMENT, needed):
        if needed in TAGS and not has_tag(tags, each):
            return TAGS[each][1]
    return ""


def has_tag(tags: Collection[str], needed: Tag) -> bool:
    """Whether one of the user's tags is enough."""
    return needed not in TAGS or not TAGS[needed][0].isdisjoint(tags)


@dataclass(slots=True)
class Request:
    """What an action gets: the node's state, and what the client asked.

    `names` are the parts of the path that the row has in braces, decoded; `query` is the last value
    of each parameter, `queries` are all of them. `peer_host` is the client's address.
    """

    context: NodeContext
    about: About
    statistics: Statistics
    snapshots: Snapshots
    metrics: MetricTexts
    user: User
    method: str
    names: Mapping[str, str]
    query: Mapping[str, str]
    queries: Sequence[tuple[str, str]]
    body: bytes
    reason: str = ""
    peer_host: str = ""
    content_type: str = ""

    def json(self, *needed: str) -> dict[str, Any]:
        """The body, a JSON object that has these keys; none is an empty one.

        400 in RabbitMQ's words.
        """
        try:
            found = decoded(self.body) if self.body else {}
            check_depth(found)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise bad_request("not_json")
        missing = [f"{{key_missing,{key}}}" for key in needed if key not in found]
        if missing:
            raise bad_request(f"[{','.join(missing)}]")
        return found

    def check_node(self) -> None:
        """404 if the path names another node than this one."""
        if self.names.get("node", self.about.node_name) != self.about.node_name:
            raise not_found()

    def ranges(self) -> Ranges:
        """The samples that the request's parameters name; 400 for ranges that cannot be.

        As in RabbitMQ a range that is not two whole numbers counts as none.
        """
        found = []
        for names in zip(RANGES[::2], RANGES[1::2], strict=True):
            texts = tuple(self.query.get(name, "") for name in names)
            wanted = Range(*map(int, texts)) if all(map(_is_number, texts)) else None
            if wanted is not None and not wanted.is_valid():
                raise bad_request(f"Invalid range parameters: age {wanted[0]}, incr {wanted[1]}")
            found.append(wanted)
        return Ranges(*found)

    def has_tag(self, needed: Tag) -> bool:
        """Whether the user has a tag that includes this one."""
        return has_tag(self.user.tags, needed)

    def is_monitor(self) -> bool:
        """May the user see the connections of all others, and that all vhosts are there?"""
        return has_tag(self.user.tags, Tag.MONITORING)

    def may_see(self, vhost: str) -> bool:
        """May the user see the vhost's queues and exchanges?"""
        is_administrator = has_tag(self.user.tags, Tag.ADMINISTRATOR)
        return is_administrator or (self.user.name, vhost) in self.context.accounts.permissions

    def may_monitor(self, vhost: str) -> bool:
        """May the user see that the vhost is there, and its limits?"""
        return self.is_monitor() or self.may_see(vhost)

    def access(self) -> Access:
        """The user's permissions in the path's vhost, which is there."""
        topology = self.context.vhosts[self.names["vhost"]]
        return Access(self.context.accounts, self.user.name, topology)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= _DIGITS_MAX


class Answer(NamedTuple):
    """A status with headers and a body; `content` is what JSON can hold, or JSON text as bytes or
    a Body, or None for no body."""

    status: int = 200
    content: object = None
    headers: Mapping[str, str] = {}


class VhostRule(Enum):
    """Who may use a row with a vhost in its path."""

    # Administrators, and users that may open it. Actions by AMQP need AMQP's
    # permissions besides, from administrators, too.
    VISIBLE = "visible"
    # Monitors besides.
    MONITORED = "monitored"
    # All users with the tag: the vhost may be yet to be made.
    ANY = "any"


class Action(NamedTuple):
    """One method of a path.

    `answer` returns what to answer with, or raises ApiError. A vhost in the path must be there
    (404), and `vhost` says who may use it (401). `name` is for the log.
    """

    method: str
    path: str
    name: str
    answer: Callable[[Request], Awaitable[Answer]]
    tag: Tag = Tag.MANAGEMENT
    vhost: VhostRule = VhostRule.VISIBLE
    # For the OpenAPI document: the JSON schema of the body, the names of the query's parameters,
    # and whether a POST or PUT is answered with a body.
    body: Mapping[str, object] = {}
    query: tuple[str, ...] = ()
    answers_with_body: bool = False
    # Its body may have `definitions_bytes_max` instead of `http_body_bytes_max`.
    is_definitions: bool = False


# Query parameters of one row, and of lists.
SHOWN: Final = ("columns",)
LISTED: Final = ("columns", "sort", "sort_reverse", "page", "page_size", "name", "use_regex")
# Of samples: how far they reach back, and how far they are apart, of lengths, messages and octets.
RANGES: Final = (
    "lengths_age",
    "lengths_incr",
    "msg_rates_age",
    "msg_rates_incr",
    "data_rates_age",
    "data_rates_incr",
)


def object_with(*required: str, **types: str) -> Mapping[str, object]:
    """The JSON schema of an object whose fields have these types."""
    schema: dict[str, object] = {
        "type": "object",
        "properties": {name: {"type": kind} for name, kind in types.items()},
    }
    if required:
        schema["required"] = list(required)
    return schema
