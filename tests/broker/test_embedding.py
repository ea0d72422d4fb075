"""A broker inside a program leaves the program's own things alone."""

from __future__ import annotations

import gc
import logging
import signal
import subprocess
import sys
import threading
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import leveret
import psutil
import pykka
import pytest
import structlog
from insides import fail, queue_actor
from leveret.amqp_frames.methods import BasicAck
from leveret.broker import run_on_event_loop
from timeouts import TIMEOUT_SECONDS
from wire import PERSISTENT, Client, publish


def used(broker: leveret.Broker) -> None:
    """Make it do a bit of everything."""
    with Client(broker.host, broker.port).log_in() as client:
        client.open_channel(1, confirms=True)
        client.declare("q", durable=True)
        client.publish_all("q", b"1", b"2", properties=PERSISTENT)
        client.consume("q")
        client.read_method(1)


class Greeter(pykka.ThreadingActor):
    def on_receive(self, message: object) -> str:
        return f"hello {message}"


def test_the_host_s_actors_are_neither_joined_nor_stopped(broker: leveret.Broker) -> None:
    greeter = Greeter.start()
    try:
        used(broker)
        assert pykka.ActorRegistry.get_all() == [greeter]
        # An actor of the broker that fails stops none of the host's.
        with Client(broker.host, broker.port).log_in() as client:
            client.open_channel()
            client.declare("r")
            fail(queue_actor(broker, "r"))
            client.nothing_more()
        broker.stop()
        assert greeter.ask("world") == "hello world"
    finally:
        greeter.stop()


def test_the_host_s_stop_of_all_its_actors_does_not_stop_the_broker(
    broker: leveret.Broker,
) -> None:
    Greeter.start()
    pykka.ActorRegistry.stop_all()
    used(broker)


def test_settings_of_the_process_stay_as_they_were(tmp_path: Path) -> None:
    before = (
        sys.getswitchinterval(),
        [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)],
        structlog.get_config(),
        logging.getLogger().handlers[:],
        logging.getLogger().level,
        sys.excepthook,
        threading.excepthook,
    )
    with leveret.Broker(data_dir=tmp_path / "data", port=0, log_level="error") as broker:
        used(broker)
        during = (
            sys.getswitchinterval(),
            [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)],
            structlog.get_config(),
            logging.getLogger().handlers[:],
            logging.getLogger().level,
            sys.excepthook,
            threading.excepthook,
        )
    assert during == before


def test_nothing_is_left_of_a_broker_that_has_stopped(tmp_path: Path) -> None:
    def counts() -> tuple[int, int]:
        gc.collect()
        process = psutil.Process()
        return threading.active_count(), process.num_fds()

    with leveret.Broker(data_dir=tmp_path / "first", port=0, log_level="error") as broker:
        used(broker)
    before = counts()
    for number in range(3):
        directory = tmp_path / str(number)
        with leveret.Broker(data_dir=directory, port=0, log_level="error") as broker:
            used(broker)
    # What another test has left may go meanwhile.
    assert all(now <= then for now, then in zip(counts(), before, strict=True))


def test_two_brokers_in_one_process_are_two(tmp_path: Path) -> None:
    with (
        leveret.Broker(data_dir=tmp_path / "1", port=0, log_level="error") as one,
        leveret.Broker(data_dir=tmp_path / "2", port=0, log_level="error") as two,
        Client(one.host, one.port).log_in() as first,
        Client(two.host, two.port).log_in() as second,
    ):
        assert one.port != two.port
        for client in (first, second):
            client.open_channel(1, confirms=True)
            client.declare("q")
        first.send(publish("q"))
        first.expect(1, BasicAck(1, False))
        assert first.counts("q") == (1, 0)
        assert second.counts("q") == (0, 0)


def test_a_broker_that_cannot_start_says_why_and_leaves_nothing(
    tmp_path: Path, broker: leveret.Broker
) -> None:
    threads = threading.active_count()
    with pytest.raises(leveret.StartError, match=f"cannot listen on 127.0.0.1:{broker.port}"):
        leveret.Broker(data_dir=tmp_path / "other", port=broker.port, log_level="error").start()
    with pytest.raises(leveret.StartError, match="in use by another broker"):
        leveret.Broker(data_dir=tmp_path / "data", port=0, log_level="error").start()
    assert threading.active_count() <= threads
    used(broker)


