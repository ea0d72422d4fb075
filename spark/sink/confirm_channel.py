"""One connection with one channel in confirm mode, through pika: send, and receive answers.

pika's own loop runs only inside the calls of this class, so there is no thread. What the broker
says is kept as events in its order, for the caller to take: an exception in one of pika's callbacks
would only close its connection.

basic.publish is the one method that does not go through pika's encoder, which costs more than all
the rest: whole runs of frames are encoded by Leveret's codec and handed to the adapter in one
piece, as `pika.connection.Connection` itself does with each frame. Channel state, confirms,
returns, heartbeats and TLS stay pika's.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable
from functools import partial
from struct import Struct
from typing import Any, Final, NamedTuple

import pika
from pika.exceptions import ChannelClosedByBroker

from ...amqp_frames.constants import (
    CLASS_BASIC,
    CONTENT_HEADER_BYTES,
    EMPTY_FRAME_BYTES,
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    FRAME_METHOD,
)
from ..connecting import parameters
from ..errors import is_final, text_of, verdict
from ..options import ConnectionOptions
from ..uri import Address
from .publishes import Publish, Returned

# The connection has no other channel.
CHANNEL: Final = 1
# When a peer sets no limit.
FRAME_BYTES_DEFAULT: Final = 131_072
CLOSE_SECONDS_MAX: Final = 2.0

_frame = Struct(">BHI").pack
_header = Struct(">BHIHHQ").pack
_END: Final = bytes((FRAME_END,))


class Confirm(NamedTuple):
    """basic.ack or basic.nack."""

    is_ack: bool
    tag: int
    multiple: bool


class Return(NamedTuple):
    """basic.return."""

    message: Returned
    code: int
    text: str


class ConnectionLost(Exception):  # noqa: N818 - a thing that happens, not always an error
    """The connection is gone or cannot be; `is_final`: another try would end alike."""

    def __init__(self, text: str, is_final: bool = False) -> None:
        super().__init__(text)
        self.is_final = is_final


class _Connection(pika.SelectConnection):
    """pika's, that also sends frames that are encoded already."""

    def send_encoded(self, frames: bytes) -> None:
        self._adapter_emit_data(frames)
        self.bytes_sent += len(frames)

    def drop(self) -> None:
        """Close the socket of a peer that does not answer the goodbye."""
        if self._transport is not None:
            self._transport.abort()


