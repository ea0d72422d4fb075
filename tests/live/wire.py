"""A client of raw sockets: sends exact bytes, reads frame by frame, and believes nothing.

Nothing is skipped: a frame that is not the expected one fails the test, and so does silence, after
a time-out that only a broken broker reaches. That nothing comes is shown by asking for something
behind it (`Client.ask`): the next frame is then its answer. Only where heartbeats were agreed on do
they come when they come: who reads a method there reads past them.
"""

from __future__ import annotations

import socket
import struct
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self, TypeVar

from answers import Content, Frame, Got
from client_frames import (
    FRAME_MAX_BYTES,
    PERSISTENT,
    TRANSIENT,
    content_header,
    frame,
    methods_of,
    publish,
)
from leveret.amqp_frames.constants import (
    FRAME_BODY,
    FRAME_END,
    FRAME_HEADER,
    FRAME_HEARTBEAT,
    FRAME_METHOD,
    PROTOCOL_HEADER,
)
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    Method,
    QueueDeclare,
    QueueDeclareOk,
    decode_method,
)
from leveret.amqp_frames.properties import Properties, decode_properties
from leveret.amqp_frames.values.field_table import table_of
from timeouts import TIMEOUT_SECONDS

__all__ = [
    "FRAME_MAX_BYTES",
    "PERSISTENT",
    "TRANSIENT",
    "Client",
    "Content",
    "Frame",
    "Got",
    "content_header",
    "frame",
    "methods_of",
    "publish",
]

AnyMethod = TypeVar("AnyMethod", bound=Method)


