"""NSQ clients that misbehave, seen from inside the broker: limits count, nothing is left."""

from __future__ import annotations

import gc
import random
import socket
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import leveret
import pytest
from certificates import Certificates
from insides import context_of, wait_until
from leveret.actors.runtime.runtime import LoopActor
from leveret.commands.control_client import ask_broker
from log_lines import LogLines
from nsq_wire import NsqClient, identify, pub
from small_disk import small_disk

Nsq = Callable[[], NsqClient]
MIB = 1 << 20


def running_actors() -> Counter[str]:
    """How many actors of each kind there are in this process that have not stopped."""
    gc.collect()
    actors = [each for each in gc.get_objects() if isinstance(each, LoopActor)]
    return Counter(type(each).__name__ for each in actors if not each.actor_stopped.is_set())


def change(broker: leveret.Broker, what: str, **given: object) -> None:
    """As `leveret limits` does."""
    ask_broker(broker.configuration.data_dir, what, given)


def test_topics_and_channels_count_as_queues_of_the_vhost(nsq: Nsq, broker: leveret.Broker) -> None:
    nsq().subscribe("t", "c")
    change(broker, "vhost limits", vhost="/", limits={"max-queues": 2})
    nsq().subscribe("t", "d")
    client = nsq().send(b"SUB t e\n")
    assert client.error() == (
        b"E_SUB_FAILED SUB failed cannot declare queue 't:e': "
        b"queue limit in vhost '/' (2) is reached"
    )
    assert client.receive() is None
    client = nsq().send(pub("t", b"x")).ok()
    client.send(pub("u", b"x"))
    assert client.error() == (
        b"E_PUB_FAILED PUB failed cannot create topic 'u': queue limit in vhost '/' (2) is reached"
    )
    assert client.receive() is None
    # Nothing of it was made.
    assert context_of(broker).vhosts["/"].table.find_exchange("u") is None


@pytest.mark.parametrize("what", ["vhost", "user"])
def test_connections_count_for_the_limits_of_vhost_and_user(
    what: str, nsq: Nsq, broker: leveret.Broker
) -> None:
    first = nsq().send(pub("t", b"x")).ok()
    name = {"vhost": "/"} if what == "vhost" else {"user": "guest"}
    change(broker, f"{what} limits", **name, limits={"max-connections": 1})
    client = nsq().send(pub("t", b"x"))
    assert client.error().startswith(b"E_UNAUTHORIZED ")
    assert client.receive() is None
    first.send(pub("t", b"y")).ok()
    first.socket.close()
    wait_until(lambda: not context_of(broker).open_connections)
    nsq().send(pub("t", b"z")).ok()


def test_thousands_of_topics_are_made_and_others_served_meanwhile(
    nsq: Nsq, broker: leveret.Broker
) -> None:
    other = nsq().subscribe("other", "c", 1)
    maker = nsq()
    maker.send(*[pub(f"topic{number}", b"x") for number in range(2_000)])
    other.send(pub("other", b"x"))
    assert {other.receive() is not None, other.receive() is not None} == {True}
    maker.ok(2_000)
    assert nsq().subscribe("topic1999", "c", 1).message().body == b"x"


class TestWithCertificate:
    @pytest.fixture
    def settings(self, certificates: Certificates) -> dict[str, object]:
        return {"nsq_port": 0, "handshake_timeout_ms": 500, **certificates.settings()}

    @pytest.mark.parametrize("hello", [b"", b"\x16\x03\x01\x02\x00\x01", b"\x16\x03", b"PUB t\n"])
    @pytest.mark.parametrize("end", ["close", "reset", "silence"])
    def test_nothing_is_left_of_a_tls_handshake_that_stops_midway(
        self, hello: bytes, end: str, nsq: Nsq, broker: leveret.Broker
    ) -> None:
        before = running_actors()
        client = nsq().send(identify(feature_negotiation=True, tls_v1=True))
        assert client.json()["tls_v1"] is True
        client.send(hello)
        if end == "reset":
            client.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        if end == "silence":
            with suppress(OSError):
                while client.socket.recv(1000):
                    pass
        client.socket.close()
        wait_until(lambda: running_actors() == before)
        assert len(context_of(broker).unopened) == 0


