"""Plays an exchange against an NSQ broker, and says where an answer is another one."""

from __future__ import annotations

import json
import re
import struct
import time
from contextlib import ExitStack

from exchanges import (
    DEFAULTS,
    OK,
    Answer,
    By,
    Came,
    Closed,
    Difference,
    End,
    Exchange,
    HalfClose,
    Negotiated,
    Quiet,
    Step,
)
from nsq_wire import MESSAGE, RESPONSE, NsqClient, pub

FRESH_NS = 60_000_000_000
_UNKNOWN = re.compile(rb"\$(\d+)")


class Player:
    """Plays exchanges against one broker, each with topics of its own."""

    def __init__(self, port: int, *, is_nsqd: bool) -> None:
        self._port = port
        self._is_nsqd = is_nsqd
        self._played = 0

    def faults(self, exchanges: list[Exchange]) -> list[str]:
        """What came otherwise than it should; empty if all is well."""
        found = []
        for exchange in exchanges:
            self._played += 1
            fault = _Play(self._port, self._played, self._is_nsqd).fault(exchange)
            if fault:
                found.append(f"{exchange.name}: {fault}")
        return found


class _Play:
    def __init__(self, port: int, number: int, is_nsqd: bool) -> None:
        self._port = port
        self._is_nsqd = is_nsqd
        self._names = {b"$t": b"topic%d" % number, b"$u": b"other%d" % number}
        self._ids: list[bytes] = []
        self._clients: dict[str, NsqClient] = {}

    def fault(self, exchange: Exchange) -> str:
        with ExitStack() as stack:
            self._stack = stack
            for number, step in enumerate(exchange.steps):
                fault = self._step("", step)
                if fault:
                    return f"step {number}: {fault}"
        return ""

    def _client(self, name: str) -> NsqClient:
        if name not in self._clients:
            self._clients[name] = self._stack.enter_context(NsqClient(self._port))
        return self._clients[name]

    def _step(self, name: str, step: Step) -> str:
        client = self._client(step.name if isinstance(step, By) else name)
        if isinstance(step, By):
            return self._step(step.name, step.step)
        if isinstance(step, bytes):
            client.send(self._filled(step))
        elif isinstance(step, Difference):
            for each in step.nsqd if self._is_nsqd else step.leveret:
                fault = self._step(name, each)
                if fault:
                    return fault
        elif isinstance(step, HalfClose):
            client.half_close()
        elif isinstance(step, Closed):
            client.socket.close()
        elif isinstance(step, Quiet):
            client.send(pub("quiet#ephemeral", b"x"))
            return self._compare(OK, client.receive())
        else:
            return self._compare(step, client.receive())
        return ""

    def _compare(
        self, expected: Answer | Negotiated | Came | End, frame: tuple[int, bytes] | None
    ) -> str:
        if isinstance(expected, End):
            is_right = frame is None
        elif frame is None:
            is_right = False
        elif isinstance(expected, Answer):
            is_right = frame == (expected.kind, self._filled(expected.text))
        elif isinstance(expected, Negotiated):
            pairs = list((DEFAULTS | expected.changes).items())
            is_right = frame[0] == RESPONSE and list(json.loads(frame[1]).items()) == pairs
        else:
            is_right = self._is_message(expected, frame)
        return "" if is_right else f"not {expected} but {frame}"

    def _is_message(self, expected: Came, frame: tuple[int, bytes]) -> bool:
        kind, content = frame
        if kind != MESSAGE:
            return False
        timestamp_ns, attempts = struct.unpack_from(">qH", content)
        message_id, body = content[10:26], content[26:]
        if message_id not in self._ids:
            self._ids.append(message_id)
        return (
            self._filled(expected.id) == message_id
            and (expected.body, expected.attempts) == (body, attempts)
            and abs(timestamp_ns - time.time_ns()) < FRESH_NS
        )

    def _filled(self, octets: bytes) -> bytes:
        for short, name in self._names.items():
            octets = octets.replace(short, name)
        return _UNKNOWN.sub(lambda found: self._ids[int(found[1])], octets)
