"""NSQ clients that misbehave, beside an AMQP client that must not notice.

Times are short and heartbeats many, by IDENTIFY; the bystander speaks AMQP.
"""

from __future__ import annotations

import json
import random
import struct
import threading
from collections.abc import Iterator

import frames_by_hand as wire
import pytest
from broker_process import BrokerProcess
from broker_watch import MIB, connections, memory_bounded, until
from bystander import Bystander
from mutations import MUTATIONS
from nsq_compressed import WRAPPERS, bomb
from nsq_wire import ERROR, MESSAGE, OK, RESPONSE, NsqClient, dpub, identify, mpub, pub, sized
from socket_client import SocketClient
from timeouts import TIMEOUT_SECONDS

pytestmark = pytest.mark.usefixtures("bystander")

GROWTH_BYTES_MAX = 32 * MIB
SMALL_BUFFER_BYTES = 4096
# So long nothing is read.
UNREAD_SECONDS = 1.0
UNKNOWN_ID = b"00000000ffffffff"
# A client's session that uses a bit of everything, without the magic.
SESSION = (
    identify(feature_negotiation=True, heartbeat_interval=1000, msg_timeout=2000)
    + b"NOP\n"
    + pub("mutated", b"one")
    + mpub("mutated", b"two", b"three" * 30)
    + dpub("mutated", 50, b"later")
    + b"SUB mutated c#ephemeral\nRDY 5\nFIN "
    + UNKNOWN_ID
    + b"\nREQ "
    + UNKNOWN_ID
    + b" 10\nTOUCH "
    + UNKNOWN_ID
    + b"\n"
    + pub("mutated", b"four") * 3
    + b"RDY 0\nCLS\n"
)
COMMANDS = {
    "FIN": b"FIN " + UNKNOWN_ID + b"\n",
    "REQ": b"REQ " + UNKNOWN_ID + b" 0\n",
    "TOUCH": b"TOUCH " + UNKNOWN_ID + b"\n",
}


def unread(port: int, *pieces: bytes) -> NsqClient:
    """A client with small buffers; what it is told stays with the broker."""
    client = NsqClient(port, receive_buffer_bytes=SMALL_BUFFER_BYTES)
    client.send(*pieces)
    return client


def flood(client: NsqClient, block: bytes, blocks: int) -> int:
    """Send until the broker takes no more, or has closed; how many blocks it took whole."""
    client.socket.settimeout(UNREAD_SECONDS)
    for sent in range(blocks):
        try:
            client.socket.sendall(block)
        except OSError:
            return sent
    return blocks


def kinds_of(answer: bytes) -> list[int]:
    """The kinds of the frames; AssertionError if the answer is not a row of whole frames."""
    kinds, at = [], 0
    while at < len(answer):
        size, kind = struct.unpack_from(">II", answer, at)
        assert kind in (RESPONSE, ERROR, MESSAGE)
        assert at + 4 + size <= len(answer)
        kinds.append(kind)
        at += 4 + size
    return kinds


def all_of(client: NsqClient) -> bytes:
    """Everything until the broker closes."""
    answer = b""
    try:
        while more := client.socket.recv(65_536):
            answer += more
    except ConnectionResetError:
        pass
    return answer


@pytest.fixture
def port(attacked: BrokerProcess) -> Iterator[int]:
    """Where NSQ is spoken; another client is served behind the test as before it."""
    yield attacked.nsq_port
    with NsqClient(attacked.nsq_port) as client:
        client.send(pub("served", b"x")).ok()
        client.subscribe("served", "c", 1)
        client.send(b"FIN " + client.message().id + b"\n").nothing()


def test_a_session_cut_anywhere_is_answered_as_far_as_it_came(
    attacked: BrokerProcess, port: int
) -> None:
    with memory_bounded(attacked, GROWTH_BYTES_MAX, f"{len(SESSION)} cut sessions"):
        for end in range(len(SESSION)):
            with NsqClient(port) as client:
                client.send(SESSION[:end])
                client.socket.shutdown(1)
                kinds_of(all_of(client))


@pytest.mark.parametrize("sessions", [300, pytest.param(20_000, marks=pytest.mark.soak)])
def test_every_mutated_session_is_answered_or_cut_off(
    sessions: int, seed: int, attacked: BrokerProcess, port: int, bystander: Bystander
) -> None:
    chance = random.Random(seed)
    with memory_bounded(attacked, GROWTH_BYTES_MAX, f"{sessions} mutated sessions"):
        for _ in range(sessions):
            data = bytearray(b"  V2" + SESSION)
            for _ in range(chance.randint(1, 12)):
                if data:
                    chance.choice(MUTATIONS)(data, chance, chance.randrange(len(data)))
            with NsqClient(port, b"") as client:
                try:
                    client.send(bytes(data))
                    client.socket.shutdown(1)
                except OSError:
                    # It was refused before it was all said.
                    continue
                kinds_of(all_of(client))
            assert bystander.failure is None


