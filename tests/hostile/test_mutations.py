"""Random mutations of a valid session, from a seed: each is answered or cut off, none does harm.

In `make test` some 26,000 mutations in sessions of one to twelve each over sockets, and 10,000
sessions of one each through the decoder alone. In `make soak` 100,000 mutations in such sessions
and 100,000 sessions of one each over sockets, and 300,000 through the decoder.
"""

from __future__ import annotations

import random
import socket
import struct
from collections import Counter

import frames_by_hand as wire
import pytest
from broker_process import BrokerProcess
from broker_watch import MIB, memory_bounded
from bystander import Bystander
from leveret.amqp_frames.decoder import Decoder
from leveret.amqp_frames.errors import HardError
from mutations import SESSION, mutated
from socket_client import SocketClient
from timeouts import TIMEOUT_SECONDS

# So many sessions at the same time.
AT_ONCE = 32
GROWTH_BYTES_MAX = 32 * MIB
INTERNAL_ERROR = 541


def exchange(control: SocketClient, port: int, sessions: list[bytes]) -> list[bytes]:
    """Send each session on a connection of its own; all that came back on each."""
    sockets = [
        socket.create_connection(("127.0.0.1", port), timeout=TIMEOUT_SECONDS) for _ in sessions
    ]
    for each, session in zip(sockets, sessions, strict=True):
        try:
            each.sendall(session)
        except OSError:
            # Refused before it was all said.
            continue
    # The broker has looked at all of them before it answers this, and more than once.
    for _ in range(3):
        control.publish_confirmed("", "nowhere", b"")
    answers = []
    for each in sockets:
        answers.append(b"")
        try:
            each.shutdown(socket.SHUT_WR)
            while received := each.recv(65_536):
                answers[-1] += received
        except TimeoutError:
            raise
        except OSError:
            # Reset: closed with something of ours unread.
            pass
        each.close()
    return answers


def closing_code(answer: bytes) -> str:
    """How the broker ended it: the code of its connection.close, or that of its last channel's.

    AssertionError if the answer is not a row of whole frames.
    """
    code = "nothing said"
    at = 8 if answer.startswith(wire.PROTOCOL_HEADER) else 0
    while at < len(answer):
        kind, channel, size = struct.unpack_from(">BHI", answer, at)
        assert kind in (1, 2, 3, 8)
        assert answer[at + 7 + size] == 0xCE
        ids = answer[at + 7 : at + 11]
        if kind == 1 and ids in (b"\0\x0a\0\x32", b"\0\x14\0\x28"):
            number = int.from_bytes(answer[at + 11 : at + 13], "big")
            assert number != INTERNAL_ERROR, answer[at : at + 8 + size]
            code = f"channel {number}" if channel else str(number)
        at += 8 + size
    return code


def test_the_session_itself_is_valid(attacked: BrokerProcess) -> None:
    client = SocketClient(attacked.port, opens=False)
    client.send(SESSION)
    # The answer to its last method, the second basic.qos.
    client.expect(wire.QOS_OK)
    client.expect(wire.QOS_OK)
    client.close()


@pytest.mark.parametrize(
    ("sessions", "mutations_max"),
    [
        (4_000, 12),
        pytest.param(16_000, 12, marks=pytest.mark.soak),
        pytest.param(100_000, 1, marks=pytest.mark.soak),
    ],
)
def test_every_mutated_session_is_answered_or_cut_off(
    sessions: int, mutations_max: int, seed: int, attacked: BrokerProcess, bystander: Bystander
) -> None:
    chance = random.Random(seed)
    control = SocketClient(attacked.port)
    control.open_channel(confirm=True)
    ends: Counter[str] = Counter()
    mutations = 0
    with memory_bounded(attacked, GROWTH_BYTES_MAX, f"{sessions} mutated sessions"):
        for first in range(0, sessions, AT_ONCE):
            counts = [chance.randint(1, mutations_max) for _ in range(AT_ONCE)]
            mutations += sum(counts)
            data = [
                mutated(chance, count, number % 10_000)
                for number, count in enumerate(counts, first)
            ]
            ends.update(map(closing_code, exchange(control, attacked.port, data)))
            assert bystander.failure is None
    # On average half of the most that a session may have.
    assert mutations >= sessions * mutations_max // 2
    control.close()
    print(f"\n{mutations} mutations in {ends.total()} sessions ended with: {dict(ends)}")


@pytest.mark.parametrize("sessions", [10_000, pytest.param(300_000, marks=pytest.mark.soak)])
def test_the_decoder_takes_any_mutation_without_an_exception(sessions: int, seed: int) -> None:
    chance = random.Random(seed)
    codes: Counter[int] = Counter()
    for _ in range(sessions):
        decoder = Decoder(131_072, 1 << 27, 1 << 28)
        # Behind the protocol header, which is not the decoder's.
        data = mutated(chance, 1)[len(wire.PROTOCOL_HEADER) :]
        cut = chance.randrange(len(data) + 1)
        decoder.feed(data[:cut])
        decoder.feed(data[cut:])
        error = decoder.error
        assert error is None or isinstance(error, HardError)
        codes[error.reply_code if error else 0] += 1
    print(f"\n{sessions} mutated sessions decoded, by code of the error (0: none): {dict(codes)}")
