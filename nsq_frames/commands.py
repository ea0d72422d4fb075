"""From bytes to commands: everything that comes in on one NSQ connection, behind the magic.

Sans-IO and total: `Scanner.feed` takes any bytes and returns what they complete, in order. What
breaks the protocol becomes a Fault, the last event that there is; no exception leaves this module.

Runs go fast: of PUB, MPUB and DPUB (`publishes.py`) and of FIN (`finishes.py`). Anything else goes
command by command, here. A command that is not whole waits, in the pieces it came in, until it is.

Rules and words are those of nsqd 1.3.0 (protocol_v2.go), as far as a command's octets decide;
core/nsq/session.py has those that depend on what the connection did before.
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from .errors import NsqError
from .finishes import IdRange, decode_finishes
from .names import is_valid_name, quoted
from .publishes import (
    DPUB,
    LINE_BYTES_MAX,
    MPUB,
    PUB,
    Bodies,
    PublishLimits,
    PublishRun,
    decode_run,
    message_count_max,
    run_of,
)

MAGIC: Final = b"  V2"
IDENTIFY: Final = b"IDENTIFY"
AUTH: Final = b"AUTH"
SUB: Final = b"SUB"
RDY: Final = b"RDY"
FIN: Final = b"FIN"
REQ: Final = b"REQ"
TOUCH: Final = b"TOUCH"
CLS: Final = b"CLS"
NOP: Final = b"NOP"

_WITH_BODY: Final = (IDENTIFY, AUTH)
_PUBLISHES: Final = (PUB, MPUB, DPUB)
_size = Struct(">i").unpack_from
# Go's integers wrap.
_WRAP: Final = 2**64
# So many events come of one look: a read may hold 260,000 commands.
EVENTS_MAX: Final = 1_000


class Finishes(NamedTuple):
    """Consecutive FINs, as ranges of entry ids in their order."""

    ranges: list[IdRange]


class Command(NamedTuple):
    """Any other command: the words of its line, and its body if it has one."""

    params: list[bytes]
    body: bytes = b""


class Fault(NamedTuple):
    """The command breaks the protocol; None as the error: the connection ends without a word."""

    command: bytes
    error: NsqError | None


Event = PublishRun | Finishes | Command | Fault


def base10(digits: bytes) -> int | None:
    """A number as nsqd reads it: no digits are 0, and it wraps at 2^64. None if it is none."""
    if digits.strip(b"0123456789"):
        return None
    number = 0
    # Python refuses to read thousands of digits at once.
    for at in range(0, len(digits), 18):
        part = digits[at : at + 18]
        number = (number * 10 ** len(part) + int(part)) % _WRAP
    return number


class _IncompleteError(Exception):
    """The command is not whole; it is worth a look when `needed_bytes` of it are there."""

    def __init__(self, needed_bytes: int) -> None:
        self.needed_bytes = needed_bytes
        super().__init__(needed_bytes)


class Scanner:
    """The incoming half of one connection."""

    __slots__ = ("_growing", "_is_closed", "_limits", "_needed", "_pending", "_rest", "_size")

    def __init__(self, limits: PublishLimits) -> None:
        self._limits = limits
        # The command that is not whole yet, as it came; worth a look when it has `_needed` bytes.
        self._pending: list[bytes] = []
        self._size = 0
        self._needed = 0
        # If that is an MPUB, here.
        self._growing: _GrowingMpub | None = None
        # Behind EVENTS_MAX events: not looked at yet.
        self._rest = b""
        self._is_closed = False

    @property
    def has_more(self) -> bool:
        """Whether `feed(b"")` has more to look at."""
        return bool(self._rest)

    @property
    def held_bytes(self) -> int:
        """The size of the command that is not whole yet, as far as it has come."""
        return self._size if self._growing is None else self._growing.held_bytes

    def close(self) -> None:
        """Nothing counts from here on."""
        self._is_closed = True
        self.clear()

    def clear(self) -> None:
        """Forget an incomplete command: it came before the connection changed to TLS, say."""
        self._pending.clear()
        self._size = self._needed = 0
        self._growing = None
        self._rest = b""

    def end(self) -> Fault | None:
        """The client sends nothing more: a Fault for a body that is cut off, else None.

        As in nsqd a line that is cut off is no command.
        """
        growing, data = self._growing, b"".join(self._pending)
        self.close()
        if growing is not None:
            return Fault(MPUB, growing.cut_off())
        line, line_end, body = data.partition(b"\n")
        name = line.removesuffix(b"\r").split(b" ")[0]
        # Whole commands without a body are not pending.
        return Fault(name, _cut_off(name, len(body))) if line_end else None

    def feed(self, data: bytes) -> list[Event]:
        """The commands that these bytes complete; of many, the first EVENTS_MAX (`has_more`)."""
        if self._is_closed:
            return []
        events: list[Event] = []
        if self._rest:
            data = self._rest + data if data else self._rest
            self._rest = b""
        elif self._growing is not None:
            data = self._grow(self._growing, data, events)
        elif self._pending:
            self._pending.append(data)
            self._size += len(data)
            if self._size < self._needed:
                return []
            data = b"".join(self._pending)
            self._pending.clear()
            self._size = 0
        position = 0
        try:
            while position < len(data):
                if len(events) >= EVENTS_MAX:
                    self._rest = data[position:]
                    break
                position = self._next(data, position, events)
        except _IncompleteError as rest:
            # A copy: the rest must not keep the whole read alive.
            self._pending.append(data[position:] if position else data)
            self._size = len(data) - position
            self._needed = rest.needed_bytes
        if events and isinstance(events[-1], Fault):
            self.close()
        return events

    def lone_run(self, data: bytes) -> PublishRun | None:
        """The run of publishes that these bytes are, all of them; else None, and nothing is done.

        None, too, if they are behind others that are not a whole command yet.
        """
        if self._pending or self._growing is not None or self._rest or self._is_closed:
            return None
        for name in _PUBLISHES:
            if data.startswith(name):
                run, end = decode_run(data, 0, name, self._limits)
                return run if end == len(data) else None
        return None

    def _next(self, data: bytes, position: int, events: list[Event]) -> int:
        """Note the run or the command at `position`; return where it ends."""
        if data.startswith(FIN, position):
            ranges, end = decode_finishes(data, position)
            if ranges:
                events.append(Finishes(ranges))
                return end
        else:
            for name in _PUBLISHES:
                if data.startswith(name, position):
                    run, end = decode_run(data, position, name, self._limits)
                    if run is not None:
                        events.append(run)
                        return end
        return self._command(data, position, events)

    def _command(self, data: bytes, position: int, events: list[Event]) -> int:
        line_end = data.find(b"\n", position, position + LINE_BYTES_MAX)
        if line_end < 0:
            if len(data) - position >= LINE_BYTES_MAX:
                events.append(Fault(b"", None))
                return len(data)
            raise _IncompleteError(len(data) - position + 1)
        params = data[position:line_end].removesuffix(b"\r").split(b" ")
        name = params[0]
        try:
            if name in _WITH_BODY:
                return self._with_body(data, position, line_end + 1, params, events)
            if name in _PUBLISHES:
                return self._publish(data, position, line_end + 1, params, events)
        except NsqError as error:
            events.append(Fault(name, error.with_traceback(None)))
            return len(data)
        events.append(Command(params))
        return line_end + 1

    def _with_body(
        self, data: bytes, position: int, at: int, params: list[bytes], events: list[Event]
    ) -> int:
        """IDENTIFY or AUTH."""
        name = params[0].decode()
        if params[0] == AUTH and len(params) != 1:
            raise NsqError("E_INVALID", "AUTH invalid number of parameters")
        body_bytes = _read_size(data, position, at)
        _check_body(name, body_bytes, self._limits.body_bytes_max)
        end = at + 4 + body_bytes
        if end > len(data):
            raise _IncompleteError(end - position)
        events.append(Command(params, data[at + 4 : end]))
        return end

    def _publish(
        self, data: bytes, position: int, at: int, params: list[bytes], events: list[Event]
    ) -> int:
        """The publish at hand is broken, not whole, or an unusual form of a sound one."""
        command = params[0]
        name = command.decode()
        limits = self._limits
        if len(params) < (3 if command == DPUB else 2):
            raise NsqError("E_INVALID", f"{name} insufficient number of parameters")
        topic = params[1]
        if not is_valid_name(topic):
            # nsqd names the code twice here.
            again = b"E_BAD_TOPIC " if command == MPUB else b""
            text = again + command + b" topic name " + quoted(topic) + b" is not valid"
            raise NsqError("E_BAD_TOPIC", text)
        delay_ms = 0
        if command == DPUB:
            delay_ms = _delay_ms(params[2], limits)
        body_bytes = _read_size(data, position, at)
        if command == MPUB:
            _check_body(name, body_bytes, limits.body_bytes_max)
            return self._publish_many(data, position, at + 4, topic, events)
        _check_message(name, body_bytes, limits)
        end = at + 4 + body_bytes
        if end > len(data):
            raise _IncompleteError(end - position)
        bodies = Bodies()
        bodies.topics.append(topic)
        bodies.keys.append(0)
        bodies.begins.append(at + 4)
        bodies.ends.append(end)
        if command == DPUB:
            bodies.delays_ms.append(delay_ms)
        events.append(run_of(data, command, bodies))
        return end

    def _publish_many(
        self, data: bytes, position: int, at: int, topic: bytes, events: list[Event]
    ) -> int:
        count = _read_size(data, position, at)
        if not 0 < count <= message_count_max(self._limits):
            raise NsqError("E_BAD_BODY", f"MPUB invalid message count {count}")
        growing = _GrowingMpub(topic, count, self._limits)
        run, rest = growing.add(data[at + 4 :])
        if run is None:
            self._growing = growing
        else:
            events.append(run)
        return len(data) - len(rest)

    def _grow(self, growing: _GrowingMpub, data: bytes, events: list[Event]) -> bytes:
        """More of an MPUB; return the octets behind it."""
        try:
            run, rest = growing.add(data)
        except NsqError as error:
            events.append(Fault(MPUB, error.with_traceback(None)))
            return b""
        if run is not None:
            self._growing = None
            events.append(run)
        return rest


class _GrowingMpub:
    """An MPUB that is not whole. As in nsqd its count of messages says where it ends, not its size.

    Its octets are one piece that grows, and are looked at once: with each read to join them, or to
    look at all again, would take the square of their number.
    """

    __slots__ = ("_bodies", "_count", "_end", "_limits", "_needed", "_octets")

    def __init__(self, topic: bytes, count: int, limits: PublishLimits) -> None:
        self._limits = limits
        self._count = count
        # Behind the count, and where the messages end that were found in it.
        self._octets = bytearray()
        self._end = 0
        # Another look is worthwhile with so many.
        self._needed = 0
        self._bodies = Bodies()
        self._bodies.topics.append(topic)

    def cut_off(self) -> NsqError:
        """Nothing more comes."""
        number = len(self._bodies.begins)
        has_size = len(self._octets) - self._end >= 4
        text = "message body" if has_size else f"message({number}) body size"
        return NsqError("E_BAD_MESSAGE", f"MPUB failed to read {text}")

    @property
    def held_bytes(self) -> int:
        """Of it have come so many, behind its count."""
        return len(self._octets)

    def add(self, data: bytes) -> tuple[PublishRun | None, bytes]:
        """Add a read; return the run and the octets behind it, once the MPUB is whole.

        NsqError: a message in it breaks the protocol.
        """
        octets, bodies, limits = self._octets, self._bodies, self._limits
        octets += data
        begins, ends = bodies.begins, bodies.ends
        size = len(octets)
        if size < self._needed:
            return None, b""
        # The count is part of the body. nsqd goes on for as long as messages come, which would fill
        # the memory.
        end_max = limits.body_bytes_max - 4
        end = self._end
        while len(begins) < self._count:
            at = end + 4
            if at > size:
                self._end, self._needed = end, at
                return None, b""
            message_bytes = _size(octets, end)[0]
            if message_bytes <= 0:
                text = f"MPUB invalid message({len(begins)}) body size {message_bytes}"
                raise NsqError("E_BAD_MESSAGE", text)
            if message_bytes > limits.message_bytes_max:
                raise _too_big("MPUB", message_bytes, limits)
            if at + message_bytes > end_max:
                text = f"MPUB body too big {at + message_bytes + 4} > {limits.body_bytes_max}"
                raise NsqError("E_BAD_BODY", text)
            if at + message_bytes > size:
                self._end, self._needed = end, at + message_bytes
                return None, b""
            end = at + message_bytes
            begins.append(at)
            ends.append(end)
        bodies.keys.extend([0] * self._count)
        bodies.counts.append(self._count)
        whole = memoryview(octets)
        return run_of(bytes(whole[:end]), MPUB, bodies), bytes(whole[end:])


def _cut_off(command: bytes, body_bytes: int) -> NsqError:
    """Of the octets behind the line there are no more than these."""
    name = command.decode()
    if command in (PUB, DPUB):
        text = "message body size" if body_bytes < 4 else "message body"
        return NsqError("E_BAD_MESSAGE", f"{name} failed to read {text}")
    text = "body size"
    if body_bytes >= 4:
        text = "message count" if command == MPUB else "body"
    return NsqError("E_BAD_BODY", f"{name} failed to read {text}")


def _read_size(data: bytes, position: int, at: int) -> int:
    if at + 4 > len(data):
        raise _IncompleteError(at + 4 - position)
    size: int = _size(data, at)[0]
    return size


def _check_body(name: str, body_bytes: int, bytes_max: int) -> None:
    if body_bytes <= 0:
        raise NsqError("E_BAD_BODY", f"{name} invalid body size {body_bytes}")
    if body_bytes > bytes_max:
        raise NsqError("E_BAD_BODY", f"{name} body too big {body_bytes} > {bytes_max}")


def _check_message(name: str, body_bytes: int, limits: PublishLimits) -> None:
    if body_bytes <= 0:
        text = f"{name} invalid message body size {body_bytes}"
        raise NsqError("E_BAD_MESSAGE", text)
    if body_bytes > limits.message_bytes_max:
        raise _too_big(name, body_bytes, limits)


def _too_big(name: str, body_bytes: int, limits: PublishLimits) -> NsqError:
    text = f"{name} message too big {body_bytes} > {limits.message_bytes_max}"
    return NsqError("E_BAD_MESSAGE", text)


def _delay_ms(digits: bytes, limits: PublishLimits) -> int:
    delay_ms = base10(digits)
    if delay_ms is None:
        raise NsqError("E_INVALID", b"DPUB could not parse timeout " + digits)
    if delay_ms > limits.delay_ms_max:
        text = f"DPUB timeout {delay_ms} out of range 0-{limits.delay_ms_max}"
        raise NsqError("E_INVALID", text)
    return delay_ms