def test_a_setting_that_is_wrong_is_told_when_it_is_made() -> None:
    with pytest.raises(leveret.ConfigurationError, match="port: 70000 is not between 0 and 65535"):
        leveret.Broker(port=70000)


def test_stopping_twice_or_before_the_start_is_no_mistake(tmp_path: Path) -> None:
    broker = leveret.Broker(data_dir=tmp_path / "data", port=0, log_level="error")
    broker.stop()
    broker.start()
    broker.stop()
    broker.stop()


def test_a_broker_that_was_stopped_can_be_started_again(tmp_path: Path) -> None:
    broker = leveret.Broker(
        data_dir=tmp_path / "data", port=0, log_level="error", password_hash_cost=10
    )
    for _ in range(2):
        with broker:
            used(broker)
            with pytest.raises(leveret.StartError, match="this broker runs already"):
                broker.start()
    with broker, pytest.raises(leveret.StartError, match="in use by another broker"):
        leveret.Broker(broker.configuration).start()


def test_a_stop_while_it_starts_is_not_forgotten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, stopped = threading.Event(), threading.Event()

    def late(main: Coroutine[Any, Any, None]) -> None:
        begun.set()
        assert stopped.wait(TIMEOUT_SECONDS)
        run_on_event_loop(main)

    monkeypatch.setattr("leveret.broker.run_on_event_loop", late)
    broker = leveret.Broker(data_dir=tmp_path, port=0, log_level="error", password_hash_cost=10)
    starting = threading.Thread(target=broker.start, daemon=True)
    starting.start()
    assert begun.wait(TIMEOUT_SECONDS)
    stopping = threading.Thread(target=broker.stop, daemon=True)
    stopping.start()
    stopping.join(0.05)
    stopped.set()
    for thread in (starting, stopping):
        thread.join(TIMEOUT_SECONDS)
        assert not thread.is_alive()


def test_a_program_may_go_to_another_directory_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    broker = leveret.Broker(
        data_dir="data", port=0, log_level="error", segment_bytes_max=1 << 20, password_hash_cost=10
    )
    with broker:
        monkeypatch.chdir("/")
        with Client(broker.host, broker.port).log_in() as client:
            client.open_channel(1, confirms=True)
            client.declare("q", durable=True)
            # Each begins a segment of the journal.
            client.publish_all("q", *[bytes(1 << 20)] * 3, properties=PERSISTENT)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["data"]
    assert broker.failure is None


def test_a_process_that_is_forked_meanwhile_does_not_keep_the_directory(tmp_path: Path) -> None:
    program = (
        "import leveret, os, signal\n"
        "def broker(): return leveret.Broker(data_dir='data', port=0, password_hash_cost=10)\n"
        "with broker():\n"
        "    child = os.fork()\n"
        "    if not child: signal.pause()\n"
        "try:\n"
        "    with broker(): print('again')\n"
        "finally:\n"
        "    os.kill(child, signal.SIGKILL)\n"
    )
    assert output_of(program, tmp_path) == "again\n"


def test_a_program_that_forgets_to_stop_its_broker_ends_all_the_same(tmp_path: Path) -> None:
    program = (
        "import leveret\n"
        "broker = leveret.Broker(data_dir='data', port=0)\n"
        "broker.start()\n"
        "print('done')\n"
    )
    assert output_of(program, tmp_path) == "done\n"


def output_of(program: str, directory: Path) -> str:
    """The program's output; it must end by itself, with 0."""
    finished = subprocess.run(
        [sys.executable, "-c", program],
        cwd=directory,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    return finished.stdout


def test_importing_the_package_loads_neither_loop_nor_pykka(tmp_path: Path) -> None:
    program = (
        "import sys, leveret, leveret.amqp_frames.decoder, leveret.core.publishing.publisher\n"
        "print([name for name in ('pykka', 'uvloop', 'structlog') if name in sys.modules])\n"
    )
    finished = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=True,
    )
    assert finished.stdout == "[]\n"
