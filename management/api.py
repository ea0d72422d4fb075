"""From a request to its answer: finds the row, logs the user in, checks what it may, and answers.

Health needs no login where the settings have it so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, NamedTuple

from aiohttp.abc import AbstractMatchInfo
from aiohttp.web import BaseRequest, Response
from aiohttp.web_urldispatcher import UrlDispatcher

from ..actors.node_context import NodeContext
from ..core.connection.peer import is_loopback
from ..core.users.accounts import User
from ..logs.events import CONTROL_REQUEST
from .about import About, HttpLimits, ListLimits, OpenAccess
from .logging_in import Login, WrongLoginError, checked
from .prometheus.asked import Form, Source
from .prometheus.texts import MetricTexts
from .request import (
    Action,
    Answer,
    ApiError,
    Request,
    Tag,
    VhostRule,
    not_authorised,
    not_found,
    refusal_of,
)
from .sampler import Samples
from .snapshots import Snapshots
from .statistics import Statistics

# RabbitMQ's: browsers and libraries key their stored passwords by it.
CHALLENGE: Final = {"www-authenticate": 'Basic realm="RabbitMQ Management"'}
_NO_USER: Final = User("", "")


class Figures:
    """The node's state, and its samples, as all its listeners show them."""

    def __init__(
        self,
        context: NodeContext,
        about: About,
        samples: Samples,
        lists: ListLimits,
        *,
        per_object: bool,
    ) -> None:
        """`per_object`: the setting `prometheus_per_object` is on."""
        self.context = context
        self.about = about
        self.pace = samples.pace
        self.statistics = Statistics(context, samples.sampling)
        self.snapshots = Snapshots(self.pace, lists)
        form = Form.PER_OBJECT if per_object else Form.AGGREGATED
        source = Source(context, about, self.statistics, samples.lag_seconds)
        self.metrics = MetricTexts(source, self.snapshots, form)


class Found(NamedTuple):
    """A row of the table, and the names in the path."""

    action: Action
    names: Mapping[str, str]


