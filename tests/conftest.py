"""Live brokers for the tests: each in this process, on a free port, in a directory of its own.

The folder `live` holds what tests talk to them with, for tests to import by its bare names.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import leveret
import pytest

LIVE = Path(__file__).parent / "live"
sys.path.insert(0, str(LIVE))
# Their asserts, too, say what was and what should have been.
pytest.register_assert_rewrite(*(module.stem for module in LIVE.glob("*.py")))

from gated_files import GatedFiles  # noqa: E402 - found only now
from wire import Client  # noqa: E402


@pytest.fixture
def files() -> Iterator[GatedFiles]:
    """The disk of `broker`, with a gate before its syncs."""
    gated = GatedFiles()
    yield gated
    gated.release()


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
        log_level="error",
        files=files,
        **{"password_hash_cost": 10} | settings,
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
def client(connect: Callable[..., Client]) -> Client:
    """A client with channel 1 open and in confirm mode."""
    connected = connect()
    connected.open_channel(1, confirms=True)
    return connected
