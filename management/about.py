"""What the node tells the API of itself, and the limits that it sets; both are fixed at the start.

Imports nothing that is slow, unlike the rest of the package.
"""

from __future__ import annotations

from typing import NamedTuple


class ListenerAddress(NamedTuple):
    """Where the node listens, and for what."""

    # RabbitMQ's words: amqp, amqp/ssl, http.
    protocol: str
    address: str
    port: int


class About(NamedTuple):
    """What the node says of itself."""

    node_name: str
    version: str
    # RabbitMQ's, which clients decide by.
    server_version: str
    product: str
    # Since the epoch.
    started_seconds: float
    listeners: tuple[ListenerAddress, ...]
    data_dir: str
    # Made with the directory, in hexadecimal.
    directory_id: str
    # A PEM file; "" without TLS.
    certificate_path: str
    disk_free_bytes_min: int
    memory_alarm_bytes: int
    # Of the messages of one get.
    get_bytes_max: int
    password_hash_cost: int


class SamplingLimits(NamedTuple):
    """How often the node's counts are sampled, and how many samples are kept."""

    interval_ms: int
    samples_max: int
    bytes_max: int


class ListLimits(NamedTuple):
    """How old long lists may be, and how many are kept in all their orders and choices.

    `bytes_max` limits the texts of all kept lists together; the list asked for last is kept in
    any case.
    """

    age_seconds: float
    kept_max: int
    bytes_max: int


class HttpLimits(NamedTuple):
    """Settings of the listener."""

    body_bytes_max: int
    # Of a definitions file.
    definitions_bytes_max: int
    request_timeout_seconds: float
    connections_max: int
    # Beyond those, for clients on this machine.
    loopback_kept: int


class OpenAccess(NamedTuple):
    """Settings: who may ask without a password, "loopback", "everywhere" or "never"."""

    health_without_password: str
    metrics_without_password: str


class NsqAddress(NamedTuple):
    """How clients find this broker: what nsqd tells nsqlookupd of itself.

    Ports are 0 where the broker does not listen for that.
    """

    broadcast_address: str
    hostname: str
    tcp_port: int
    http_port: int
