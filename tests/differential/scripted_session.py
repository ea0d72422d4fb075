"""A scripted session of raw sockets with one broker: what is sent, what is asked, and every answer.

A script is a function of a Session. It says what it expects only by how many answers it waits for;
the answers themselves are written down (transcript.py) and compared between the brokers. Where
the broker closes a connection or says nothing for `TIMEOUT_SECONDS`, that is written down
as well and the script ends there.
"""

from __future__ import annotations

import json
import ssl
from base64 import b64encode
from collections import deque
from collections.abc import Callable
from contextlib import closing
from http.client import HTTPConnection

from client_frames import FRAME_MAX_BYTES, methods_of
from command_socket import Command, CommandSocket, ScriptEnded
from leveret.amqp_frames.constants import PROTOCOL_HEADER
from leveret.amqp_frames.methods import (
    ChannelOpen,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ExchangeDeclare,
    Method,
    QueueDeclare,
    QueueDeclareOk,
)
from leveret.amqp_frames.values.field_table import table_of
from scripted_channel import Channel
from timeouts import TIMEOUT_SECONDS
from transcript import Names

CAPABILITIES = ("basic.nack", "consumer_cancel_notify", "authentication_failure_close")


class Session:
    """One run of a script against the broker at `port`."""

    def __init__(
        self,
        port: int,
        context: ssl.SSLContext | None = None,
        alarm: Callable[[bool], None] | None = None,
        http_port: int = 0,
    ) -> None:
        self.port = port
        self.context = context
        # Raises the alarm of a full disk, and ends it.
        self.alarm = alarm
        self._http_port = http_port
        self.lines: list[str] = []
        self.queues: set[str] = set()
        self.exchanges: set[str] = set()
        self._names = Names()
        self._connections: list[Connection] = []

    def raw_connection(self) -> Connection:
        """A socket over which nothing has been said."""
        connection = Connection(self, f"connection {len(self._connections) + 1}")
        self._connections.append(connection)
        return connection

    def connect(
        self, *, frame_max_bytes: int = FRAME_MAX_BYTES, channel_max: int = 2047, **login: object
    ) -> Connection:
        """A connection that is logged in; its handshake is not written down."""
        connection = self.raw_connection()
        connection.log_in(
            frame_max_bytes=frame_max_bytes,
            channel_max=channel_max,
            **login,  # type: ignore[arg-type]
        )
        return connection

    def channel(self) -> Channel:
        """Channel 1 of a connection of its own, open."""
        return self.connect().channel(1)

    def call(self, line: str, body: object = None) -> None:
        """A method and a path of the management API; its status is written down, and any reason."""
        method, _, path = line.partition(" ")
        connection = HTTPConnection("127.0.0.1", self._http_port, timeout=TIMEOUT_SECONDS)
        headers = {"Authorization": f"Basic {b64encode(b'guest:guest').decode()}"}
        headers["Content-Type"] = "application/json"
        data = None if body is None else json.dumps(body).encode()
        with closing(connection):
            connection.request(method, path, data, headers)
            response = connection.getresponse()
            text = response.read()
        reason = json.loads(text).get("reason") if response.status >= 400 and text else ""
        self.record(line, f"{response.status} {reason}".rstrip())

    def record(self, place: str, line: str) -> None:
        self.lines.append(self._names.replaced(f"{place}: {line}"))

    def note(self, method: Method) -> None:
        """Remember what is declared, so that it can be deleted when the script is over."""
        if isinstance(method, QueueDeclare | QueueDeclareOk):
            self.queues.add(method.queue)
        elif isinstance(method, ExchangeDeclare):
            self.exchanges.add(method.exchange)

    def leftovers(self) -> None:
        """Write down what came and was not asked for."""
        for connection in self._connections:
            connection.leftovers()

    def close(self) -> None:
        for connection in self._connections:
            connection.close()


class Connection(CommandSocket):
    """One connection: keeps the commands that nobody has asked for yet."""

    def __init__(self, session: Session, name: str) -> None:
        super().__init__(session.port, session.context)
        self.session = session
        self.name = name
        self._is_open = False
        self._waiting: deque[Command] = deque()

    # --- Out

    def send(self, *data: bytes | Method) -> None:
        """Bytes as they are; methods on channel 0."""
        pieces = [methods_of(0, each) if isinstance(each, Method) else each for each in data]
        self.socket.sendall(b"".join(pieces))

    def log_in(
        self,
        *,
        user: str = "guest",
        password: str = "guest",
        vhost: str = "/",
        frame_max_bytes: int = FRAME_MAX_BYTES,
        channel_max: int = 2047,
        capabilities: tuple[str, ...] = CAPABILITIES,
    ) -> None:
        self.send(PROTOCOL_HEADER)
        self.next_command(0)
        properties = table_of({"capabilities": dict.fromkeys(capabilities, True)})
        response = f"\0{user}\0{password}".encode()
        self.send(ConnectionStartOk(properties, "PLAIN", response, "en_US"))
        tune = self.next_command(0).method
        assert isinstance(tune, ConnectionTune), tune
        self.send(ConnectionTuneOk(channel_max, frame_max_bytes, 0))
        self.send(ConnectionOpen(virtual_host=vhost))
        self.next_command(0)
        self._is_open = True

    def channel(self, number: int) -> Channel:
        """A channel, opened; that is not written down."""
        channel = Channel(self, number)
        channel.send(ChannelOpen())
        self.next_command(number)
        return channel

    def ask(self, *data: bytes | Method) -> Method:
        """Send on channel 0 and write down the one answer."""
        self.send(*data)
        return self.read().method

    def drop(self) -> None:
        """Go without a word."""
        self.socket.close()

    def close(self) -> None:
        """The polite way, as far as the broker still listens; nothing is written down."""
        try:
            if not self._is_open:
                raise ScriptEnded
            self.send(ConnectionClose(200, "Goodbye"))
            while not isinstance(self.next_command(0, quietly=True).method, ConnectionCloseOk):
                pass
        except (OSError, ScriptEnded):
            pass
        self.socket.close()

    # --- In

    def read(self, channel: int = 0) -> Command:
        """The next command of a channel, written down; a connection.close goes before."""
        command = self.next_command(channel)
        place = f"{self.name}, channel {command.channel}"
        for line in command.lines:
            self.session.record(place, line)
        if isinstance(command.method, ConnectionClose):
            self.send(ConnectionCloseOk())
            self.end()
        return command

    def end(self) -> None:
        """Write down all frames until the socket is closed; the script ends here."""
        while True:
            self.next_command(0)

    def next_command(self, channel: int, *, quietly: bool = False) -> Command:
        """The next command of a channel, or of channel 0; ScriptEnded if nothing comes."""
        for command in self._waiting:
            if command.channel == channel:
                self._waiting.remove(command)
                return command
        while True:
            try:
                command = self.read_command()
            except ScriptEnded as ended:
                if not quietly:
                    self.session.record(self.name, str(ended))
                raise
            self.session.note(command.method)
            if command.channel in (channel, 0):
                return command
            self._waiting.append(command)

    def leftovers(self) -> None:
        """Write down what came and was not asked for."""
        while self._waiting:
            command = self._waiting.popleft()
            for line in command.lines:
                self.session.record(f"{self.name}, channel {command.channel}, unasked", line)