def test_nothing_is_left_of_clients_that_go_in_the_middle(
    nsq: Nsq, broker: leveret.Broker, seed: int
) -> None:
    chance = random.Random(seed)
    nsq().send(pub("t", b"x")).ok()
    wait_until(lambda: len(context_of(broker).open_connections) == 1)
    before = running_actors()
    said = (
        identify(feature_negotiation=True, deflate=True),
        identify(feature_negotiation=True, snappy=True),
        b"SUB t c#ephemeral\nRDY 10\n" + pub("t", bytes(100_000)) + b"CLS\n",
        b"AUTH\n\0\0\0\x0bguest:guest" + pub("u#ephemeral", b"x"),
        b"AUTH\n\0\0\0\x0bguest:wrong",
        b"BOGUS\n" * 10,
    )
    for _ in range(200):
        client = nsq()
        data = chance.choice(said)
        with suppress(OSError):
            client.send(data[: chance.randrange(len(data) + 1)])
        client.socket.close()
    # By then all of them have been accepted.
    last = nsq().send(pub("t", b"x")).ok()
    last.socket.close()
    context = context_of(broker)
    wait_until(lambda: len(context.open_connections) == 1)
    wait_until(lambda: running_actors()["NsqConnection"] == before["NsqConnection"])
    wait_until(lambda: running_actors()["Writer"] == before["Writer"])
    wait_until(lambda: context.node_window.used_bytes == 0)
    assert len(context.unopened) == 0
    assert context.node_outlet.used_bytes == 0


@pytest.mark.parametrize("kind", ["tmpfs", "ext4"])
def test_a_flood_against_a_full_disk_is_held_back_until_there_is_room(
    kind: str, tmp_path: Path
) -> None:
    with (
        small_disk(kind, tmp_path, 48 * MIB) as disk,
        leveret.Broker(
            data_dir=disk.path / "data",
            port=0,
            nsq_port=0,
            disk_free_bytes_min=8 * MIB,
            disk_check_interval_ms=10,
            password_hash_cost=10,
            log_level="error",
        ) as broker,
    ):
        assert broker.nsq_port
        consumer = NsqClient(broker.nsq_port).subscribe("t", "c")
        publisher = NsqClient(broker.nsq_port)
        publisher.send(pub("t", b"before")).ok()
        disk.fill(4 * MIB)
        wait_until(lambda: bool(context_of(broker).alarms.reason))
        publisher.send(pub("t", bytes(10_000)) * 20)
        # Who consumes goes on.
        consumer.send(b"RDY 1\n")
        message = consumer.message()
        assert message.body == b"before"
        consumer.send(b"FIN " + message.id + b"\n").nothing()
        publisher.socket.settimeout(0.2)
        with pytest.raises(TimeoutError):
            publisher.receive()
        publisher.socket.settimeout(60)
        disk.empty()
        publisher.ok(20)
        consumer.send(b"RDY 20\n")
        assert all(each.body == bytes(10_000) for each in consumer.messages(20))
        publisher.socket.close()
        consumer.socket.close()


class TestLogged:
    @pytest.fixture
    def settings(self, log: LogLines) -> dict[str, object]:
        del log
        return {"nsq_port": 0, "log_level": "warning"}

    def test_the_log_says_what_a_client_did_wrong(self, log: LogLines, nsq: Nsq) -> None:
        client = nsq().send(b"BOGUS\n")
        assert client.error() == b"E_INVALID invalid command BOGUS"
        assert client.receive() is None
        wait_until(lambda: bool(log.of("connection.error")))
        [line] = log.of("connection.error")
        assert line["error"] == "E_INVALID invalid command BOGUS"
        assert line["level"] == "warning"