SIZES = (-1, -(2**31), 2**31 - 1, 0, 200 * MIB)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("line", [b"IDENTIFY\n", b"AUTH\n", b"PUB t\n", b"MPUB t\n", b"DPUB t 1\n"])
def test_a_size_that_may_not_be_is_refused_before_its_octets(
    line: bytes, size: int, attacked: BrokerProcess, port: int
) -> None:
    with (
        memory_bounded(attacked, GROWTH_BYTES_MAX, f"{line!r} of {size}"),
        NsqClient(port) as client,
    ):
        client.send(line + struct.pack(">i", size))
        assert client.error().startswith((b"E_BAD_BODY", b"E_BAD_MESSAGE"))
        assert client.receive() is None


@pytest.mark.parametrize("count", [-1, 0, 2**31 - 1])
def test_a_count_of_messages_that_may_not_be_is_refused(count: int, port: int) -> None:
    with NsqClient(port) as client:
        client.send(b"MPUB t\n" + struct.pack(">ii", 1000, count))
        assert client.error() == b"E_BAD_BODY MPUB invalid message count %d" % count
        assert client.receive() is None


def test_a_line_without_end_ends_the_connection(attacked: BrokerProcess, port: int) -> None:
    with memory_bounded(attacked, GROWTH_BYTES_MAX, "a line of 100 MiB"), NsqClient(port) as client:
        assert flood(client, b"x" * MIB, 100) < 100


@pytest.mark.parametrize("name", COMMANDS)
def test_a_flood_of_unknown_ids_that_reads_no_answer_stops(
    name: str, attacked: BrokerProcess, port: int
) -> None:
    with memory_bounded(attacked, GROWTH_BYTES_MAX, f"{name} of unknown ids, nothing read"):
        client = unread(port, b"SUB flooded c#ephemeral\nRDY 2500\n")
        assert flood(client, COMMANDS[name] * 1_000, 3_000) < 3_000
        client.socket.close()


@pytest.mark.parametrize("command", [b"NOP\n", b"RDY 1\nRDY 0\n", *COMMANDS.values()])
def test_commands_without_end_cost_no_memory(
    command: bytes, attacked: BrokerProcess, port: int
) -> None:
    with memory_bounded(attacked, 2 * GROWTH_BYTES_MAX, f"{command!r} without end"):
        client = NsqClient(port).subscribe("flooded", "c#ephemeral", 2500)
        reader = threading.Thread(target=all_of, args=[client], daemon=True)
        reader.start()
        assert flood(client, command * 10_000, 10) == 10
        client.socket.shutdown(1)
        reader.join(TIMEOUT_SECONDS)
        client.socket.close()


def test_a_consumer_that_never_reads_leaves_the_rest_to_others(
    attacked: BrokerProcess, port: int
) -> None:
    bodies = [bytes(10_000)] * 100
    with NsqClient(port) as publisher:
        for _ in range(30):
            publisher.send(mpub("unread", *bodies)).ok()
    with memory_bounded(attacked, GROWTH_BYTES_MAX, "RDY 2500 and nothing read"):
        silent = unread(port, b"SUB unread c\nRDY 2500\n")
        with NsqClient(port) as client:
            client.subscribe("unread", "c", 100)
            for number in range(3_000):
                if number == 500:
                    # What it held comes back.
                    silent.socket.close()
                client.send(b"FIN " + client.message().id + b"\n")
            client.nothing()


def test_answers_to_publishes_that_are_not_read_stop(attacked: BrokerProcess, port: int) -> None:
    owner = SocketClient(attacked.port)
    owner.open_channel()
    # It keeps one message.
    declare = wire.queue_declare(1, "emptied:c", arguments={"x-max-length": 1})
    owner.ask(declare, wire.QUEUE_DECLARE_OK)
    with NsqClient(port) as client:
        client.subscribe("emptied", "c")
    with memory_bounded(attacked, GROWTH_BYTES_MAX, "OK, nothing read"):
        client = unread(port)
        assert flood(client, pub("emptied", b"x") * 10_000, 200) < 200
        client.socket.close()
    owner.close()


def test_a_message_requeued_without_end_costs_no_memory(attacked: BrokerProcess, port: int) -> None:
    with memory_bounded(attacked, GROWTH_BYTES_MAX, "REQ 2,000 times"), NsqClient(port) as client:
        client.send(pub("requeued", b"x")).ok()
        client.subscribe("requeued", "c", 1)
        for attempts in range(1, 2_001):
            message = client.message()
            assert message.attempts == attempts
            client.send(b"REQ " + message.id + b" 0\n")
        client.send(b"FIN " + client.message().id + b"\n").nothing()