class Api:
    """The resources of one listener; it keeps nothing of a request. A `Site` (server.py)."""

    def __init__(
        self,
        figures: Figures,
        access: OpenAccess,
        limits: HttpLimits,
        actions: Iterable[Action],
    ) -> None:
        self.pace = figures.pace
        self._context = figures.context
        self._figures = figures
        self._limits = limits
        # Who needs no password for rows with these tags.
        self._open_to = {
            Tag.NONE_FOR_HEALTH: access.health_without_password,
            Tag.NONE_FOR_METRICS: access.metrics_without_password,
        }
        self._router = UrlDispatcher()
        self._rows: dict[tuple[str, str], Action] = {}
        for action in actions:
            self._router.add_route(action.method, _with_all_names(action.path), _never_called)
            self._rows[action.method, action.path] = action

    async def find(self, request: BaseRequest) -> Found:
        """The row for the request; one that says 404 or 405 if there is none."""
        method = "GET" if request.method == "HEAD" else request.method
        path = request.rel_url
        if path.raw_path.endswith("/") and path.raw_path != "/":
            path = path.with_path(path.raw_path.rstrip("/"), encoded=True)
        wanted = request.clone(method=method, rel_url=path)
        # It looks at nothing that only its own requests have.
        match: AbstractMatchInfo = await self._router.resolve(wanted)  # type: ignore[arg-type]
        if match.http_exception is not None:
            allowed = getattr(match.http_exception, "allowed_methods", None)
            return Found(_not_there(allowed, request.method), {})
        resource = match.route.resource  # type: ignore[attr-defined]
        return Found(self._rows[method, resource.canonical], dict(match))  # type: ignore[call-overload]

    async def log_in(self, found: Found, login: Login | None, host: str) -> User:
        """The user that asks; ApiError 401 if the password is wrong or the tag is missing."""
        tag = found.action.tag
        if tag is Tag.NONE or self._is_open_to(host, self._open_to.get(tag, "never")):
            return _NO_USER
        if login is None:
            raise ApiError(401, "not_authorized", "Login failed", CHALLENGE)
        try:
            user = await checked(self._context, login, host)
        except WrongLoginError as wrong:
            raise ApiError(401, "not_authorized", "Login failed", CHALLENGE, str(wrong)) from None
        refusal = refusal_of(user.tags, tag)
        if refusal:
            raise not_authorised(refusal)
        return user

    @staticmethod
    def _is_open_to(host: str, whom: str) -> bool:
        return whom == "everywhere" or (whom == "loopback" and is_loopback(host))

    def body_bytes_max(self, found: Found) -> int:
        """The largest body that this row reads."""
        limits = self._limits
        if found.action.is_definitions:
            return limits.definitions_bytes_max
        return limits.body_bytes_max

    def too_large(self, found: Found) -> ApiError:
        """413."""
        is_definitions = found.action.is_definitions
        setting = "definitions_bytes_max" if is_definitions else "http_body_bytes_max"
        text = f"a request's body has at most {self.body_bytes_max(found)} bytes ({setting})"
        return ApiError(413, "bad_request", text)

    def refusal(self, fault: ApiError, *, is_known: bool) -> Answer:
        """RabbitMQ's two words, where it says any."""
        content: object = {"error": fault.error, "reason": fault.reason}
        if fault.status == 405 or (fault.status == 401 and not is_known):
            content = None
        return Answer(fault.status, content, fault.headers)

    async def answer(
        self, found: Found, user: User, request: BaseRequest, body: bytes, host: str
    ) -> Answer:
        """Carry it out; ApiError if it cannot be."""
        action, names = found
        asked = Request(
            context=self._context,
            about=self._figures.about,
            statistics=self._figures.statistics,
            snapshots=self._figures.snapshots,
            metrics=self._figures.metrics,
            user=user,
            method=request.method,
            names=names,
            query=dict(request.query),
            queries=tuple(request.query.items()),
            body=body,
            reason=request.headers.get("x-reason", ""),
            peer_host=host,
            content_type=request.headers.get("content-type", ""),
        )
        self._check_vhost(action, asked)
        if action.method != "GET":
            log = self._context.runtime.log
            log.info(CONTROL_REQUEST, request=action.name, **{"user": user.name, **names})
        else:
            await self._figures.statistics.collect(self.pace)
            await self.pace.turn()
        return await action.answer(asked)

    def _check_vhost(self, action: Action, request: Request) -> None:
        vhost = request.names.get("vhost")
        if vhost is None or action.vhost is VhostRule.ANY:
            return
        if vhost not in self._context.accounts.vhosts:
            if action.method == "PUT":
                raise ApiError(404, "not_found", "vhost_not_found")
            raise not_found()
        is_monitored = action.vhost is VhostRule.MONITORED
        if not (request.may_monitor(vhost) if is_monitored else request.may_see(vhost)):
            what = "object" if action.tag is Tag.POLICYMAKER else "virtual host"
            raise not_authorised(f"User not authorised to access {what}")


def _with_all_names(path: str) -> str:
    """The dispatcher's own names have no braces; those of queues and users may have."""
    return path.replace("}", ":[^/]+}")


async def _never_called(_request: BaseRequest) -> Response:
    """The dispatcher asks for a handler; the table has the one that counts."""
    raise AssertionError


def _not_there(methods: Collection[str] | None, method: str) -> Action:
    """A row for a path or method that is in no table: without a login nobody learns that."""

    async def answer(_request: Request) -> Answer:
        if methods is None:
            raise not_found()
        allowed = ", ".join([*(["HEAD"] if "GET" in methods else []), *sorted(methods), "OPTIONS"])
        if method == "OPTIONS":
            return Answer(200, None, {"allow": allowed})
        raise ApiError(405, "method_not_allowed", f"it has {allowed}", {"allow": allowed})

    return Action("GET", "", "nothing", answer, Tag.ANY)
