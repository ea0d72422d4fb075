"""A row of the table of calls, one request for it, and nsqd's answers.

Statuses, bodies and words are nsqd's (nsqd/http.go, internal/http_api of 1.3.0). Where the broker
has a reason that nsqd cannot have, the answer has it as `reason` beside nsqd's `message`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from ...actors.node_context import NodeContext
from ...actors.nsq.settings import NsqSettings
from ...core.users.access import Access
from ...core.users.accounts import User
from ...nsq_frames.names import is_valid_name
from ..about import About, NsqAddress
from ..pace import Pace
from ..request import Answer, ApiError
from ..text import encoded

JSON: Final = "application/json; charset=utf-8"
TEXT: Final = "text/plain; charset=utf-8"
NSQ_TYPE: Final[Mapping[str, str]] = {"X-NSQ-Content-Type": "nsq; version=1.0"}
# nsqd's and nsqlookupd's: more is no query of theirs.
_PARAMETERS_MAX: Final = 64
_HEXADECIMAL: Final = frozenset(b"0123456789abcdefABCDEF")


class Needs(Enum):
    """The rights that a call needs of its user."""

    # Not even a login.
    NOTHING = "nothing"
    # That the user may open the vhost of NSQ; commands look at permissions besides.
    VHOST = "vhost"
    # That, and the tag "management": it shows what other users do.
    MANAGEMENT = "management"


class Query:
    """The parameters of a request, as Go reads them; the first value of each counts."""

    def __init__(self, text: str) -> None:
        """`text` is what stands behind the "?", as it was sent; 400 INVALID_REQUEST."""
        self._values: dict[str, str] = {}
        for pair in text.split("&", _PARAMETERS_MAX):
            if ";" in pair:
                raise refused(400, "INVALID_REQUEST")
            if pair:
                name, _, value = pair.partition("=")
                self._values.setdefault(_unquoted(name), _unquoted(value))

    def get(self, name: str) -> str | None:
        """The parameter's value; None if it is not there."""
        return self._values.get(name)

    def flag(self, name: str, default: bool) -> bool:
        """A parameter that is "true" or "1", "false" or "0", or the default."""
        return {"true": True, "1": True, "false": False, "0": False}.get(
            self._values.get(name, ""), default
        )


def _unquoted(text: str) -> str:
    octets = text.encode("utf-8", "surrogateescape").replace(b"+", b" ")
    for escape in octets.split(b"%")[1:]:
        if len(escape) < 2 or not _HEXADECIMAL.issuperset(escape[:2]):
            raise refused(400, "INVALID_REQUEST")
    return unquote_to_bytes(octets).decode("utf-8", "surrogateescape")


@dataclass(slots=True)
class NsqRequest:
    """The arguments of a call. `access` is the user's in the vhost of NSQ."""

    context: NodeContext
    settings: NsqSettings
    about: About
    address: NsqAddress
    pace: Pace
    user: User
    query_text: str
    body: bytes
    peer_host: str

    def query(self) -> Query:
        """The parameters; 400."""
        return Query(self.query_text)

    def access(self) -> Access:
        """What the user may, in the vhost of NSQ."""
        topology = self.context.vhosts[self.settings.vhost]
        return Access(self.context.accounts, self.user.name, topology)


def topic_of(query: Query, invalid: str = "INVALID_TOPIC") -> str:
    """The topic that the request names; 400."""
    topic = query.get("topic")
    if topic is None:
        raise refused(400, "MISSING_ARG_TOPIC")
    if not is_valid(topic):
        raise refused(400, invalid)
    return topic


def channel_of(query: Query) -> tuple[str, str]:
    """The topic and the channel that the request names; 400."""
    topic = topic_of(query, "INVALID_ARG_TOPIC")
    channel = query.get("channel")
    if channel is None:
        raise refused(400, "MISSING_ARG_CHANNEL")
    if not is_valid(channel):
        raise refused(400, "INVALID_ARG_CHANNEL")
    return topic, channel


def is_valid(name: str) -> bool:
    """May a topic or a channel be called so?"""
    return is_valid_name(name.encode("utf-8", "surrogateescape"))


class Call(NamedTuple):
    """A method of a path. `body_bytes_max` of None: the body is not looked at.

    A larger one is refused with 413 and the word `too_large`.
    """

    method: str
    path: str
    answer: Callable[[NsqRequest], Awaitable[Answer]]
    needs: Needs
    body_bytes_max: Callable[[NsqSettings], int] | None = None
    too_large: str = "BODY_TOO_BIG"


def refused(status: int, message: str, reason: str = "") -> ApiError:
    """The call fails with nsqd's word for it; `reason` is ours."""
    return ApiError(status, message, reason, logged_reason=reason or message)


def text_answer(text: str, headers: Mapping[str, str] = NSQ_TYPE) -> Answer:
    """200 and text."""
    return Answer(200, text.encode(), {**headers, "content-type": TEXT})


def json_answer(content: object, status: int = 200) -> Answer:
    """JSON, its fields in their order."""
    return Answer(status, encoded(content), {**NSQ_TYPE, "content-type": JSON})


def done() -> Answer:
    """200 and nothing."""
    return Answer(200, None, NSQ_TYPE)
