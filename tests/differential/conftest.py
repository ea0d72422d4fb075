"""RabbitMQ from Debian and Leveret, started once for all these tests."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from certificates import Certificates
from served import Served

HERE = Path(__file__).parent
for folder in (HERE, HERE.parents[1]):
    if str(folder) not in sys.path:
        sys.path.append(str(folder))
pytest.register_assert_rewrite("command_socket", "scripted_session", "both_brokers")

from both_brokers import Address, BothBrokers  # noqa: E402
from granted import HASH_COST, TRACED_VHOST, grant_offline, write_definitions  # noqa: E402

from benchmarks.brokers import RABBITMQ_MISSING, RABBITMQ_SERVER, RabbitMQ, free_port  # noqa: E402
from benchmarks.tls import CertificateFiles  # noqa: E402

# The same limit for both, small enough to be reached.
MESSAGE_BYTES_MAX = 300_000


# Both ask for a certificate, and do without; whom it names may log in by EXTERNAL.
MECHANISMS = ("PLAIN", "AMQPLAIN", "EXTERNAL")
ASKING = [
    *(f"auth_mechanisms.{number} = {name}" for number, name in enumerate(MECHANISMS, 1)),
    "ssl_options.verify = verify_peer",
    "ssl_options.fail_if_no_peer_cert = false",
]


PLUGINS = [
    "rabbitmq_auth_mechanism_ssl",
    "rabbitmq_consistent_hash_exchange",
    "rabbitmq_management",
    "rabbitmq_random_exchange",
]


@pytest.fixture(scope="session")
def differential_directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("differential")


def management_lines(port: int) -> list[str]:
    """Statistics are ten times as often as by default, so that no test waits for them."""
    listener = [f"management.tcp.port = {port}", "management.tcp.ip = 127.0.0.1"]
    return [*listener, "collect_statistics_interval = 500"]


@pytest.fixture(scope="session")
def http_ports() -> tuple[int, int]:
    """Of RabbitMQ's management, and Leveret's."""
    return free_port(), free_port()


@pytest.fixture(scope="session")
def rabbitmq(
    differential_directory: Path, certificates: Certificates, http_ports: tuple[int, int]
) -> Iterator[RabbitMQ]:
    if not RABBITMQ_SERVER.exists():
        pytest.skip(RABBITMQ_MISSING)
    definitions = differential_directory / "definitions.json"
    write_definitions(definitions)
    settings = ", ".join(
        (
            f"{{max_message_size, {MESSAGE_BYTES_MAX}}}",
            f'{{load_definitions, "{definitions}"}}',
            f'{{trace_vhosts, [<<"{TRACED_VHOST}">>]}}',
        )
    )
    files = (certificates.server, certificates.key, certificates.authority)
    rabbitmq = RabbitMQ(
        differential_directory,
        f"[{{rabbit, [{settings}]}}].\n",
        CertificateFiles(*map(Path, files)),
        [*ASKING, *management_lines(http_ports[0])],
        PLUGINS,
    )
    try:
        rabbitmq.start()
        yield rabbitmq
    finally:
        rabbitmq.discard()


@pytest.fixture(scope="session")
def both(
    rabbitmq: RabbitMQ,
    differential_directory: Path,
    certificates: Certificates,
    http_ports: tuple[int, int],
) -> Iterator[BothBrokers]:
    grant_offline(differential_directory / "data")
    settings = certificates.settings(
        "optional",
        message_size_max_bytes=MESSAGE_BYTES_MAX,
        password_hash_cost=HASH_COST,
        http_listener="on",
        http_port=http_ports[1],
    )
    with Served(differential_directory, **settings) as leveret:
        yield BothBrokers(
            Address(rabbitmq.port, rabbitmq.tls_port, http_port=http_ports[0]),
            Address(leveret.port, leveret.tls_port, http_port=http_ports[1]),
        )


@pytest.fixture(scope="session")
def api_ports(both: BothBrokers) -> tuple[tuple[int, int], ...]:
    """Of RabbitMQ and Leveret: the port of the management API, and that of AMQP."""
    return tuple((each.http_port, each.port) for each in both.addresses)
