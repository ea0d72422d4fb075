"""RabbitMQ's metrics of a node: who it is, what it uses and may use, and its alarms."""

from __future__ import annotations

import resource
import time
from collections.abc import Generator
from functools import cache
from importlib.metadata import version
from typing import NamedTuple

from prometheus_client import Metric, ProcessCollector

from ...core.alarms import Resource
from ...core.statistics.journal_figures import JournalFigures
from ..cluster_name import cluster_name
from .asked import Asked, Form, Source
from .families import counter, gauge, untyped

# The library's, which reads /proc: it has nothing to say where there is none.
_process = ProcessCollector(registry=None)


class Process(NamedTuple):
    """What the system says, under the names that all programs have."""

    metrics: list[Metric]

    def value(self, name: str) -> float | None:
        """Of the only sample of a metric, if it is there."""
        found = (each.samples[0].value for each in self.metrics if each.name == name)
        return next(found, None)


@cache
def _library_version() -> str:
    """Of the library; a file says it, which takes a millisecond to read."""
    return version("prometheus_client")


def of_process() -> Process:
    """For any thread: it may take a while."""
    return Process(list(_process.collect()))


def metrics(source: Source, asked: Asked, process: Process) -> Generator[None, None, list[Metric]]:
    """Those that the request asks for, in short steps."""
    made = _identity(source, asked)
    if asked.form is not Form.DETAILED:
        yield
        made += _alarms(source)
        made += process.metrics
    if asked.wants("node_coarse_metrics"):
        yield
        made += _uses(source, asked.prefix, process)
    if asked.wants("node_metrics"):
        yield
        made += _limits(source, asked.prefix, process)
    if asked.wants("node_persister_metrics"):
        yield
        made += _persister(source.context.journal_figures, asked.prefix)
    return made


def _identity(source: Source, asked: Asked) -> list[Metric]:
    about = source.about
    return [
        untyped(
            "rabbitmq_build_info",
            "Versions: of RabbitMQ as clients are told, of Leveret, and of Prometheus' library",
            {
                "rabbitmq_version": about.server_version,
                "prometheus_plugin_version": about.version,
                "prometheus_client_version": _library_version(),
                "erlang_version": "",
            },
            1,
        ),
        untyped(
            "rabbitmq_identity_info",
            "Names of the node, and the identity of its data directory",
            {
                "rabbitmq_node": about.node_name,
                "rabbitmq_cluster": cluster_name(source.context.accounts, about),
                "rabbitmq_cluster_permanent_id": about.directory_id,
                "rabbitmq_endpoint": asked.form.value,
            },
            1,
        ),
    ]


def _alarms(source: Source) -> list[Metric]:
    alarms = source.context.alarms
    texts = {
        "free_disk_space_watermark": (Resource.DISK, "the disk is nearly full"),
        "memory_used_watermark": (Resource.MEMORY, "queues hold too much in memory"),
    }
    return [
        untyped(f"rabbitmq_alarms_{name}", f"1 while {text}", {}, alarms.is_low(low))
        for name, (low, text) in texts.items()
    ]


def _uses(source: Source, prefix: str, process: Process) -> list[Metric]:
    context = source.context
    return [
        *_if_known(f"{prefix}process_open_fds", "File descriptors in use", process),
        gauge(
            f"{prefix}process_resident_memory_bytes",
            "Memory that messages in queues hold: what the memory alarm goes by",
            context.memory_budget.used_bytes,
        ),
        gauge(
            f"{prefix}process_open_tcp_sockets",
            "AMQP connections that have opened a vhost",
            len(context.open_connections),
        ),
        gauge(
            f"{prefix}disk_space_available_bytes",
            "Bytes that may still be written to the disk of the data directory",
            context.disk_free_bytes,
        ),
    ]


def _limits(source: Source, prefix: str, process: Process) -> list[Metric]:
    about, context = source.about, source.context
    text = "File descriptors that the process may have"
    return [
        *_if_known(f"{prefix}process_max_fds", text, process),
        gauge(
            f"{prefix}process_max_tcp_sockets",
            "AMQP connections that the node accepts, or has file descriptors for",
            context.connections_max or _sockets_max(context.file_descriptors_kept),
        ),
        gauge(
            f"{prefix}resident_memory_limit_bytes",
            "The memory alarm is raised when queues hold more than so many bytes",
            about.memory_alarm_bytes,
        ),
        gauge(
            f"{prefix}disk_space_available_limit_bytes",
            "The disk alarm is raised when fewer bytes are free",
            about.disk_free_bytes_min,
        ),
        gauge(
            f"{prefix}erlang_uptime_seconds",
            "Time since the node's start",
            time.time() - about.started_seconds,
        ),
    ]


def _persister(journal: JournalFigures, prefix: str) -> list[Metric]:
    return [
        counter(f"{prefix}io_write_ops_total", "Commits that the journal wrote", journal.writes),
        counter(
            f"{prefix}io_write_bytes_total",
            "Bytes that the journal wrote",
            journal.written_bytes,
        ),
        counter(
            f"{prefix}io_write_time_seconds_total",
            "Time that writes of the journal took",
            journal.write_seconds,
        ),
        counter(
            f"{prefix}io_sync_ops_total",
            "Syncs of the journal",
            sum(journal.sync_seconds.counts),
        ),
        counter(
            f"{prefix}io_sync_time_seconds_total",
            "Time that syncs of the journal took",
            journal.sync_seconds.total,
        ),
        counter(
            f"{prefix}msg_store_read_total",
            "Messages that were read from the disk",
            journal.pages.read_messages,
        ),
        counter(
            f"{prefix}msg_store_write_total",
            "Messages that were written to the disk",
            journal.written_messages,
        ),
    ]


def _if_known(name: str, text: str, process: Process) -> list[Metric]:
    value = process.value(name[name.index("process_") :])
    return [] if value is None else [gauge(name, text, value)]


def _sockets_max(file_descriptors_kept: int) -> int:
    allowed, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(0, allowed - file_descriptors_kept)
