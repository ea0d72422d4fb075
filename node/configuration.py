"""The settings of one broker: flags over environment over a TOML file over the defaults.

`Configuration` is the list of settings; node/leveret.toml says what each does and shows its default
(a test keeps the two alike). A setting has the same name everywhere: `port` in the file, `port` as
an argument, `LEVERET_PORT` in the environment. Every fault is one ConfigurationError of one line
that names the setting and where its value came from. An unknown name in the file or of a flag is a
fault, too, because a setting that is misspelt and passed over is found too late. In the environment
it is a warning: other programs set variables there, Kubernetes for one (`LEVERET_SERVICE_HOST` for
a service named `leveret`), and those must not stop the start.
"""

from __future__ import annotations

import difflib
import re
import socket
import sys
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from .amqp_frames.compiled import FORM_VARIABLE
from .core.channel.outstanding import TIMED_OUT_RANGES_MAX
from .core.definitions import DEDUP_IDENTITIES_MAX, EXPIRY_MS_MAX
from .core.exchanges.topic import TOPIC_COSTLY_WORDS_MAX
from .core.nsq.session import HEARTBEAT_MS_MIN, MESSAGE_TIMEOUT_MS_MIN
from .core.publishing.routes import ROUTES_KEPT_BYTES_MAX
from .core.queue.deferral import REQUEUE_DELAY_MAX_MS
from .core.queue.in_flight_timeouts import TOUCHED_TIMEOUT_MS_MAX
from .core.users.password_hash import COST_MAX, COST_MIN
from .errors import ConfigurationError
from .logs.configure import FORMATS, LEVELS
from .logs.secrets import SECRETS
from .memory_limit import default_memory_budget_bytes, memory_limit_bytes
from .memory_watch import MEMORY_HEADROOM_BYTES
from .nsq_frames.publishes import MPUB_BYTES_MAX
from .storage.spill import SPILL_SEGMENT_BYTES_MAX

ENVIRONMENT_PREFIX = "LEVERET_"
# Names the file, so it is no setting itself.
CONFIG_VARIABLE = "LEVERET_CONFIG"
# What `leveret trace --url` logs in with; no setting of a broker.
PASSWORD_VARIABLE = "LEVERET_PASSWORD"
_NO_SETTINGS = {CONFIG_VARIABLE, PASSWORD_VARIABLE, FORM_VARIABLE}

# For each service of its namespace Kubernetes sets such variables, named after the service; one
# named `leveret` sets LEVERET_PORT=tcp://10.0.0.1:5672 and LEVERET_PORT_5672_TCP_ADDR.
_SERVICE_VARIABLE = re.compile(r"_SERVICE_(HOST|PORT(_\w+)?)$|_PORT_\d+_(TCP|UDP|SCTP)(_\w+)?$")
_SERVICE_ADDRESS = re.compile(r"(tcp|udp|sctp)://")

Warn = Callable[[str], None]

MIB = 1024 * 1024
# Beside one message of the largest size: room for what other channels publish meanwhile.
UNFINISHED_SPARE_BYTES = 128 * MIB
# One read of a socket may hold so much, and a queue keeps reads whole.
MEMORY_BUDGET_BYTES_MIN = 1 * MIB
# The queues hold the budget, what the node's publish window lets in until it is on the disk, and
# something in between: so much more is an alarm.
MEMORY_ALARM_BUDGETS = 3


