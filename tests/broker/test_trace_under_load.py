"""The trace of a broker under load: switched while it runs, and on a disk that stalls."""

from __future__ import annotations

import io
import json
import os
import select
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import leveret
import pytest
from insides import wait_until
from leveret.amqp_frames.methods import BasicAck, BasicDeliver, BasicQos, BasicQosOk
from leveret.commands.command_line import main
from leveret.commands.control_client import ask_broker
from leveret.logs.trace import files as trace_files
from traced import client_of, traced
from wire import PERSISTENT, Client

PUBLISHERS = 3
BATCH = 100
# The longest event of such a batch.
EVENT_BYTES_MAX = 600
END = b"end"


class Load:
    """Publishers that wait for confirms, and consumers that ack, each on a connection."""

    def __init__(self, broker: leveret.Broker) -> None:
        self._broker = broker
        self._ending = threading.Event()
        self.published = [0] * PUBLISHERS
        self.bodies: list[bytes] = []
        self.failures: list[BaseException] = []
        self._threads = [
            threading.Thread(target=self._guarded, args=(run, number))
            for number in range(PUBLISHERS)
            for run in (self._publish, self._consume)
        ]

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_exception: object) -> None:
        self._ending.set()
        for thread in self._threads:
            thread.join()

    @property
    def count(self) -> int:
        """How many publishes are confirmed."""
        return sum(self.published)

    def run_for(self, publishes: int) -> None:
        """Return when so many more are confirmed."""
        until = self.count + publishes
        wait_until(lambda: self.count >= until or bool(self.failures))

    def _guarded(self, run: Callable[[int], None], number: int) -> None:
        try:
            run(number)
        except BaseException as failure:
            self.failures.append(failure)

    def _publish(self, number: int) -> None:
        with client_of(self._broker) as client:
            while not self._ending.is_set():
                first = self.published[number]
                bodies = [b"%d-%d" % (number, first + at) for at in range(BATCH)]
                client.publish_all(f"queue{number}", *bodies, properties=PERSISTENT)
                self.published[number] += BATCH
            client.publish_all(f"queue{number}", END, properties=PERSISTENT)
            client.close()

    def _consume(self, number: int) -> None:
        with Client(self._broker.host, self._broker.port) as client:
            client.log_in()
            client.open_channel()
            assert client.ask(1, BasicQos(0, 300, False)) == BasicQosOk()
            client.consume(f"queue{number}")
            body = b""
            while body != END:
                delivered = client.expect_type(1, BasicDeliver)
                assert not delivered.redelivered
                body = client.read_content(1).body
                self.bodies.append(body)
                if len(self.bodies) % 50 == 0 or body == END:
                    client.send_methods(1, BasicAck(delivered.delivery_tag, multiple=True))
            client.close()


