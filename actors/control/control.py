"""The control socket: how the command line asks a running broker, in JSON lines.

    {"request": "user delete", "arguments": {"user": "ann"}}
    {"result": null}      or      {"error": "there is no user 'ann'"}

Who may open the socket's file may ask anything; it lies in the data directory, and is the owner's
alone. A connection asks one thing at a time. Lines, connections and idle time are bounded.
A definitions file goes in parts (`definition_transfer.py`).
"""

from __future__ import annotations

import asyncio
import json
from typing import Any, Final, NamedTuple, cast

from ...core.json_depth import check_depth
from ...core.users.account_requests import REQUESTS
from ...core.users.accounts import ACCOUNT_LISTS
from ...logs.events import CONTROL_REQUEST
from ..messages import (
    AccountRequest,
    ChannelReport,
    ControlAnswer,
    ImportRequest,
    PauseRequest,
    Refused,
    Status,
    Woken,
)
from ..node_context import NodeContext
from ..runtime.runtime import LoopActor, tell
from .arguments import optional_text, text_argument
from .definition_transfer import TRANSFER_REQUESTS, DefinitionSettings, DefinitionTransfer
from .reports import REPORTS, Reporter
from .trace_requests import TRACE_REQUESTS

REQUEST_BYTES_MAX: Final = 65_536
# Requests about a queue: does it pause?
PAUSES: Final = {"queue pause": True, "queue resume": False}


class ControlLimits(NamedTuple):
    """Settings of the control socket."""

    connections_max: int
    # A connection that asks nothing for so long is closed.
    idle_timeout_seconds: float


class Asked(NamedTuple):
    """ControlConnection -> Control: a line."""

    connection: ControlConnection
    line: bytes


class Control(LoopActor):
    """One per node. `about` is what a status says of the process."""

    def __init__(
        self,
        context: NodeContext,
        about: dict[str, object],
        limits: ControlLimits,
        definitions: DefinitionSettings,
    ) -> None:
        super().__init__()
        self.limits = limits
        self._definitions = definitions
        self._context = context
        self._about = about
        self._reporter = Reporter(context, self.actor_ref)
        self.connection_count = 0

    def new_transfer(self) -> DefinitionTransfer:
        """For a new connection."""
        return DefinitionTransfer(self._context, self._definitions)

    def on_receive(self, message: object) -> None:
        """Take a request, or what it was waiting for."""
        if isinstance(message, Asked):
            try:
                self._carry_out(message.connection, *_parsed(message.line))
            except ValueError as fault:
                message.connection.answer({"error": str(fault)})
        elif isinstance(message, ControlAnswer):
            connection = cast("ControlConnection", message.token)
            connection.answer({"error": message.error} if message.error else {"result": None})
        elif isinstance(message, (Status, ChannelReport, Refused, Woken)):
            self._reporter.receive(message)

    def _carry_out(
        self, connection: ControlConnection, name: str, arguments: dict[str, object]
    ) -> None:
        if name in REQUESTS:
            change = AccountRequest(self.actor_ref, connection, name, arguments)
            self._ask_broker(change, name, arguments)
        elif name in PAUSES:
            queue, vhost = text_argument(arguments, "queue"), text_argument(arguments, "vhost")
            request = PauseRequest(self.actor_ref, connection, vhost, queue, PAUSES[name])
            self._ask_broker(request, name, arguments)
        elif name == "definitions import":
            of_vhost = optional_text(arguments, "vhost")
            text = connection.transfer.gathered()
            importing = ImportRequest(self.actor_ref, connection, text, of_vhost)
            self._ask_broker(importing, name, arguments)
        elif name in TRANSFER_REQUESTS:
            result = TRANSFER_REQUESTS[name](connection.transfer, arguments)
            connection.answer({"result": result})
        elif name in ACCOUNT_LISTS:
            connection.answer({"result": ACCOUNT_LISTS[name](self._context.accounts)})
        elif name in TRACE_REQUESTS:
            connection.answer({"result": TRACE_REQUESTS[name](self._context, arguments)})
        elif name == "status":
            connection.answer({"result": self._about | self._reporter.counts()})
        elif name in REPORTS:
            self._reporter.start(name, lambda rows: connection.answer({"result": rows}))
        else:
            raise ValueError(f"there is no request '{name}'")

    def _ask_broker(
        self,
        request: AccountRequest | PauseRequest | ImportRequest,
        name: str,
        arguments: dict[str, object],
    ) -> None:
        self.runtime.log.info(CONTROL_REQUEST, request=name, **_shown(arguments))
        tell(self._context.broker, request)

    def on_failure(self, *exception: Any) -> None:
        """Nobody could look after the broker any more: the node ends."""
        self._context.on_fatal("control", exception[1])


def _parsed(line: bytes) -> tuple[str, dict[str, object]]:
    try:
        request = json.loads(line)
        check_depth(request)
    except (ValueError, RecursionError):
        raise ValueError("not a line of JSON") from None
    if not isinstance(request, dict):
        raise ValueError("not a request")
    name, arguments = request.get("request"), request.get("arguments", {})
    if not isinstance(name, str) or not isinstance(arguments, dict):
        raise ValueError("not a request")
    return name, arguments


def _shown(arguments: dict[str, object]) -> dict[str, object]:
    """The arguments of a request that the log may show."""
    return {name: arguments[name] for name in ("user", "vhost", "queue") if name in arguments}


class ControlConnection(asyncio.Protocol):
    """asyncio's side of one connection to the socket."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self.transfer = control.new_transfer()
        self._transport: asyncio.Transport | None = None
        self._unread = b""
        self._awaits_answer = False
        self._idle: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Somebody has opened the socket."""
        self._transport = cast("asyncio.Transport", transport)
        self._control.connection_count += 1
        if self._control.connection_count > self._control.limits.connections_max:
            self._transport.abort()
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Part of a line, or more than one."""
        assert self._transport is not None
        self._unread += data
        if len(self._unread) > REQUEST_BYTES_MAX:
            self.answer({"error": f"a request has at most {REQUEST_BYTES_MAX} bytes"})
            self._transport.close()
            return
        self._next()

    def _next(self) -> None:
        if not self._awaits_answer and b"\n" in self._unread:
            line, _, self._unread = self._unread.partition(b"\n")
            self._awaits_answer = True
            # The wait is for the broker now: a large definitions file takes minutes.
            if self._idle is not None:
                self._idle.cancel()
            tell(self._control.actor_ref, Asked(self, line))

    def answer(self, answer: dict[str, object]) -> None:
        """Write the answer, and take the next line."""
        self._awaits_answer = False
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(json.dumps(answer).encode() + b"\n")
            self._watch()
            self._next()

    def _watch(self) -> None:
        assert self._transport is not None
        if self._idle is not None:
            self._idle.cancel()
        loop = asyncio.get_running_loop()
        seconds = self._control.limits.idle_timeout_seconds
        self._idle = loop.call_later(seconds, self._transport.abort)

    def connection_lost(self, _error: Exception | None) -> None:
        """Closed, whoever closed it; what it asked for is done all the same."""
        self._control.connection_count -= 1
        if self._idle is not None:
            self._idle.cancel()
