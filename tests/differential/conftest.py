"""RabbitMQ from Debian and Leveret, started once for all these tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from served import Served

HERE = Path(__file__).parent
for folder in (HERE, HERE.parents[1]):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
pytest.register_assert_rewrite("command_socket", "scripted_session", "both_brokers")

from both_brokers import BothBrokers  # noqa: E402
from granted import grant_offline, write_definitions  # noqa: E402

from benchmarks.brokers import RABBITMQ_MISSING, RABBITMQ_SERVER, RabbitMQ  # noqa: E402

# The same limit for both, small enough to be reached.
MESSAGE_BYTES_MAX = 300_000


@pytest.fixture(scope="session")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothBrokers]:
    if not RABBITMQ_SERVER.exists():
        pytest.skip(RABBITMQ_MISSING)
    directory = tmp_path_factory.mktemp("differential")
    definitions = directory / "definitions.json"
    write_definitions(definitions)
    grant_offline(directory / "data")
    settings = f'{{max_message_size, {MESSAGE_BYTES_MAX}}}, {{load_definitions, "{definitions}"}}'
    rabbitmq = RabbitMQ(directory, f"[{{rabbit, [{settings}]}}].\n")
    try:
        rabbitmq.start()
        with Served(directory, message_size_max_bytes=MESSAGE_BYTES_MAX) as leveret:
            yield BothBrokers(rabbitmq.port, leveret.port)
    finally:
        rabbitmq.stop()