def test_subscriptions_that_come_and_go_leave_nothing(attacked: BrokerProcess, port: int) -> None:
    with memory_bounded(attacked, GROWTH_BYTES_MAX, "300 subscriptions"):
        for number in range(300):
            with NsqClient(port) as client:
                client.send(b"SUB come%d#ephemeral c#ephemeral\nRDY 1\n" % (number % 7))
                if number % 2:
                    client.ok()
    observer = SocketClient(attacked.port)
    for number in range(7):
        queue = f"come{number}#ephemeral:c#ephemeral"
        until(lambda queue=queue: is_gone(observer, queue), f"{queue} is left")  # type: ignore[misc]
    observer.close()


def is_gone(observer: SocketClient, queue: str) -> bool:
    """Is there no queue of this name?"""
    observer.open_channel()
    is_there = observer.find(queue, 1) is not None
    if is_there:
        observer.send(wire.method(1, wire.CHANNEL_CLOSE, wire.close_arguments()))
        observer.expect(wire.CHANNEL_CLOSE_OK)
    return not is_there


def compressed(port: int, stream: str) -> NsqClient:
    """A connection on which deflate or snappy has begun."""
    client = NsqClient(port).send(identify(feature_negotiation=True, **{stream: True}))
    assert client.json()[stream] is True
    return client.upgrade(WRAPPERS[stream]).ok()


BOMBS = {
    "NOP": (b"NOP\n", MIB),
    "PUB": (pub("bombed#ephemeral", bytes(4096 - 26)), 8192),
    "a line without end": (b"x", 64 * MIB),
}


@pytest.mark.parametrize("stream", WRAPPERS)
@pytest.mark.parametrize("name", BOMBS)
def test_few_octets_that_stand_for_many_hold_nobody_up(
    name: str, stream: str, attacked: BrokerProcess, port: int, bystander: Bystander
) -> None:
    octets = bomb(stream, *BOMBS[name], b"BOGUS\n")
    with memory_bounded(attacked, 2 * GROWTH_BYTES_MAX, f"a bomb of {name}"):
        client = compressed(port, stream)
        served = bystander.served
        client.socket.send_compressed(octets)
        # Its last command is a mistake.
        while (frame := client.receive()) is not None and frame[0] != ERROR:
            pass
        served = bystander.served - served
        client.socket.close()
    # It has its turns between those of 1,000 commands.
    assert name != "NOP" or served > 20, served


@pytest.mark.parametrize("stream", WRAPPERS)
def test_all_of_a_compressed_flood_is_answered(
    stream: str, attacked: BrokerProcess, port: int
) -> None:
    """More than one publish window of it: the rest is decoded when there is room again."""
    count = 4_000
    client = compressed(port, stream)
    client.send(pub("flooded#ephemeral", bytes(4_000)) * count)
    client.ok(count)
    client.socket.close()


def test_half_commands_that_are_kept_open_are_ended_by_heartbeats(
    attacked: BrokerProcess, port: int
) -> None:
    halves = [pub("half", bytes(100_000))[:50_000], b"PUB", mpub("half", b"x" * 100)[:-1], b""]
    before = connections(attacked)
    with memory_bounded(attacked, GROWTH_BYTES_MAX, "200 half commands"):
        clients = [
            NsqClient(port).send(identify(heartbeat_interval=1000), halves[number % len(halves)])
            for number in range(200)
        ]
        until(lambda: connections(attacked) <= before, "half commands stay open")
        for client in clients:
            client.socket.close()


def test_names_at_the_limits(port: int) -> None:
    longest = "t" * 64
    ephemeral = "e" * 54 + "#ephemeral"
    with NsqClient(port) as client:
        client.send(pub(longest, b"x"), pub(ephemeral, b"y")).ok(2)
        client.subscribe(longest, longest, 1)
        assert client.message().body == b"x"
    for name in ("t" * 65, "e" * 55 + "#ephemeral", "", "ü", "amq.x", "t:c", "#ephemeral"):
        with NsqClient(port) as client:
            client.send(pub(name, b"x"))
            assert client.error().startswith((b"E_BAD_TOPIC", b"E_BAD_MESSAGE", b"E_INVALID")), name
            assert client.receive() is None


def test_a_body_of_identify_that_is_no_json_of_ours_ends_the_connection(
    attacked: BrokerProcess, port: int
) -> None:
    bodies = [
        b"[" * 100_000,
        b"1" * 100_000,
        b'{"client_id":' * 50_000,
        json.dumps({"heartbeat_interval": 10**300}).encode(),
        b'{"msg_timeout": 1e999}',
        b'{"client_id": "\\ud800"}',
        b"\xff\xfe",
        b"{" + b",".join(b'"%d":{}' % n for n in range(200_000)) + b"}",
    ]
    with memory_bounded(attacked, 4 * GROWTH_BYTES_MAX, "bodies of IDENTIFY"):
        for body in bodies:
            with NsqClient(port) as client:
                client.send(b"IDENTIFY\n", sized(body))
                answer = client.receive()
                assert answer == OK or (answer is not None and answer[1].startswith(b"E_BAD_BODY"))
