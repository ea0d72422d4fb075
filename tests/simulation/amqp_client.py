"""A simulated client: speaks frames on a `Link`, and tells the checker what it sends and reads.

It does nothing by itself but answer what AMQP has answered: the simulation has it do things. What
it asks is kept until the answer is there, and the answer must be the one that is due.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable
from random import Random
from typing import Any, Final

from checker import Checker, Consumer, Hold, Message, QueueBook, demand
from client_frames import publish
from leveret.actors.connection.listener import Listener
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
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    ChannelOpen,
    ChannelOpenOk,
    ConfirmSelect,
    ConfirmSelectOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUnblocked,
    Method,
    TxSelect,
    TxSelectOk,
    decode_method,
    encode_method,
)
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import table_of
from network import Link
from world import World

CAPABILITIES: Final = table_of(
    {
        "capabilities": {
            "basic.nack": True,
            "connection.blocked": True,
            "consumer_cancel_notify": True,
            "publisher_confirms": True,
        }
    }
)
_HEAD: Final = struct.Struct(">BHI")
_SIZE: Final = struct.Struct(">HHQ")
Answered = Callable[[Method], None]


class ClientChannel:
    """`mode` is "confirm", "tx" or ""; a channel that is closed is used no more."""

    def __init__(self, client: Client, number: int, mode: str) -> None:
        self.client = client
        self.number = number
        self.mode = mode
        self.is_open = True
        # Said channel.close, and waits for the answer.
        self.is_leaving = False
        self.next_seq_no = 1
        self.unanswered: dict[int, Message] = {}
        # In the order of their publishing, on a channel without confirms: until it was at rest.
        self.unproven: list[Message] = []
        self.in_tx: list[Message] = []
        self.tx_answers: list[tuple[Hold, str]] = []
        self.pending: deque[tuple[type[Method], Answered]] = deque()
        self.consumers: dict[str, Consumer] = {}
        self.unacked: dict[int, Hold] = {}
        # Of basic.gets that are not answered.
        self.asked_without_ack: list[QueueBook] = []
        self.published = 0

    @property
    def name(self) -> str:
        return f"{self.client.name}.{self.number}"

    def ask(self, method: Method, answer: type[Method], answered: Answered) -> None:
        """Send a method whose answer must come, in order with other answers."""
        self.pending.append((answer, answered))
        self.client.send(encode_method(self.number, method))

    def tell(self, method: Method) -> None:
        self.client.send(encode_method(self.number, method))

    def publish(
        self, message: Message, exchange: str, key: str, properties: Properties, body: bytes
    ) -> None:
        """Send a message, and expect its confirm if the channel is in that mode."""
        self.client.send(
            publish(
                key,
                body,
                properties,
                exchange=exchange,
                mandatory=message.is_mandatory,
                channel=self.number,
            )
        )
        if self.mode == "confirm":
            self.unanswered[self.next_seq_no] = message
            self.next_seq_no += 1
        elif self.mode == "tx":
            self.in_tx.append(message)
        else:
            self.unproven.append(message)

    def command(self, key: str, headers: dict[str, Any]) -> None:
        """A publish to amq.leveret.delivery."""
        self.client.send(
            publish(
                key,
                b"",
                Properties(headers=table_of(headers)),
                exchange="amq.leveret.delivery",
                channel=self.number,
            )
        )
        if self.mode == "confirm":
            self.unanswered[self.next_seq_no] = self.client.checker.command_message()
            self.next_seq_no += 1


class Client:
    """One connection after another, of the same name."""

    def __init__(self, name: str, checker: Checker, note: Callable[[str], None]) -> None:
        self.name = name
        self.checker = checker
        self._note = note
        self.link: Link | None = None
        self.channels: dict[int, ClientChannel] = {}
        self.is_ready = False
        self.is_blocked = False
        self._unread = bytearray()
        # A content that is being read: its method, size and body.
        self._content: tuple[ClientChannel, Method] | None = None
        self._missing = 0
        self._body = bytearray()
        self._properties = b""

    # --- The connection

    def connect(self, world: World, listener: Listener, port: int) -> None:
        """A new connection; the handshake goes on by itself."""
        self._unread.clear()
        self._content = None
        self.is_ready = self.is_blocked = False
        self.link = Link(world, listener, port, self._received, self._lost)
        self.send(PROTOCOL_HEADER)

    @property
    def is_connected(self) -> bool:
        return self.link is not None

    def send(self, data: bytes) -> None:
        if self.link is not None:
            self.link.send(data)

    def vanish(self, random: Random) -> None:
        """The connection is lost."""
        if self.link is not None:
            self.link.vanish(random)

    def forget(self) -> None:
        """The node is gone, and the connection with it."""
        if self.link is not None:
            self.link.is_over = True
            self._lost()

    def _lost(self) -> None:
        self.link = None
        self.is_ready = False
        for channel in list(self.channels.values()):
            self._ended(channel)
        self.channels.clear()

    def _ended(self, channel: ClientChannel) -> None:
        if channel.is_open:
            channel.is_open = False
            self.checker.channel_ended(channel)

    def close(self) -> None:
        """Say connection.close; the node answers and the client goes."""
        self.is_ready = False
        self.send(encode_method(0, ConnectionClose(200, "bye")))
        for channel in self.channels.values():
            channel.is_leaving = True
            self.checker.leaving(channel)

    # --- Channels

    def open_channel(self, number: int, mode: str) -> ClientChannel:
        channel = self.channels[number] = ClientChannel(self, number, mode)
        channel.ask(ChannelOpen(), ChannelOpenOk, _nothing)
        if mode == "confirm":
            channel.ask(ConfirmSelect(), ConfirmSelectOk, _nothing)
        elif mode == "tx":
            channel.ask(TxSelect(), TxSelectOk, _nothing)
        return channel

    def close_channel(self, channel: ClientChannel) -> None:
        channel.is_leaving = True
        self.checker.leaving(channel)

        def closed(_answer: Method) -> None:
            self.channels.pop(channel.number, None)
            self._ended(channel)

        channel.ask(ChannelClose(200, "bye"), ChannelCloseOk, closed)

    def open_channels(self) -> list[ClientChannel]:
        """Those that can be used."""
        if not self.is_ready:
            return []
        return [each for each in self.channels.values() if each.is_open and not each.is_leaving]

    # --- Frames in

    def _received(self, data: bytes) -> None:
        unread = self._unread
        unread += data
        at = 0
        while len(unread) - at >= 8:
            kind, number, size = _HEAD.unpack_from(unread, at)
            if len(unread) - at < size + 8:
                break
            assert unread[at + size + 7] == FRAME_END
            payload = bytes(unread[at + 7 : at + 7 + size])
            at += size + 8
            self._frame(kind, number, payload)
            if self.link is None:
                return
        del unread[:at]

    def _frame(self, kind: int, number: int, payload: bytes) -> None:
        if kind == FRAME_METHOD:
            demand(self._content is None, "a method in the middle of a content")
            method = decode_method(payload, 0, len(payload))
            if number == 0:
                self._connection_method(method)
            else:
                channel = self.channels.get(number)
                demand(channel is not None, "a frame on a channel that is not open:", method)
                assert channel is not None
                self._channel_method(channel, method)
        elif kind == FRAME_HEADER:
            assert self._content is not None
            _, _, self._missing = _SIZE.unpack_from(payload)
            self._body.clear()
            self._properties = payload[12:]
            self._content_is_read()
        elif kind == FRAME_BODY:
            self._body += payload
            self._missing -= len(payload)
            self._content_is_read()
        else:
            assert kind == FRAME_HEARTBEAT

    def _connection_method(self, method: Method) -> None:
        if isinstance(method, ConnectionStart):
            answer = ConnectionStartOk(CAPABILITIES, "PLAIN", b"\0guest\0guest", "en_US")
            self.send(encode_method(0, answer))
        elif isinstance(method, ConnectionTune):
            tuned = ConnectionTuneOk(method.channel_max, method.frame_max, 0)
            self.send(encode_method(0, tuned) + encode_method(0, ConnectionOpen("/")))
        elif isinstance(method, ConnectionOpenOk):
            self.is_ready = True
        elif isinstance(method, ConnectionBlocked):
            self.is_blocked = True
        elif isinstance(method, ConnectionUnblocked):
            self.is_blocked = False
        elif isinstance(method, ConnectionClose):
            demand(method.reply_code == 320, "the node closes a connection:", method)
            self.is_ready = False
            self.send(encode_method(0, ConnectionCloseOk()))
        elif isinstance(method, ConnectionCloseOk):
            assert self.link is not None
            self.link.vanish(Random(0))
        else:
            raise AssertionError(method)

    def _channel_method(self, channel: ClientChannel, method: Method) -> None:
        checker = self.checker
        if isinstance(method, BasicDeliver | BasicGetOk | BasicReturn):
            self._content = channel, method
        elif isinstance(method, BasicAck):
            checker.answered(channel, method.delivery_tag, method.multiple, is_ack=True)
        elif isinstance(method, BasicNack):
            checker.answered(channel, method.delivery_tag, method.multiple, is_ack=False)
        elif isinstance(method, BasicCancel):
            consumer = channel.consumers.pop(method.consumer_tag, None)
            demand(consumer is not None, "an unknown consumer is cancelled:", method)
        elif isinstance(method, ChannelClose):
            self._note(f"{channel.name} is closed: {method.reply_code} {method.reply_text}")
            checker.channel_refused(channel, method.reply_code, method.reply_text)
            self.send(encode_method(channel.number, ChannelCloseOk()))
            self._ended(channel)
            if channel.is_leaving:
                # Both sides close it at once: the node answers the client's close, too.
                last = channel.pending.pop()
                channel.pending.clear()
                channel.pending.append(last)
            else:
                self.channels.pop(channel.number, None)
        else:
            demand(bool(channel.pending), "an answer that nobody waits for:", method)
            expected, answered = channel.pending.popleft()
            if isinstance(method, BasicGetEmpty) and expected is BasicGetOk:
                answered(method)
                return
            demand(isinstance(method, expected), "the wrong answer:", method, expected)
            answered(method)

    def _content_is_read(self) -> None:
        if self._missing:
            return
        assert self._content is not None
        (channel, method), self._content = self._content, None
        body = bytes(self._body)
        checker = self.checker
        if isinstance(method, BasicReturn):
            checker.returned(channel, body)
        elif isinstance(method, BasicDeliver):
            consumer = channel.consumers.get(method.consumer_tag)
            demand(consumer is not None, "a delivery to an unknown consumer:", method)
            assert consumer is not None
            checker.delivered(
                channel, consumer, method.delivery_tag, method.redelivered, body, self._properties
            )
        else:
            assert isinstance(method, BasicGetOk)
            demand(bool(channel.pending), "a get-ok that nobody waits for")
            _, answered = channel.pending.popleft()
            answered(method)
            getter = channel.consumers.pop("", None)
            assert getter is not None
            checker.delivered(
                channel, getter, method.delivery_tag, method.redelivered, body, self._properties
            )


def _nothing(_answer: Method) -> None:
    """The answer says nothing more."""


def consume(
    channel: ClientChannel,
    queue: QueueBook,
    tag: str,
    *,
    no_ack: bool,
    timeout_ms: int | None,
    prefetch: int = 0,
) -> None:
    """Begin to consume."""
    arguments = {} if timeout_ms is None else {"x-in-flight-timeout": timeout_ms}
    # Deliveries may come with the answer, or behind it.
    consumer = channel.consumers[tag] = Consumer(queue, no_ack, timeout_ms, prefetch)
    queue.has_had_receivers = True
    channel.ask(
        BasicConsume(
            queue=queue.name, consumer_tag=tag, no_ack=no_ack, arguments=table_of(arguments)
        ),
        BasicConsumeOk,
        lambda _: setattr(consumer, "is_there", True),
    )


def cancel(channel: ClientChannel, tag: str) -> None:
    channel.consumers[tag].is_there = False

    def cancelled(_answer: Method) -> None:
        channel.consumers.pop(tag, None)

    channel.ask(BasicCancel(consumer_tag=tag), BasicCancelOk, cancelled)


def get(channel: ClientChannel, queue: QueueBook, *, no_ack: bool) -> None:
    """Ask for one message."""
    queue.has_had_receivers = True

    if no_ack:
        channel.asked_without_ack.append(queue)

    def got(answer: Method) -> None:
        if no_ack:
            channel.asked_without_ack.remove(queue)
        if isinstance(answer, BasicGetOk):
            channel.consumers[""] = Consumer(queue, no_ack, None, is_get=True)

    channel.ask(BasicGet(queue=queue.name, no_ack=no_ack), BasicGetOk, got)
