"""Live brokers for the tests: each in this process, on a free port, in a directory of its own.

The folder `live` holds what tests talk to them with, for tests to import by its bare names.
"""

from __future__ import annotations

import os
import random
import shutil
import ssl
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import leveret
import pytest

LIVE = Path(__file__).parent / "live"
sys.path.insert(0, str(LIVE))
# Their asserts, too, say what was and what should have been.
pytest.register_assert_rewrite(*(module.stem for module in LIVE.glob("*.py")))

import examples  # noqa: E402 - found only now
import left_running  # noqa: E402
import memory_directories  # noqa: E402
import workers  # noqa: E402
from certificates import Certificates, Stranger, TlsClient  # noqa: E402
from gated_files import GatedFiles  # noqa: E402
from log_lines import LogLines  # noqa: E402
from traced_suite import OPTION, Totals, faults_below, is_wanted, trace_all  # noqa: E402
from wire import Client  # noqa: E402


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, action="store_true", help="trace all brokers, and check the traces")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(left_running)
    config.pluginmanager.register(memory_directories)
    config.pluginmanager.register(workers)
    if examples.IS_CHECK:
        examples.prepare_check()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if Totals.traces:
        terminalreporter.write_line(
            f"{Totals.traces} traces checked: {Totals.events} events, {Totals.answered} answers"
        )


@pytest.fixture(autouse=True)
def sound_traces(request: pytest.FixtureRequest) -> Iterator[None]:
    """With `--traced`: what brokers write in this test breaks no promise."""
    if not is_wanted(request):
        yield
        return
    directory = request.getfixturevalue("tmp_path")
    trace_all(request.getfixturevalue("monkeypatch"))
    yield
    faults = list(faults_below(directory))
    assert not faults, "\n".join(faults[:20])


@pytest.fixture
def seed() -> int:
    """A new one for each run, or the one of a run to be repeated: LEVERET_SEED=..."""
    chosen = int(os.environ.get("LEVERET_SEED") or random.SystemRandom().randrange(2**32))
    print(f"\nLEVERET_SEED={chosen}")
    return chosen


@pytest.fixture
def disk_directory(request: pytest.FixtureRequest) -> Iterator[Path]:
    """On a disk, where `tmp_path` may be in memory; it stays there if the test fails."""
    failed = request.session.testsfailed
    directory = Path(tempfile.mkdtemp(prefix="leveret-test-"))
    yield directory
    if request.session.testsfailed == failed:
        shutil.rmtree(directory)


@pytest.fixture
def files() -> Iterator[GatedFiles]:
    """The disk of `broker`, with a gate before its syncs."""
    gated = GatedFiles()
    yield gated
    gated.release()


@pytest.fixture(scope="session")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Certificates:
    """A broker's certificate in files, and clients' of every kind."""
    return Certificates(tmp_path_factory.mktemp("certificates"))


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> LogLines:
    """The log of brokers that later fixtures start, so a test must ask for it before them."""
    lines = LogLines()
    monkeypatch.setattr(sys, "stderr", lines.stream)
    return lines


@pytest.fixture
def settings() -> dict[str, object]:
    """The settings of `broker`; a test module may have others."""
    return {}


@pytest.fixture
def broker(
    tmp_path: Path, files: GatedFiles, settings: dict[str, object]
) -> Iterator[leveret.Broker]:
    """A broker that nobody has touched."""
    with leveret.Broker(
        data_dir=tmp_path / "data",
        port=0,
        files=files,
        **{"password_hash_cost": 10, "log_level": "error"} | settings,
    ) as running:
        yield running
        # Stopping waits for the journal.
        files.release()


@pytest.fixture
def connect(broker: leveret.Broker) -> Iterator[Callable[..., Client]]:
    """Makes clients of `broker`, logged in; their sockets are closed at the end."""
    with ExitStack() as stack:

        def connected(**handshake: object) -> Client:
            client = stack.enter_context(Client(broker.host, broker.port))
            return client.log_in(**handshake)  # type: ignore[arg-type]

        yield connected


@pytest.fixture
def stranger(broker: leveret.Broker) -> Iterator[Stranger]:
    """Makes clients that have done no more than TLS's handshake, as far as they know."""
    with ExitStack() as stack:

        def connected(context: ssl.SSLContext) -> Client:
            assert broker.tls_port is not None
            return stack.enter_context(TlsClient(broker.host, broker.tls_port, context))

        yield connected


@pytest.fixture
def client(connect: Callable[..., Client]) -> Client:
    """A client with channel 1 open and in confirm mode."""
    connected = connect()
    connected.open_channel(1, confirms=True)
    return connected
