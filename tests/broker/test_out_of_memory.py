"""Without memory the broker ends, at once and with one line, wherever that comes up."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import weakref
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import leveret
import pytest
from insides import context_of, failure_of, inside, queue_actor, wait_until
from leveret.actors.channel.channel import Channel
from leveret.actors.connection.listener import Connection
from leveret.actors.disk.journal import JournalActor
from leveret.actors.queue.queue import Queue
from leveret.actors.runtime.runtime import LoopInbox, Runtime
from leveret.actors.runtime.ticker import Ticker
from leveret.actors.topology.catalog import CatalogActor
from leveret.amqp_frames.constants import PROTOCOL_HEADER
from leveret.amqp_frames.methods import ChannelOpen, ChannelOpenOk, QueueDeclare
from leveret.logs.trace.files import TraceFiles
from leveret.logs.trace.trace import TraceFilter
from leveret.storage.stores import Stores
from log_lines import LogLines
from served import Served
from timeouts import TIMEOUT_SECONDS
from wire import PERSISTENT, Client, methods_of, publish

MIB = 1 << 20
LIVE = Path(__file__).parents[1] / "live"


def out_of_memory(*_arguments: object, **_more: object) -> NoReturn:
    raise MemoryError


# Where an allocation may fail: in an actor's turn, in callbacks of the event loop and of its
# transports, in the threads.
PLACES: dict[str, tuple[type, str]] = {
    "channel": (Channel, "on_receive"),
    "queue": (Queue, "on_idle"),
    "told": (LoopInbox, "put"),
    "read": (Connection, "buffer_updated"),
    "wake-up": (Runtime, "wake"),
    "timer": (Ticker, "ring"),
    "journal": (JournalActor, "on_gathered"),
    "catalog": (CatalogActor, "on_gathered"),
    "trace": (TraceFiles, "write_waiting"),
}


class Embedded:
    """A broker that has not started, and its log."""

    def __init__(self, directory: Path) -> None:
        self.log = LogLines()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stderr", self.log.stream)
            self.broker = leveret.Broker(
                data_dir=directory / "data",
                port=0,
                log_format="json",
                password_hash_cost=10,
            )

    def assert_one_line(self) -> None:
        """One line, and none of the actors that fell."""
        assert len(self.log.of("broker.failed")) == 1
        assert not self.log.of("actor.failed")

    def assert_starts_again(self) -> None:
        """The directory is free."""
        self.broker.start()
        self.broker.stop()


@pytest.fixture
def embedded(tmp_path: Path) -> Embedded:
    return Embedded(tmp_path)


@pytest.mark.parametrize("place", PLACES)
def test_an_embedded_broker_ends_and_its_host_lives(
    embedded: Embedded, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    broker = embedded.broker
    broker.start()
    with Client(broker.host, broker.port).log_in(heartbeat_seconds=1) as client:
        client.open_channel(1)
        client.declare("q", durable=True)
        context_of(broker).trace.start(TraceFilter(1, frozenset()), "test")
        with monkeypatch.context() as patch:
            patch.setattr(*PLACES[place], out_of_memory)
            client.send(publish("q", b"message", PERSISTENT))
            client.send_methods(1, QueueDeclare(queue="r", durable=True))
            # The event loop asks for the method once for each connection. It may have ended by now.
            with suppress(OSError), Client(broker.host, broker.port) as other:
                other.send(PROTOCOL_HEADER)
                wait_until(lambda: broker.failure is not None)
        wait_until(lambda: broker.failure is not None)
    assert isinstance(failure_of(broker), MemoryError)
    embedded.assert_one_line()
    embedded.assert_starts_again()


def test_no_memory_to_check_a_password_is_no_wrong_password(
    embedded: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_arguments: object, **_more: object) -> NoReturn:
        raise ValueError("[digital envelope routines] malloc failure")

    broker = embedded.broker
    broker.start()
    monkeypatch.setattr("hashlib.scrypt", refuse)
    with Client(broker.host, broker.port) as client, pytest.raises(AssertionError):
        client.log_in()
    assert isinstance(failure_of(broker), MemoryError)
    embedded.assert_one_line()


def test_a_start_without_memory_raises(embedded: Embedded, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Stores, "begin_journal", out_of_memory)
        with pytest.raises(MemoryError):
            embedded.broker.start()
    embedded.assert_one_line()
    embedded.assert_starts_again()


def test_the_memory_of_a_broker_that_has_ended_is_its_host_s(
    embedded: Embedded, monkeypatch: pytest.MonkeyPatch
) -> None:
    broker = embedded.broker
    broker.start()
    with Client(broker.host, broker.port).log_in() as client:
        client.open_channel(1)
        client.declare("q")
        client.send(publish("q", bytes(1000)) * 100)
        client.nothing_more()
        queue = weakref.ref(inside(queue_actor(broker, "q")))
        monkeypatch.setattr(Channel, "on_receive", out_of_memory)
        client.send(publish("q"))
        wait_until(lambda: broker.failure is not None)
    failure_of(broker)
    assert queue() is None


# --- Under a real limit


def address_space(pid: int) -> int:
    """The process's memory, in bytes."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[0])
    return pages * resource.getpagesize()


