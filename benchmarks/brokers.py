"""Brokers under test as child processes: RabbitMQ from Debian, and Leveret.

Each is started on free ports of 127.0.0.1 with its data below one scratch directory, so that both
write to the same disk; each can be stopped and started again on the same data. RabbitMQ runs as
Debian ships it, as a node of its own beside any that may already be running.
"""

from __future__ import annotations

import os
import random
import re
import resource
import shlex
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import psutil

from benchmarks.client import Client, RefusedError
from benchmarks.tls import CertificateFiles, context_of, issue

RABBITMQ_SERVER = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
RABBITMQ_MISSING = "RabbitMQ is not installed: apt-get install -y rabbitmq-server (as root)"
START_SECONDS_MAX = 60.0
STOP_SECONDS_MAX = 60.0
POLL_SECONDS = 0.01
# The first and the last port that the system gives to a client that asks for none.
CLIENT_PORTS = Path("/proc/sys/net/ipv4/ip_local_port_range")
# Above those of well-known services; and as many as make it unlikely that two runs choose the same.
PORT_MIN = 20_000
PORTS_MIN = 5_000


class BrokerError(Exception):
    """The broker did not start or stop; says where its output is."""


class Broker(Protocol):
    """The interface of a broker that the drivers use."""

    name: str
    port: int
    # With certificates there is a port for TLS, too.
    tls: CertificateFiles | None
    tls_port: int

    def start(self) -> None:
        """Start it and return once it takes connections."""

    def stop(self) -> None:
        """Stop it gracefully; its data stays."""

    def process(self) -> psutil.Process:
        """Give the process that serves."""


def allow_many_connections() -> None:
    """Let this process, and those it starts, open as many files as the system allows at most.

    A thousand connections need as many descriptors on either side, the usual limit.
    """
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def free_port() -> int:
    """Give a port of 127.0.0.1 that was free a moment ago and that no client is given."""
    clients_begin = int(CLIENT_PORTS.read_text().split()[0]) if CLIENT_PORTS.exists() else 0
    while True:
        # Where clients are given nearly all ports, the system may choose as well.
        is_room = clients_begin > PORT_MIN + PORTS_MIN
        port = random.randrange(PORT_MIN, clients_begin) if is_room else 0
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            bound: int = probe.getsockname()[1]
            return bound


