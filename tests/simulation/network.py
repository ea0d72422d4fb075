"""A connection between a simulated client and the node: an asyncio transport without a socket.

Bytes move in pieces of any size, and either side may stop reading. A connection that is lost loses
what was on its way, from some byte on.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, Final

from leveret.actors.connection.listener import Connection, Listener
from world import World

PIECE_BYTES_MAX: Final = 200


class Link:
    """The node's transport, and the client's socket. `on_bytes` and `on_lost` are the client's."""

    def __init__(
        self,
        world: World,
        listener: Listener,
        port: int,
        on_bytes: Callable[[bytes], None],
        on_lost: Callable[[], None],
    ) -> None:
        self._world = world
        self._port = port
        self._on_bytes = on_bytes
        self._on_lost = on_lost
        self._to_node = bytearray()
        self._to_client = bytearray()
        self._high = 65_536
        self._is_writing_paused = False
        self._is_reading_paused = False
        self._is_closing = False
        self.is_over = False
        # Does the client read?
        self.is_read = True
        # Since when has nothing been on its way to the client, or when was that last?
        self.clean_ms = world.uptime_ms
        self._protocol = Connection(listener)
        world.movers.append(self)
        self._protocol.connection_made(self)  # type: ignore[arg-type]

    # The client's side.

    def send(self, data: bytes) -> None:
        if not self.is_over:
            self._to_node += data

    def vanish(self, random: Random) -> None:
        """The client is gone. The node reads some of what was on its way."""
        if self.is_over:
            return
        kept = random.choice((0, len(self._to_node), random.randint(0, len(self._to_node))))
        if kept and not self._is_reading_paused:
            self._read(kept)
        self._end(OSError("connection reset"))

    @property
    def is_clean(self) -> bool:
        """Is nothing on its way to a client that is still there?"""
        return not self._to_client

    # A mover.

    def can_move(self) -> bool:
        if self.is_over:
            return False
        return bool(
            (self._to_node and not self._is_reading_paused)
            or (self._to_client and self.is_read)
            or (self._is_closing and not self._to_client)
        )

    def move(self, random: Random) -> None:
        sides = []
        if self._to_node and not self._is_reading_paused and not self._is_closing:
            sides.append(self._to_the_node)
        if self._to_client and self.is_read:
            sides.append(self._to_the_client)
        if sides:
            sides[int(random.random() * len(sides))](random)
        elif self._is_closing:
            self._end(None)

    def _to_the_node(self, random: Random) -> None:
        size = len(self._to_node)
        self._read(size if random.random() < 0.7 else random.randint(1, size))

    def _read(self, size: int) -> None:
        buffer = self._protocol.get_buffer(-1)
        size = min(size, len(buffer))
        data = bytes(self._to_node[:size])
        del self._to_node[:size]
        self._world.moved(data)
        buffer[:size] = data
        self._protocol.buffer_updated(size)

    def _to_the_client(self, random: Random) -> None:
        size = len(self._to_client)
        if random.random() < 0.3:
            size = random.randint(1, size)
        data = bytes(self._to_client[:size])
        del self._to_client[:size]
        self._world.moved(data)
        if self._is_writing_paused and len(self._to_client) <= self._high // 4:
            self._is_writing_paused = False
            self._protocol.resume_writing()
        self._on_bytes(data)
        if not self._to_client:
            self.clean_ms = self._world.uptime_ms

    def _end(self, error: OSError | None) -> None:
        if self.is_over:
            return
        self.is_over = True
        self._is_closing = True
        self._world.movers.remove(self)
        self._protocol.connection_lost(error)
        self._on_lost()

    # The node's transport.

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", self._port) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None:
        self._high = high

    def write(self, data: bytes) -> None:
        if self.is_over or self._is_closing:
            return
        if not self._to_client:
            self.clean_ms = self._world.uptime_ms
        self._to_client += data
        if len(self._to_client) > self._high and not self._is_writing_paused:
            self._is_writing_paused = True
            self._protocol.pause_writing()

    def writelines(self, pieces: list[bytes]) -> None:
        self.write(b"".join(pieces))

    def is_closing(self) -> bool:
        return self._is_closing

    def get_write_buffer_size(self) -> int:
        return len(self._to_client)

    def pause_reading(self) -> None:
        self._is_reading_paused = True

    def resume_reading(self) -> None:
        self._is_reading_paused = False

    @property
    def is_reading_paused(self) -> bool:
        """Does the node not read?"""
        return self._is_reading_paused

    def close(self) -> None:
        self._is_closing = True

    def abort(self) -> None:
        self._is_closing = True
        self._to_client.clear()