def test_commands_switch_change_and_refuse_the_trace_under_load_and_nothing_is_lost(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    said = Said(capsys)
    data_dir = ["--data-dir", str(tmp_path / "data")]
    with traced(tmp_path, trace_one_of=0, log_level="info") as broker:
        with client_of(broker) as client:
            for number in range(PUBLISHERS):
                client.declare(f"queue{number}", durable=True)
        with Load(broker) as load:
            for arguments, code in (
                (["on"], 0),
                (["on", "--rate", "0.01"], 0),
                (["on", "--rate", "2"], 1),
                (["on", "--rate", "0.5", "--queue", "queue1"], 0),
                (["on", "--queue", "missing"], 1),
                (["off"], 0),
                (["on", "--user", "guest"], 0),
                (["status"], 0),
                (["off"], 0),
            ):
                load.run_for(600)
                assert main(["trace", *arguments, *data_dir]) == code
            load.run_for(600)
        assert load.failures == []
        sent = {
            b"%d-%d" % (number, at)
            for number, count in enumerate(load.published)
            for at in range(count)
        }
        assert len(load.bodies) == len(sent) + PUBLISHERS
        assert set(load.bodies) == sent | {END}
        with client_of(broker) as client:
            counts = [client.counts(f"queue{number}") for number in range(PUBLISHERS)]
            assert counts == [(0, 0)] * PUBLISHERS
    faults = "connection.error", "connection.failed", "actor.failed", "trace.failed", "trace.lost"
    assert said.logged(*faults) == []
    assert main(["trace", "check", *data_dir]) == 0, said.out()


class Said:
    """The output of commands, and the log of the broker, which runs in this process."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self._log = ""

    def out(self) -> str:
        """The output since the last look."""
        captured = self._capsys.readouterr()
        self._log += captured.err
        return captured.out

    def logged(self, *events: str) -> list[dict[str, Any]]:
        self._log += self._capsys.readouterr().err
        lines = [json.loads(line) for line in self._log.splitlines() if line.startswith("{")]
        return [line for line in lines if line["event"] in events]


class Pipe:
    """In place of the trace's file: it takes 64 KiB, and more only when somebody reads."""

    def __init__(self) -> None:
        self._reading, self._writing = os.pipe()
        self.taken = b""

    def create(self, _path: Path) -> io.FileIO:
        return io.FileIO(os.dup(self._writing), "w")

    def has_said(self, lost: int) -> bool:
        """Read the bytes that have come out of it; do they say that so many events are missing?"""
        readable, _, _ = select.select([self._reading], [], [], 0.01)
        if readable:
            self.taken += os.read(self._reading, 1 << 20)
        return lost_in(self.taken) == lost

    def close(self) -> None:
        os.close(self._reading)
        os.close(self._writing)


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[Pipe]:
    made = Pipe()
    monkeypatch.setattr(trace_files, "create_file", made.create)
    yield made
    made.close()


def best_seconds(client: Client, rounds: int) -> float:
    """The shortest of so many rounds of a hundred confirms."""
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        client.publish_all("queue", *[b"x" * 100] * BATCH, properties=PERSISTENT)
        times.append(time.perf_counter() - begun)
    return min(times)


def test_a_stalled_trace_disk_slows_no_confirm_and_the_loss_is_told_everywhere(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    pipe: Pipe,
) -> None:
    said = Said(capsys)
    data_dir = tmp_path / "data"
    settings = {"trace_one_of": 0, "trace_buffer_bytes_max": 65_536, "log_level": "warning"}
    with traced(tmp_path, **settings) as broker, client_of(broker) as client:
        client.declare("queue", durable=True)
        best_seconds(client, 20)
        off_seconds = best_seconds(client, 50)
        assert main(["trace", "on", "--data-dir", str(data_dir)]) == 0
        # A pipe takes 64 KiB, the ring as much: then events are dropped. They may be before, too,
        # while the trace's thread waits for its turn; it then takes what waits.
        rounds = 0
        while not is_full(status := ask_broker(data_dir, "trace status", {})):
            best_seconds(client, 1)
            rounds += 1
            assert rounds < 1000
        stalled_seconds = best_seconds(client, 50)
        # What tracing itself costs is measured elsewhere. That these rounds have ended says that
        # none waited for the trace's disk; the best of them took no time for it, either.
        assert stalled_seconds < off_seconds + 5
        assert client.counts("queue") == ((120 + rounds) * BATCH, 0)
        [lost, *_] = said.logged("trace.lost")
        assert (lost["level"], lost["dropped"]) == ("warning", 1)
        said.out()
        assert main(["trace", "status", "--data-dir", str(data_dir)]) == 0
        dropped = dropped_by(data_dir)
        assert dropped > status["dropped"]
        waiting = ask_broker(data_dir, "trace status", {})["waiting_bytes"]
        told = f": {waiting} of 65536 bytes waiting, {dropped} events dropped\n"
        assert said.out().endswith(told)
        # The disk comes back: the trace says what it misses, the end of the trace included.
        assert main(["trace", "off", "--data-dir", str(data_dir)]) == 0
        # The last event, of the end, is dropped, too, unless it is so short that it finds room.
        wait_until(lambda: pipe.has_said(dropped_by(data_dir)))
        assert dropped <= dropped_by(data_dir) <= dropped + 1
        dropped = dropped_by(data_dir)
        wait_until(lambda: sum(line["dropped"] for line in said.logged("trace.lost")) == dropped)
        assert ask_broker(data_dir, "trace status", {})["waiting_bytes"] == 0


def is_full(status: dict[str, Any]) -> bool:
    """Is there no room for another event, and were some dropped?"""
    room = status["waiting_bytes_max"] - status["waiting_bytes"]
    return bool(status["dropped"]) and room < EVENT_BYTES_MAX


def dropped_by(data_dir: Path) -> int:
    """How many events the broker says that it has dropped."""
    dropped: int = ask_broker(data_dir, "trace status", {})["dropped"]
    return dropped


def lost_in(data: bytes) -> int:
    """How many events this trace says it misses."""
    lines = [json.loads(line) for line in data[: data.rfind(b"\n") + 1].splitlines()]
    return sum(line["dropped"] for line in lines if line["event"] == "trace.lost")