class _Child:
    """A child process with its output in a file."""

    def __init__(self, command: list[str], environment: dict[str, str], output: Path) -> None:
        self.output = output
        with output.open("ab") as sink:
            self.process = subprocess.Popen(
                command,
                env={**os.environ, **environment},
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def check(self) -> None:
        """Raise if it has ended."""
        if self.process.poll() is not None:
            text = self.output.read_text(errors="replace")[-2000:]
            raise BrokerError(f"it ended with {self.process.returncode}; {self.output}:\n{text}")

    def stop(self) -> None:
        """Ask it to stop, wait, and kill the rest of its session."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                self.kill()

    def kill(self) -> None:
        """End its session at once."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()


class RabbitMQ:
    """A RabbitMQ node of its own: own data, log, ports, name and cookie."""

    name = "rabbitmq"

    def __init__(
        self,
        scratch: Path,
        settings: str = "[].\n",
        tls: CertificateFiles | None = None,
        lines: Sequence[str] = (),
        plugins: Sequence[str] = (),
    ) -> None:
        """Take an advanced.config, Erlang terms, and lines of its other file of settings."""
        if not RABBITMQ_SERVER.exists():
            raise BrokerError(RABBITMQ_MISSING)
        self.port = free_port()
        self.tls, self.tls_port = tls, free_port()
        self._directory = scratch / "rabbitmq"
        self._directory.mkdir()
        (self._directory / "enabled_plugins").write_text(f"[{', '.join(plugins)}].\n")
        lines = [*lines, f"listeners.tcp.1 = 127.0.0.1:{self.port}"]
        if tls is not None:
            lines += [
                f"listeners.ssl.1 = 127.0.0.1:{self.tls_port}",
                f"ssl_options.certfile = {tls.certificate}",
                f"ssl_options.keyfile = {tls.key}",
                f"ssl_options.cacertfile = {tls.authority}",
            ]
        (self._directory / "rabbitmq.conf").write_text("\n".join(lines) + "\n")
        (self._directory / "advanced.config").write_text(settings)
        self._environment = {
            # The Erlang cookie is made there, and the caller's own is left alone.
            "HOME": str(self._directory),
            # Nodes of one machine have names of their own, as they have ports.
            "RABBITMQ_NODENAME": f"leveret-bench-{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(free_port()),
            # Erlang's register of nodes: a daemon, which would outlive the node.
            "ERL_EPMD_PORT": str(free_port()),
            # It may be ended before it has noticed that its node is gone.
            "ERL_EPMD_RELAXED_COMMAND_CHECK": "true",
            "RABBITMQ_MNESIA_BASE": str(self._directory / "mnesia"),
            "RABBITMQ_LOG_BASE": str(self._directory / "log"),
            "RABBITMQ_CONFIG_FILE": str(self._directory / "rabbitmq.conf"),
            "RABBITMQ_ADVANCED_CONFIG_FILE": str(self._directory / "advanced.config"),
            # A node that cannot start would leave it in the caller's directory.
            "ERL_CRASH_DUMP": str(self._directory / "erl_crash.dump"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(self._directory / "enabled_plugins"),
        }
        self._child: _Child | None = None

    def start(self) -> None:
        """Start the node and wait until it takes connections."""
        # The script behind Debian's wrapper: the wrapper would change to its own user and files.
        output = self._directory / "output.txt"
        self._child = _Child([str(RABBITMQ_SERVER)], self._environment, output)
        _wait_until_open(self._child, self.port)
        if self.tls is not None:
            _wait_until_open(self._child, self.tls_port, context_of(self.tls.authority))

    def stop(self) -> None:
        """Stop the node gracefully."""
        if self._child is not None:
            self._child.stop()
            self._child = None
            self._stop_register()

    def _stop_register(self) -> None:
        """End the daemon that the node has started; a process that has ended already is no
        fault."""
        subprocess.run(
            ["epmd", "-port", self._environment["ERL_EPMD_PORT"], "-kill"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )

    def discard(self) -> None:
        """End the node at once: nobody needs its data any more.

        A graceful stop waits five seconds for clients of the management API.
        """
        if self._child is not None:
            self._child.kill()
            self._child = None
            self._stop_register()

    def control(self, *arguments: str) -> None:
        """Have its own command line tool do something."""
        finished = subprocess.run(
            [str(RABBITMQ_SERVER.with_name("rabbitmqctl")), *arguments],
            env={**os.environ, **self._environment},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        if finished.returncode:
            raise BrokerError(f"rabbitmqctl: {finished.stdout[-1000:]}{finished.stderr[-1000:]}")

    def process(self) -> psutil.Process:
        """Give the Erlang machine's process."""
        assert self._child is not None
        root = psutil.Process(self._child.process.pid)
        for process in [root, *root.children(recursive=True)]:
            if process.name() == "beam.smp":
                return process
        raise BrokerError("no beam.smp below the start script")


class Leveret:
    """Leveret as a user starts it."""

    name = "leveret"

    def __init__(
        self, scratch: Path, command: str | None = None, tls: CertificateFiles | None = None
    ) -> None:
        self.port = 0
        self.tls, self.tls_port = tls, free_port()
        self._environment = {}
        if tls is not None:
            self._environment = {
                "LEVERET_TLS_PORT": str(self.tls_port),
                "LEVERET_TLS_CERTIFICATE": str(tls.certificate),
                "LEVERET_TLS_KEY": str(tls.key),
            }
        self._directory = scratch / "leveret"
        self._directory.mkdir()
        self.data_dir = self._directory / "data"
        python = shlex.quote(sys.executable)
        self._command = shlex.split(command or f"{python} -m leveret serve")
        self._child: _Child | None = None
        self._starts = 0

    def start(self) -> None:
        """Start it and wait for its line that says `listening` with the address."""
        self._starts += 1
        arguments = ["--port", "0", "--data-dir", str(self.data_dir)]
        output = self._directory / f"output-{self._starts}.txt"
        self._child = _Child([*self._command, *arguments], self._environment, output)
        self.port = _wait_for_address(self._child)

    def stop(self) -> None:
        """Stop it gracefully."""
        if self._child is not None:
            self._child.stop()
            self._child = None

    def process(self) -> psutil.Process:
        """Give its process."""
        assert self._child is not None
        return psutil.Process(self._child.process.pid)


BROKERS = (RabbitMQ.name, Leveret.name)


@contextmanager
def running(
    names: Sequence[str],
    directory: Path,
    leveret_command: str | None = None,
    with_tls: bool = False,
) -> Iterator[list[Broker]]:
    """Start brokers with their data in a new directory below `directory`; stop and clear up.

    With TLS, all have the same certificate.
    """
    directory.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix="bench-", dir=directory)).resolve()
    tls = issue(scratch) if with_tls else None
    brokers: list[Broker] = []
    try:
        for name in names:
            if name == Leveret.name:
                brokers.append(Leveret(scratch, leveret_command, tls))
            else:
                brokers.append(RabbitMQ(scratch, tls=tls))
            brokers[-1].start()
        yield brokers
    finally:
        for broker in brokers:
            broker.stop()
        shutil.rmtree(scratch, ignore_errors=True)


def wait_until_idle(broker: Broker, busy_share_max: float = 0.1, seconds_max: float = 5.0) -> None:
    """Wait until the broker uses next to no CPU, so that it does not disturb the other's turn."""
    process = broker.process()
    end = time.monotonic() + seconds_max
    process.cpu_percent()
    while time.monotonic() < end:
        time.sleep(0.2)
        if process.cpu_percent() / 100 <= busy_share_max:
            return


def _wait_until_open(child: _Child, port: int, context: ssl.SSLContext | None = None) -> None:
    end = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < end:
        child.check()
        try:
            Client(port, context=context).close()
        except (OSError, RefusedError):
            time.sleep(POLL_SECONDS)
        else:
            return
    raise BrokerError(f"not open after {START_SECONDS_MAX:.0f} s; see {child.output}")


def _wait_for_address(child: _Child) -> int:
    end = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < end:
        for line in child.output.read_text(errors="replace").splitlines():
            found = re.search(r"127\.0\.0\.1:(\d+)", line)
            # A port in the middle of being written has no line end yet, but then no more digits
            # would follow: the line is written at once.
            # The log says so before all is open; the command's own line comes last.
            if line.startswith("leveret ") and "listening" in line and found:
                return int(found[1])
        child.check()
        time.sleep(POLL_SECONDS)
    raise BrokerError(f"not listening after {START_SECONDS_MAX:.0f} s; see {child.output}")