@dataclass(frozen=True)
class Configuration:
    """All settings, in the order of node/leveret.toml, which explains them.

    `Settings` in settings.py has them once more, as arguments for type checkers.
    """

    host: str = "127.0.0.1"
    port: int = 5672  # 0 takes a free one
    data_dir: Path = Path("leveret-data")

    http_listener: str = "on"
    http_host: str = "127.0.0.1"
    http_port: int = -1  # beside `port`; 0 takes a free one
    http_body_bytes_max: int = 65_536
    http_get_bytes_max: int = 16_777_216
    definitions_file: str = ""
    definitions_bytes_max: int = 20_000_000
    http_request_timeout_ms: int = 10_000
    http_connections_max: int = 32
    http_loopback_connections_kept: int = 4
    http_health_without_password: str = "loopback"
    statistics_interval_ms: int = 5_000
    statistics_samples_max: int = 121
    statistics_bytes_max: int = 16_777_216
    list_age_ms: int = 1_000
    lists_kept_max: int = 100
    lists_bytes_max: int = 67_108_864
    prometheus_without_password: str = "loopback"
    prometheus_per_object: str = "off"
    prometheus_listener: str = "off"
    prometheus_host: str = "127.0.0.1"
    prometheus_port: int = -1  # beside `port`; 0 takes a free one
    control_connections_max: int = 32
    control_idle_timeout_ms: int = 60_000

    # Without a certificate there is no TLS listener.
    tls_port: int = 5671  # 0 takes a free one
    tls_certificate: str = ""
    tls_key: str = ""
    tls_ca_certificates: str = ""
    tls_verify_client: str = "none"
    tls_login_name: str = "distinguished_name"
    tls_version_min: str = "1.2"
    tls_handshakes_max: int = 1000

    nsq_port: int = -1  # no NSQ; 0 takes a free one
    nsq_host: str = "127.0.0.1"
    nsq_vhost: str = "/"
    nsq_user: str = ""  # as default_user
    nsq_body_bytes_max: int = 5 * MIB
    nsq_ready_count_max: int = 2500
    nsq_message_timeout_ms: int = 60_000
    nsq_message_timeout_ms_max: int = TOUCHED_TIMEOUT_MS_MAX
    nsq_requeue_delay_ms_max: int = REQUEUE_DELAY_MAX_MS
    nsq_heartbeat_ms: int = 30_000
    nsq_heartbeat_ms_max: int = 60_000
    nsq_deflate_level_max: int = 6
    nsq_broadcast_address: str = ""  # the host's name, or a loopback nsq_host
    nsq_http_port: int = -1  # no HTTP for NSQ; 0 takes a free one
    nsq_http_host: str = "127.0.0.1"
    nsq_http_connections_max: int = 64

    log_level: str = "info"
    log_format: str = "auto"

    server_product: str = "RabbitMQ"
    server_version: str = "3.13.7"
    node_name: str = ""  # leveret@ and the host's name
    frame_max_bytes: int = 131_072
    channel_max: int = 2047
    heartbeat_seconds: int = 60
    handshake_timeout_ms: int = 10_000
    silent_close_delay_ms: int = 3000
    close_timeout_ms: int = 10_000
    drain_timeout_ms: int = 30_000
    stop_timeout_ms: int = 10_000
    stop_clients_timeout_ms: int = 5_000

    connections_max: int = 0
    sockets_above_connections_max: int = 100
    draining_sockets_max: int = 1000
    unopened_connections_max: int = 4096
    consumers_per_channel_max: int = 0
    message_size_max_bytes: int = 128 * MIB
    topic_costly_words_max: int = TOPIC_COSTLY_WORDS_MAX
    routing_round_ms_max: int = 5
    read_round_bytes_max: int = 1 * MIB
    file_descriptors_min: int = 1024
    file_descriptors_kept: int = 256

    unfinished_publishes_bytes_max: int = 0  # 0: UNFINISHED_SPARE_BYTES above a message's size
    publish_window_bytes_max: int = 16 * MIB
    node_publish_window_bytes_max: int = 0  # 0: as memory_budget_bytes
    delivery_window_bytes_max: int = 4 * MIB
    node_delivery_window_bytes_max: int = 0  # 0: as memory_budget_bytes
    write_buffer_bytes_max: int = 1 * MIB
    sweep_interval_bytes: int = 1 * MIB
    transaction_bytes_max: int = 64 * MIB
    timed_out_ranges_max: int = TIMED_OUT_RANGES_MAX
    touched_timeout_ms_max: int = TOUCHED_TIMEOUT_MS_MAX
    reply_window_bytes_max: int = 16 * MIB
    memory_budget_bytes: int = 0  # 0: default_memory_budget_bytes of memory_limit_bytes
    memory_alarm_bytes: int = 0  # 0: MEMORY_ALARM_BUDGETS times the budget
    memory_headroom_bytes: int = MEMORY_HEADROOM_BYTES
    read_ahead_bytes_max: int = 512 * 1024
    spill_segment_bytes_max: int = SPILL_SEGMENT_BYTES_MAX
    routes_kept_bytes_max: int = ROUTES_KEPT_BYTES_MAX
    shared_runs_bytes_max: int = 2 * MIB
    dedup_window_max: int = 10_000_000
    dedup_identities_max: int = DEDUP_IDENTITIES_MAX
    stranded_letters_max: int = 100_000
    stranded_letters_bytes_max: int = 64 * MIB
    firehose_backlog_bytes_max: int = 64 * MIB
    segment_bytes_max: int = 64 * MIB
    compaction_live_percent_max: int = 25
    compaction_segment_bytes_min: int = 256 * 1024
    maintenance_bytes_per_second_max: int = 64 * MIB
    maintenance_busy_percent_max: int = 25
    journal_verification: str = "background"
    disk_free_bytes_min: int = 50_000_000
    disk_check_interval_ms: int = 10_000
    disk_reserve_bytes: int = 8 * MIB

    trace_one_of: int = 0  # 0 traces nothing
    trace_queues: tuple[str, ...] = ()
    trace_buffer_bytes_max: int = 32 * MIB
    trace_failures_per_second_max: int = 100
    trace_slow_ms: int = 1000  # 0: none is slow
    trace_file_bytes_max: int = 64 * MIB
    trace_file_age_seconds_max: int = 86_400
    trace_files_max: int = 16

    default_user: str = "guest"
    default_password: str = field(default="guest", repr=False)
    loopback_users: tuple[str, ...] = ("guest",)
    password_hash_cost: int = 14
    password_rehash: str = "off"
    password_checks_max: int = 1
    password_checks_waiting_max: int = 1000

    def __post_init__(self) -> None:
        """Check every value, also of settings made in a program."""
        for setting in fields(self):
            try:
                _check(setting.name, getattr(self, setting.name))
            except ValueError as fault:
                raise ConfigurationError(f"{setting.name}: {fault}") from None
        # Or the largest message would fit in no connection but an idle one.
        unfinished, largest = self.unfinished_publishes_bytes_max, self.message_size_max_bytes
        if 0 < unfinished < largest:
            raise ConfigurationError(
                f"unfinished_publishes_bytes_max: {unfinished} is less than "
                f"message_size_max_bytes, {largest}"
            )
        if 0 < self.memory_budget_bytes < MEMORY_BUDGET_BYTES_MIN:
            raise ConfigurationError(
                f"memory_budget_bytes: {self.memory_budget_bytes} is less than "
                f"{MEMORY_BUDGET_BYTES_MIN}"
            )
        # The alarm ends at two thirds, and queues page down to the budget: with less than one and a
        # half of it the alarm could stay on until consumers come.
        budget = self.memory_budget_bytes or MEMORY_BUDGET_BYTES_MIN
        if 0 < self.memory_alarm_bytes < budget * 3 // 2:
            raise ConfigurationError(
                f"memory_alarm_bytes: {self.memory_alarm_bytes} is less than {budget * 3 // 2}, "
                f"one and a half times memory_budget_bytes ({budget})"
            )

    def name_of_node(self) -> str:
        """The setting node_name, or the name that an empty one stands for on this machine."""
        return self.node_name or f"leveret@{socket.gethostname()}"

    def unfinished_publishes_limit(self) -> int:
        """The setting unfinished_publishes_bytes_max, or the value that its 0 stands for."""
        default = self.message_size_max_bytes + UNFINISHED_SPARE_BYTES
        return self.unfinished_publishes_bytes_max or default

    def node_publish_window_limit(self) -> int:
        """The setting node_publish_window_bytes_max, or the value that its 0 stands for."""
        return self.node_publish_window_bytes_max or self.memory_budget_limit()

    def node_delivery_window_limit(self) -> int:
        """The setting node_delivery_window_bytes_max, or the value that its 0 stands for."""
        return self.node_delivery_window_bytes_max or self.memory_budget_limit()

    def memory_budget_limit(self) -> int:
        """The setting memory_budget_bytes, or the value that its 0 stands for on this machine.

        An alarm that is set is at least one and a half times the budget here, too.
        """
        if self.memory_budget_bytes:
            return self.memory_budget_bytes
        default = default_memory_budget_bytes(memory_limit_bytes())
        if self.memory_alarm_bytes:
            default = min(default, self.memory_alarm_bytes * 2 // 3)
        return max(MEMORY_BUDGET_BYTES_MIN, default)

    def memory_alarm_levels(self) -> tuple[int, int]:
        """Above how many bytes of the queues' messages there is an alarm, and until how many."""
        high = self.memory_alarm_bytes or MEMORY_ALARM_BUDGETS * self.memory_budget_limit()
        return high, high * 2 // 3


# The least and the most a number may be, both allowed.
_BOUNDS: dict[str, tuple[int, int]] = {
    "port": (0, 65_535),
    "tls_port": (0, 65_535),
    "http_port": (-1, 65_535),
    "prometheus_port": (-1, 65_535),
    "nsq_port": (-1, 65_535),
    # Room for one message of an octet.
    "nsq_body_bytes_max": (9, MPUB_BYTES_MAX),
    "nsq_ready_count_max": (1, 2**31 - 1),
    # What IDENTIFY may ask for at least.
    "nsq_message_timeout_ms": (MESSAGE_TIMEOUT_MS_MIN, EXPIRY_MS_MAX),
    "nsq_message_timeout_ms_max": (MESSAGE_TIMEOUT_MS_MIN, EXPIRY_MS_MAX),
    "nsq_requeue_delay_ms_max": (0, 2**31 - 1),
    "nsq_heartbeat_ms": (HEARTBEAT_MS_MIN, 3_600_000),
    "nsq_heartbeat_ms_max": (HEARTBEAT_MS_MIN, 3_600_000),
    "nsq_deflate_level_max": (1, 9),
    "nsq_http_port": (-1, 65_535),
    "nsq_http_connections_max": (1, 65_535),
    "http_body_bytes_max": (1024, 16 * MIB),
    "definitions_bytes_max": (1024, 1024 * MIB),
    "http_get_bytes_max": (0, 1024 * MIB),
    "http_request_timeout_ms": (1, 3_600_000),
    "http_loopback_connections_kept": (0, 65_535),
    "http_connections_max": (1, 65_535),
    "statistics_interval_ms": (100, 86_400_000),
    "statistics_samples_max": (3, 100_000),
    "statistics_bytes_max": (65_536, 1024 * MIB),
    "list_age_ms": (0, 3_600_000),
    "lists_kept_max": (1, 1_000_000),
    "lists_bytes_max": (0, 2**40),
    "control_connections_max": (1, 65_535),
    "control_idle_timeout_ms": (1, 3_600_000),
    # 4096 is AMQP's frame-min-size; the most is what the negotiation can say.
    "frame_max_bytes": (4096, 2**32 - 1),
    "channel_max": (1, 65_535),
    "heartbeat_seconds": (0, 65_535),
    "handshake_timeout_ms": (1, 3_600_000),
    "silent_close_delay_ms": (1, 3_600_000),
    "close_timeout_ms": (1, 3_600_000),
    "drain_timeout_ms": (1, 3_600_000),
    "stop_timeout_ms": (1, 3_600_000),
    "stop_clients_timeout_ms": (0, 3_600_000),
    "connections_max": (0, 2**31 - 1),
    "sockets_above_connections_max": (0, 2**31 - 1),
    "unopened_connections_max": (1, 2**31 - 1),
    "draining_sockets_max": (1, 2**31 - 1),
    "consumers_per_channel_max": (0, 2**31 - 1),
    # RabbitMQ's own ceiling.
    "message_size_max_bytes": (1, 512 * MIB),
    "topic_costly_words_max": (1000, 2**31 - 1),
    "routing_round_ms_max": (0, 1000),
    "read_round_bytes_max": (65_536, 2**30),
    "file_descriptors_min": (64, 2**31 - 1),
    "file_descriptors_kept": (0, 2**31 - 1),
    "unfinished_publishes_bytes_max": (0, 2**40),
    "publish_window_bytes_max": (65_536, 2**40),
    "node_publish_window_bytes_max": (0, 2**50),
    "delivery_window_bytes_max": (65_536, 2**40),
    "node_delivery_window_bytes_max": (0, 2**50),
    "write_buffer_bytes_max": (65_536, 2**40),
    "sweep_interval_bytes": (0, 2**40),
    "transaction_bytes_max": (65_536, 2**40),
    "timed_out_ranges_max": (1, 2**31 - 1),
    "touched_timeout_ms_max": (1, EXPIRY_MS_MAX),
    "reply_window_bytes_max": (65_536, 2**40),
    # RabbitMQ's least and interval; 0 of them is no alarm.
    "disk_free_bytes_min": (0, 2**50),
    "disk_check_interval_ms": (10, 3_600_000),
    "disk_reserve_bytes": (0, 2**40),
    "memory_budget_bytes": (0, 2**50),
    "memory_alarm_bytes": (0, 2**50),
    "memory_headroom_bytes": (0, 2**40),
    "read_ahead_bytes_max": (16 * 1024, 2**30),
    "spill_segment_bytes_max": (64 * 1024, 2**40),
    "shared_runs_bytes_max": (0, 2**30),
    "routes_kept_bytes_max": (0, 2**40),
    "dedup_window_max": (1, 2**31 - 1),
    "dedup_identities_max": (1, 2**40),
    "stranded_letters_max": (0, 2**31 - 1),
    "stranded_letters_bytes_max": (0, 2**40),
    "firehose_backlog_bytes_max": (0, 2**40),
    "tls_handshakes_max": (1, 65_535),
    "segment_bytes_max": (1 * MIB, 2**40),
    "compaction_live_percent_max": (0, 100),
    "compaction_segment_bytes_min": (4096, 2**40),
    "maintenance_bytes_per_second_max": (64 * 1024, 2**40),
    "maintenance_busy_percent_max": (1, 100),
    "password_hash_cost": (COST_MIN, COST_MAX),
    "password_checks_max": (1, 64),
    "password_checks_waiting_max": (1, 1_000_000),
    "trace_one_of": (0, 2**31 - 1),
    "trace_buffer_bytes_max": (65_536, 2**36),
    "trace_failures_per_second_max": (0, 2**31 - 1),
    "trace_slow_ms": (0, 3_600_000),
    "trace_file_bytes_max": (4096, 2**40),
    "trace_file_age_seconds_max": (1, 2**31 - 1),
    "trace_files_max": (1, 2**31 - 1),
}
_CHOICES: dict[str, tuple[str, ...]] = {
    "http_listener": ("on", "off"),
    "http_health_without_password": ("loopback", "everywhere", "never"),
    "prometheus_without_password": ("loopback", "everywhere", "never"),
    "prometheus_per_object": ("on", "off"),
    "prometheus_listener": ("on", "off"),
    "log_level": LEVELS,
    "log_format": FORMATS,
    "tls_verify_client": ("none", "optional", "required"),
    "tls_login_name": ("common_name", "distinguished_name"),
    "tls_version_min": ("1.2", "1.3"),
    "journal_verification": ("background", "start"),
    "password_rehash": ("off", "on"),
}
# As RabbitMQ's nodes are called, so that tools can put it into paths; as long as a short string.
_NODE_NAME = re.compile(r"(?=.{1,255}\Z)[\w.-]+@[\w.:-]+", re.ASCII)
_MAY_BE_EMPTY = {
    "definitions_file",
    "node_name",
    "nsq_broadcast_address",
    "nsq_user",
    "loopback_users",
    "trace_queues",
    "tls_certificate",
    "tls_key",
    "tls_ca_certificates",
}


def load(
    flags: Mapping[str, Any],
    environment: Mapping[str, str],
    file: Path | None = None,
    warn: Warn = lambda _text: None,
) -> Configuration:
    """Merge the three sources; a flag that is None was not given.

    The file is `file`, else the one that LEVERET_CONFIG names, else none. `warn` is called with one
    line for each variable that is passed over because it is no setting.
    """
    if file is None and environment.get(CONFIG_VARIABLE):
        file = Path(environment[CONFIG_VARIABLE])
    values: dict[str, Any] = {}
    if file is not None:
        values.update(_from_file(file))
    values.update(_from_environment(environment, warn))
    for name, value in flags.items():
        if value is not None:
            values[name] = _checked(name, "--" + name.replace("_", "-"), value)
    return Configuration(**values)


def warn(text: str) -> None:
    """Say on standard error what a command passes over."""
    sys.stderr.write(f"leveret: warning: {text}\n")


def setting_names() -> list[str]:
    """Give the names of all settings, in the order of the file."""
    return [setting.name for setting in fields(Configuration)]


def _from_file(file: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(file.read_text(encoding="utf-8"))
    except OSError as fault:
        raise ConfigurationError(f"{file}: cannot be read: {fault.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as fault:
        raise ConfigurationError(f"{file}: not valid TOML: {fault}") from None
    check_names(content, str(file))
    return {name: _checked(name, f"{name} in {file}", value) for name, value in content.items()}


def _from_environment(environment: Mapping[str, str], warn: Warn) -> dict[str, Any]:
    values = {}
    names = setting_names()
    of_services = []
    for variable, text in environment.items():
        if not variable.startswith(ENVIRONMENT_PREFIX) or variable in _NO_SETTINGS:
            continue
        name = variable.removeprefix(ENVIRONMENT_PREFIX).lower()
        if name in names and not (name.endswith("port") and _SERVICE_ADDRESS.match(text)):
            values[name] = _checked(name, variable, _parsed(name, variable, text))
        elif name in names:
            of_services.append(f"{variable}={text}")
        elif _SERVICE_VARIABLE.search(variable):
            of_services.append(variable)
        else:
            near = _nearest(name)
            hint = f"; did you mean {ENVIRONMENT_PREFIX}{near.upper()}?" if near else ""
            warn(f"{variable} in the environment is not a setting and is passed over{hint}")
    if of_services:
        warn(
            f"passed over in the environment: {', '.join(of_services)}: Kubernetes sets such "
            "variables for a service of this name (enableServiceLinks: false leaves them out)"
        )
    return values


def check_names(names: Iterable[str], place: str) -> None:
    """Raise ConfigurationError, with the nearest setting, for a name that is not a setting."""
    known = setting_names()
    for name in names:
        if name not in known:
            near = _nearest(name)
            hint = f"; did you mean {near}?" if near else ""
            raise ConfigurationError(f"{name} in {place} is not a setting{hint}")


def _nearest(name: str) -> str:
    return next(iter(difflib.get_close_matches(name, setting_names(), n=1)), "")


def _kind(name: str) -> type:
    kind = type(getattr(Configuration, name))
    return Path if issubclass(kind, Path) else kind


def _parsed(name: str, variable: str, text: str) -> Any:
    """Turn a variable's text into what TOML would have given."""
    kind = _kind(name)
    if kind is int:
        try:
            return int(text)
        except ValueError:
            raise ConfigurationError(f"{variable}: {text!r} is not a whole number") from None
    if kind is tuple:
        return [part.strip() for part in text.split(",") if part.strip()]
    return text


def _checked(name: str, source: str, value: Any) -> Any:
    """Check a value from a source, so that the fault names the source; give it in our type."""
    kind = _kind(name)
    if kind is Path and isinstance(value, str) and value:
        value = Path(value)
    elif kind is tuple and isinstance(value, list):
        value = tuple(value)
    try:
        _check(name, value)
    except ValueError as fault:
        raise ConfigurationError(f"{source}: {fault}") from None
    return value


_KIND_NAMES = {int: "a whole number", str: "a string", Path: "a path", tuple: "a list of strings"}


def _check(name: str, value: object) -> None:
    kind = _kind(name)
    # A bool is an int to Python, but `port = true` is a mistake.
    if not isinstance(value, kind) or isinstance(value, bool):
        # A password in digits, without its quotes, is no string; nor is it for the journal to see.
        shown = "it" if name in SECRETS else repr(value)
        raise ValueError(f"{shown} is not {_KIND_NAMES[kind]}")
    if isinstance(value, tuple) and not all(isinstance(item, str) for item in value):
        raise ValueError(f"{list(value)!r} is not a list of strings")
    if isinstance(value, int):
        low, high = _BOUNDS[name]
        if not low <= value <= high:
            raise ValueError(f"{value} is not between {low} and {high}")
    elif name in _CHOICES and value not in _CHOICES[name]:
        raise ValueError(f"{value!r} is not one of {', '.join(_CHOICES[name])}")
    elif name == "node_name" and value and not _NODE_NAME.fullmatch(str(value)):
        raise ValueError(f"{value!r} is not a name, an @ and a host")
    elif not value and name not in _MAY_BE_EMPTY:
        raise ValueError("must not be empty")