@pytest.fixture(scope="module")
def idle_bytes(tmp_path_factory: pytest.TempPathFactory) -> int:
    """The address space of a broker that does nothing."""
    with Served(tmp_path_factory.mktemp("idle")) as served:
        return address_space(served.process.pid)


def messages(client: Client) -> None:
    client.declare("q")
    while True:
        client.send(publish("q", bytes(1000)) * 100)


def channels(client: Client) -> None:
    # Small objects only, to the last byte of what there is.
    client.send(*(methods_of(channel, ChannelOpen()) for channel in range(2, 2_000)))
    for channel in range(2, 2_000):
        client.expect(channel, ChannelOpenOk())


@pytest.mark.parametrize("flood", [messages, channels], ids=lambda flood: flood.__name__)
def test_a_process_under_a_limit_ends_with_one_line_and_a_code(
    tmp_path: Path, idle_bytes: int, flood: Callable[[Client], None]
) -> None:
    limit = idle_bytes + 64 * MIB

    def limited() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    clients: list[Client] = []
    with Served(tmp_path, limited, password_hash_cost=10) as served:
        with suppress(OSError, AssertionError):
            while True:
                clients.append(Client(served.host, served.port).log_in())
                clients[-1].open_channel(1)
                flood(clients[-1])
        assert served.exit_code() == 1
        lines = [json.loads(line) for line in served.log().splitlines()]
        errors = [line for line in lines if line["level"] == "error"]
        assert [line["event"] for line in errors] == ["broker.failed"]
        assert "out of memory" in errors[0]["error"]
        assert len(lines) < 100
    for client in clients:
        client.drop()


HOST = """
import resource, sys
sys.path.insert(0, {live!r})
import leveret
from wire import Client, publish

broker = leveret.Broker(data_dir="data", port=0, log_level="error", password_hash_cost=10)
broker.start()
with open("/proc/self/statm") as statm:
    used = int(statm.read().split()[0]) * resource.getpagesize()
_, hard = resource.getrlimit(resource.RLIMIT_AS)
resource.setrlimit(resource.RLIMIT_AS, (used + (64 << 20), hard))
try:
    with Client(broker.host, broker.port).log_in() as client:
        client.open_channel(1)
        client.declare("q")
        while True:
            client.send(publish("q", bytes(10_000)) * 10)
except OSError:
    pass
try:
    broker.stop()
except leveret.BrokerFailedError as failed:
    print(isinstance(failed.__cause__, MemoryError), len(bytes(32 << 20)))
"""


def test_a_host_under_a_limit_outlives_its_broker_and_has_the_memory(tmp_path: Path) -> None:
    program = HOST.format(live=str(LIVE))
    finished = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == f"True {32 * MIB}\n"
    assert [json.loads(line)["event"] for line in finished.stderr.splitlines()] == ["broker.failed"]
