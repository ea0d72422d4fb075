"""One channel of a scripted session: what is sent on it, and its answers in their own order."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from client_frames import TRANSIENT, methods_of, publish
from command_socket import Command
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicNack,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelOpen,
    ConfirmSelect,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from leveret.amqp_frames.properties import Properties
from timeouts import TIMEOUT_SECONDS

if TYPE_CHECKING:
    from scripted_session import Connection


class Channel:
    """One channel of a connection."""

    def __init__(self, connection: Connection, number: int) -> None:
        self.connection = connection
        self.number = number
        self._answered = 0

    # --- Out

    def send(self, *what: bytes | Method) -> None:
        """In one write: frames as they are, and methods of this channel."""
        for each in what:
            if isinstance(each, Method):
                self.connection.session.note(each)
        pieces = [
            methods_of(self.number, each) if isinstance(each, Method) else each for each in what
        ]
        self.connection.send(*pieces)

    def publish(
        self,
        routing_key: str,
        body: bytes = b"body",
        properties: Properties = TRANSIENT,
        **bits: object,
    ) -> None:
        """basic.publish with its content; exchange, mandatory and immediate as keywords."""
        self.send(publish(routing_key, body, properties, channel=self.number, **bits))  # type: ignore[arg-type]

    # --- In

    def read(self, count: int = 1) -> Command:
        """The next commands of this channel, written down; gives the last.

        A channel that the broker closes is opened again.
        """
        for _ in range(count):
            command = self.connection.read(self.number)
            if isinstance(command.method, BasicAck | BasicNack):
                self._answered = max(self._answered, command.method.delivery_tag)
            if isinstance(command.method, ChannelClose):
                self.send(ChannelCloseOk(), ChannelOpen())
                self.connection.next_command(self.number)
                self._answered = 0
        return command

    def ask(self, *methods: bytes | Method) -> Method:
        """Send each and write down its one answer; gives the last."""
        for method in methods:
            self.send(method)
            answer = self.read().method
        return answer

    def confirm_select(self) -> None:
        self.ask(ConfirmSelect())

    def confirms(self, count: int) -> None:
        """Until the next `count` publishes are answered: which numbers were acked, which nacked."""
        open_numbers = set(range(self._answered + 1, self._answered + count + 1))
        self._answered += count
        acked: list[int] = []
        nacked: list[int] = []
        while open_numbers:
            command = self.connection.next_command(self.number)
            method = command.method
            if not isinstance(method, BasicAck | BasicNack):
                self.connection.session.record(str(self), f"instead of a confirm: {command.lines}")
                return
            tag = method.delivery_tag
            low = min(open_numbers) if method.multiple else tag
            answered = open_numbers & set(range(low, tag + 1))
            open_numbers -= answered
            (acked if isinstance(method, BasicAck) else nacked).extend(answered)
        line = f"acked {sorted(acked)}, nacked {sorted(nacked)}"
        self.connection.session.record(str(self), line)

    def settled(self) -> None:
        """The channel has looked at all that was sent; what came of it is written down."""
        self.send(ChannelFlow(True))
        while self.read().method.name not in ("channel.flow-ok", "channel.close"):
            pass

    def published(self) -> None:
        """In confirm mode: what comes of one publish, up to its confirm or the channel's end."""
        ends = ("basic.ack", "basic.nack", "channel.close")
        while self.read().method.name not in ends:
            pass

    def counts(self, queue: str) -> tuple[int, int]:
        """Ready messages and consumers; not written down."""
        self.send(QueueDeclare(queue=queue, passive=True))
        answer = self.connection.next_command(self.number).method
        assert isinstance(answer, QueueDeclareOk), answer
        return answer.message_count, answer.consumer_count

    def wait_for_counts(self, queue: str, ready: int, consumers: int = 0) -> None:
        """Ask until it is so, for what another connection or the clock sets off."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        counts = self.counts(queue)
        while counts != (ready, consumers) and time.monotonic() < deadline:
            counts = self.counts(queue)
        self.connection.session.record(str(self), f"{queue} has ready, consumers = {counts}")

    def wait_until_gone(self, queue: str) -> None:
        """Publish to the queue until that is returned; unlike a question, it is no use of it."""
        deadline = time.monotonic() + TIMEOUT_SECONDS
        returned = False
        while not returned and time.monotonic() < deadline:
            self.publish(queue, mandatory=True)
            self.send(ChannelFlow(True))
            returned = self.connection.next_command(self.number).method.name == "basic.return"
        if returned:
            self.connection.next_command(self.number)
        self.connection.session.record(str(self), f"{queue} has gone: {returned}")

    def __str__(self) -> str:
        return f"{self.connection.name}, channel {self.number}"