class ConfirmChannel:
    """Open when it has been made; used by one thread."""

    def __init__(self, options: ConnectionOptions, address: Address, name: str) -> None:
        """`name`: what the broker's operator sees of us. ConnectionLost if it cannot be opened."""
        # It would write every lost connection to the workers' standard error, with a traceback.
        logging.getLogger("pika").setLevel(logging.CRITICAL)
        self._address = address
        self._events: list[Confirm | Return] = []
        self._lost: ConnectionLost | None = None
        self._is_open = False
        # What the broker says if it does not take publishes at the moment.
        self.blocked: str | None = None
        self._channel: Any = None
        self._connection = _Connection(
            parameters(options, address, {"connection_name": name, "product": "leveret-spark"}),
            on_open_callback=self._on_connection_open,
            on_open_error_callback=self._on_connection_lost,
            on_close_callback=self._on_connection_lost,
        )
        self._loop = self._connection.ioloop
        # TCP, handshake, channel: pika's own limits count each of its steps, this one all.
        end = time.monotonic() + options.connect_timeout_ms / 1000
        while not self._is_open and self._lost is None and time.monotonic() < end:
            self._run(end - time.monotonic())
        if not self._is_open:
            lost = self._lost or ConnectionLost(f"{address}: no answer in time")
            self.close()
            raise lost
        self.frame_max: int = self._connection.params.frame_max or FRAME_BYTES_DEFAULT
        self._chunk_bytes_max = self.frame_max - EMPTY_FRAME_BYTES

    def send(self, publishes: Iterable[Publish]) -> None:
        """Hand them to the socket, in this order; they leave while the loop runs."""
        pieces: list[bytes] = []
        most = self._chunk_bytes_max
        for publish in publishes:
            method, properties, body = publish.method, publish.properties, publish.body
            pieces += (
                _frame(FRAME_METHOD, CHANNEL, len(method)),
                method,
                _END,
                _header(
                    FRAME_HEADER,
                    CHANNEL,
                    CONTENT_HEADER_BYTES + len(properties),
                    CLASS_BASIC,
                    0,
                    len(body),
                ),
                properties,
                _END,
            )
            for start in range(0, len(body), most):
                chunk = body if len(body) <= most else body[start : start + most]
                pieces += (_frame(FRAME_BODY, CHANNEL, len(chunk)), chunk, _END)
        if pieces and self._lost is None:
            self._connection.send_encoded(b"".join(pieces))

    def events(self, seconds: float) -> list[Confirm | Return]:
        """The broker's answers so far; if there are none, waits so long for one.

        ConnectionLost when it is gone and all that it had said has been taken.
        """
        if not self._events and self._lost is None:
            self._run(seconds)
        events = self._events
        if not events and self._lost is not None:
            raise self._lost
        self._events = []
        return events

    def close(self) -> None:
        """Say goodbye, if there is anybody."""
        connection = self._connection
        if not (connection.is_closing or connection.is_closed):
            connection.close()
        end = time.monotonic() + CLOSE_SECONDS_MAX
        while not connection.is_closed and time.monotonic() < end:
            self._run(end - time.monotonic())
        if not connection.is_closed:
            connection.drop()
            self._run(0.0)
        self._loop.close()

    def _run(self, seconds: float) -> None:
        """Run pika's loop until something happens, or for so long."""
        # Of a time that has just run out, too little is left.
        timer = self._loop.call_later(max(0.0, seconds), self._loop.stop)
        self._loop.start()
        self._loop.remove_timeout(timer)

    def _on_connection_open(self, connection: Any) -> None:
        connection.add_on_connection_blocked_callback(self._on_blocked)
        connection.add_on_connection_unblocked_callback(self._on_unblocked)
        self._channel = connection.channel(CHANNEL, on_open_callback=self._on_channel_open)
        self._channel.add_on_close_callback(self._on_channel_closed)

    def _on_channel_open(self, channel: Any) -> None:
        channel.add_on_return_callback(self._on_return)
        channel.confirm_delivery(self._on_confirm, callback=self._on_confirm_mode)

    def _on_confirm_mode(self, _frame: Any) -> None:
        self._is_open = True
        self._loop.stop()

    def _on_confirm(self, frame: Any) -> None:
        method = frame.method
        is_ack = method.NAME == "Basic.Ack"
        self._events.append(Confirm(is_ack, method.delivery_tag, method.multiple))
        self._loop.stop()

    def _on_return(self, _channel: Any, method: Any, properties: Any, body: bytes) -> None:
        message = Returned(
            properties.message_id or "",
            method.exchange,
            method.routing_key,
            body,
            partial(_are_equal, properties),
        )
        self._events.append(Return(message, method.reply_code, method.reply_text))
        self._loop.stop()

    def _on_blocked(self, _connection: Any, frame: Any) -> None:
        self.blocked = str(frame.method.reason)

    def _on_unblocked(self, _connection: Any, _frame: Any) -> None:
        self.blocked = None

    def _on_channel_closed(self, _channel: Any, reason: BaseException) -> None:
        # What broke a rule will break it again, such as an exchange that is not there.
        if isinstance(reason, ChannelClosedByBroker) and self._lost is None:
            self._lost = _lost(self._address, reason)
        self._loop.stop()

    def _on_connection_lost(self, _connection: Any, reason: BaseException | str) -> None:
        if self._lost is None:
            self._lost = _lost(self._address, reason)
        self._loop.stop()


def _are_equal(returned: pika.BasicProperties, sent: bytes) -> bool:
    """Whether a message came back with the properties it went out with.

    But for the header BCC, which RabbitMQ takes off.
    """
    decoded = pika.BasicProperties()
    decoded.decode(sent)
    both = []
    for properties in (returned, decoded):
        headers = {name: each for name, each in (properties.headers or {}).items() if name != "BCC"}
        both.append(vars(properties) | {"headers": headers})
    return bool(both[0] == both[1])


def _lost(address: Address, reason: BaseException | str) -> ConnectionLost:
    if isinstance(reason, str):
        return ConnectionLost(f"{address}: {reason}")
    text = text_of(reason)
    if is_final(reason):
        return ConnectionLost(f"{address} {verdict(reason)}: {text}", True)
    return ConnectionLost(f"{address}: {text}")
