"""Signals and standard streams: only what means "stop" ends a broker."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from insides import wait_until
from served import Served
from timeouts import TIMEOUT_SECONDS
from wire import PERSISTENT, Client

HARMLESS = (signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM)


def test_signals_that_mean_nothing_here_are_logged_and_the_broker_goes_on(tmp_path: Path) -> None:
    with (
        Served(tmp_path, log_format="json") as served,
        Client(served.host, served.port).log_in() as client,
    ):
        client.open_channel(1, confirms=True)
        client.declare("q", durable=True)
        for number in HARMLESS:
            served.signal(number)
            line = f'"event": "broker.signal_ignored", "signal": "{number.name}"'
            wait_until(lambda line=line: line in served.log())  # type: ignore[misc]
        client.publish_all("q", b"1", properties=PERSISTENT)
        served.signal(signal.SIGTERM)
        client.drop()
        assert served.exit_code() == 0


# A process that sends itself signals, at times that it sets.
REPEATING = """
import asyncio, signal
from leveret.signals import REPEAT_SECONDS, Signals
from structlog.testing import CapturingLogger

async def main():
    log, now = CapturingLogger(), [100.0]
    signals = Signals(asyncio.get_running_loop(), log, lambda: now[0])
    for number, seconds in (("SIGTERM", 0), ("SIGTERM", 0.001), ("SIGINT", REPEAT_SECONDS - 0.01)):
        now[0] = 100 + seconds
        signal.raise_signal(signal.Signals[number])
    print(await signals.stopping)
    for call in log.calls:
        print(call.method_name, call.kwargs["signal"], call.kwargs["reason"])
    print("stopped", flush=True)
    now[0] = 100 + REPEAT_SECONDS
    signal.raise_signal(signal.SIGINT)
    print("not reached")

asyncio.run(main())
"""


def test_a_repeat_of_a_signal_lets_the_stop_go_on_and_a_later_one_ends_it() -> None:
    """As `timeout` sends two: to its child, and to the child's group."""
    ended = subprocess.run(
        [sys.executable, "-c", REPEATING], capture_output=True, text=True, check=False
    )
    assert ended.stdout.splitlines() == [
        "SIGTERM",
        "info SIGTERM the broker is stopping",
        "info SIGINT the broker is stopping",
        "stopped",
    ]
    assert ended.returncode == -signal.SIGINT


def test_a_closed_terminal_stops_the_broker_that_was_started_in_it(tmp_path: Path) -> None:
    master, slave = pty.openpty()
    with Served(tmp_path, stderr=slave) as served:
        os.close(slave)
        # While the terminal is there, a hangup is somebody's mistake.
        served.signal(signal.SIGHUP)
        said = b""
        while b"there are no certificates to renew" not in said:
            said += os.read(master, 4096)
        os.close(master)
        served.signal(signal.SIGHUP)
        assert served.exit_code() == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_standard_output_on_a_full_device_does_not_stop_the_start(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        process = subprocess.Popen(
            [sys.executable, "-m", "leveret", "serve", "--port", "0", "--data-dir", "data"],
            cwd=tmp_path,
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
        )
    assert process.stderr is not None
    with process.stderr:
        lines = iter(process.stderr.readline, "")
        assert any("broker.unheard" in line and "No space left" in line for line in lines)
        process.terminate()
        assert "broker.stopped" in process.stderr.read()
        assert process.wait(TIMEOUT_SECONDS) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_a_command_whose_output_cannot_be_written_says_so_in_one_line(tmp_path: Path) -> None:
    with Served(tmp_path), Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "leveret", "trace", "status", "--data-dir", "data"]
        ended = subprocess.run(
            command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True, check=False
        )
    assert ended.returncode == 1
    assert ended.stderr == "leveret: [Errno 28] No space left on device\n"