class Client:
    """One connection; `connected()` makes one that is ready for work."""

    def __init__(self, host: str, port: int, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        self.socket = socket.create_connection((host, port), timeout=timeout_seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._unread = bytearray()
        self.start: ConnectionStart | None = None
        self.tune: ConnectionTune | None = None
        self.next_seq_no = 1
        self._has_heartbeats = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exception: object) -> None:
        self.drop()

    def drop(self) -> None:
        """Go without a word."""
        self.socket.close()

    # --- Out

    def send(self, *data: bytes) -> None:
        """One write, so as a rule one read of the broker."""
        self.socket.sendall(b"".join(data))

    @contextmanager
    def sending(self, *data: bytes) -> Iterator[None]:
        """Send by a thread, which waits in its turn while the broker reads no more.

        All is sent when this ends. Nothing else may be sent meanwhile.
        """
        sender = threading.Thread(target=self.send, args=data)
        sender.start()
        try:
            yield
        finally:
            sender.join()

    def send_methods(self, channel: int, *methods: Method) -> None:
        self.send(methods_of(channel, *methods))

    # --- In

    def read_bytes(self, count: int) -> bytes:
        while len(self._unread) < count:
            data = self.socket.recv(1 << 20)
            if not data:
                unread = bytes(self._unread[:64])
                raise AssertionError(f"the broker closed the socket; unread: {unread!r}")
            self._unread += data
        taken = bytes(self._unread[:count])
        del self._unread[:count]
        return taken

    def read_frame(self) -> Frame:
        kind, channel, size = struct.unpack(">BHI", self.read_bytes(7))
        payload = self.read_bytes(size + 1)
        assert payload[-1] == FRAME_END
        return Frame(kind, channel, payload[:-1])

    def read_method(self, channel: int) -> Method:
        """The next frame, which must be a method on this channel."""
        read = self._read_past_heartbeats()
        assert (read.kind, read.channel) == (FRAME_METHOD, channel), read
        return decode_method(read.payload, 0, len(read.payload))

    def read_any_method(self) -> tuple[int, Method]:
        """The next frame, which must be a method, on whatever channel."""
        read = self._read_past_heartbeats()
        assert read.kind == FRAME_METHOD, read
        return read.channel, decode_method(read.payload, 0, len(read.payload))

    def _read_past_heartbeats(self) -> Frame:
        read = self.read_frame()
        while self._has_heartbeats and read.kind == FRAME_HEARTBEAT:
            read = self.read_frame()
        return read

    def expect(self, channel: int, *methods: Method) -> None:
        """The next frames must be exactly these methods."""
        for method in methods:
            assert self.read_method(channel) == method

    def expect_type(self, channel: int, kind: type[AnyMethod]) -> AnyMethod:
        method = self.read_method(channel)
        assert isinstance(method, kind), method
        return method

    def read_content(self, channel: int) -> Content:
        """The header frame and the body frames that must come next."""
        read = self.read_frame()
        assert (read.kind, read.channel) == (FRAME_HEADER, channel), read
        class_id, weight, body_bytes = struct.unpack(">HHQ", read.payload[:12])
        assert (class_id, weight) == (60, 0)
        properties = decode_properties(read.payload, 12, len(read.payload))
        body = bytearray()
        body_frames = 0
        while len(body) < body_bytes:
            read = self.read_frame()
            assert (read.kind, read.channel) == (FRAME_BODY, channel), read
            body += read.payload
            body_frames += 1
        assert len(body) == body_bytes
        return Content(properties, bytes(body), body_frames)

    def expect_delivery(self, deliver: BasicDeliver, body: bytes, channel: int = 1) -> None:
        """The next frames must be this delivery and its content."""
        self.expect(channel, deliver)
        assert self.read_content(channel).body == body

    def get(self, queue: str, *, no_ack: bool = False, channel: int = 1) -> Got | None:
        """basic.get: the answer and the body, or None."""
        answer = self.ask(channel, BasicGet(queue=queue, no_ack=no_ack))
        if isinstance(answer, BasicGetEmpty):
            return None
        assert isinstance(answer, BasicGetOk), answer
        body = self.read_content(channel).body
        return Got(answer.delivery_tag, answer.redelivered, answer.message_count, body)

    def expect_closed(self) -> None:
        """The broker closes the socket without another frame."""
        try:
            data = bytes(self._unread) + self.socket.recv(65_536)
        except ConnectionError:
            data = b""
        assert data == b""

    # --- Conversations

    def ask(self, channel: int, method: Method) -> Method:
        """Send a method; the next frame must be a method on its channel, its answer."""
        self.send_methods(channel, method)
        return self.read_method(channel)

    def log_in(
        self,
        *,
        user: str = "guest",
        password: str = "guest",
        vhost: str = "/",
        channel_max: int | None = None,
        frame_max_bytes: int | None = None,
        heartbeat_seconds: int = 0,
        capabilities: tuple[str, ...] = (),
    ) -> Self:
        """The whole handshake, up to open-ok."""
        self.offer(user=user, password=password, capabilities=capabilities)
        tune = self.tune = self.expect_type(0, ConnectionTune)
        self._has_heartbeats = heartbeat_seconds > 0
        answer = ConnectionTuneOk(
            tune.channel_max if channel_max is None else channel_max,
            tune.frame_max if frame_max_bytes is None else frame_max_bytes,
            heartbeat_seconds,
        )
        self.send_methods(0, answer, ConnectionOpen(virtual_host=vhost))
        self.expect_type(0, ConnectionOpenOk)
        return self

    def offer(
        self,
        *,
        user: str = "guest",
        password: str = "guest",
        capabilities: tuple[str, ...] = (),
        mechanism: str = "PLAIN",
        response: bytes | None = None,
    ) -> None:
        """The handshake up to start-ok."""
        self.send(PROTOCOL_HEADER)
        self.start = self.expect_type(0, ConnectionStart)
        properties = table_of({"capabilities": dict.fromkeys(capabilities, True)})
        if response is None:
            response = f"\0{user}\0{password}".encode()
        self.send_methods(0, ConnectionStartOk(properties, mechanism, response, "en_US"))

    def open_channel(self, channel: int = 1, *, confirms: bool = False) -> None:
        assert self.ask(channel, ChannelOpen()) == ChannelOpenOk()
        if confirms:
            assert self.ask(channel, ConfirmSelect()) == ConfirmSelectOk()

    def declare(self, queue: str = "", *, channel: int = 1, **properties: object) -> QueueDeclareOk:
        """Declare a queue; durable=True and the like as keywords."""
        answer = self.ask(channel, QueueDeclare(queue=queue, **properties))  # type: ignore[arg-type]
        assert isinstance(answer, QueueDeclareOk), answer
        return answer

    def consume(self, queue: str, tag: str = "c", *, channel: int = 1, **bits: object) -> None:
        """Start a consumer with this tag."""
        consume = BasicConsume(queue=queue, consumer_tag=tag, **bits)  # type: ignore[arg-type]
        assert self.ask(channel, consume) == BasicConsumeOk(tag)

    def publish_all(self, queue: str, *bodies: bytes, properties: Properties = TRANSIENT) -> None:
        """Publish to the queue and wait for all confirms.

        On channel 1, which is in confirm mode and publishes in no other way.
        """
        self.send(*(publish(queue, body, properties) for body in bodies))
        first = self.next_seq_no
        self.next_seq_no += len(bodies)
        self.expect_acks(range(first, self.next_seq_no))

    def expect_acks(self, numbers: range, channel: int = 1) -> None:
        """The next frames must be acks, single or cumulative, until all of these are answered."""
        self._expect_until_answered(numbers, channel, (BasicAck,))

    def expect_answers(self, numbers: range, channel: int = 1) -> None:
        """The next frames must be acks or nacks, until all of these are answered."""
        self._expect_until_answered(numbers, channel, (BasicAck, BasicNack))

    def _expect_until_answered(
        self, numbers: range, channel: int, kinds: tuple[type[BasicAck | BasicNack], ...]
    ) -> None:
        open_numbers = set(numbers)
        while open_numbers:
            answer = self.read_method(channel)
            assert isinstance(answer, kinds), answer
            low = numbers[0] if answer.multiple else answer.delivery_tag
            open_numbers.difference_update(range(low, answer.delivery_tag + 1))

    def counts(self, queue: str, channel: int = 1) -> tuple[int, int]:
        """Ready messages and consumers of a queue, by a passive declare."""
        answer = self.declare(queue, channel=channel, passive=True)
        return answer.message_count, answer.consumer_count

    def wait_for_counts(self, queue: str, expected: tuple[int, int], channel: int = 1) -> None:
        """Ask until the counts are so: for what another connection has set off."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        while (counts := self.counts(queue, channel)) != expected:
            assert time.monotonic() < deadline, f"{counts}, not {expected}"

    def nothing_more(self, channel: int = 1) -> None:
        """The channel has looked at all that was sent, and no frame came besides the answer."""
        assert self.ask(channel, ChannelFlow(True)) == ChannelFlowOk(True)

    def hang_up(self) -> None:
        """Send nothing more; the broker, which has been waiting for that, closes the socket."""
        self.socket.shutdown(socket.SHUT_WR)
        self.expect_closed()

    def close(self) -> None:
        """The polite way."""
        answer = self.ask(0, ConnectionClose(200, "Goodbye"))
        assert answer == ConnectionCloseOk()
        self.drop()
