"""Leveret's own metrics: what it does that RabbitMQ does otherwise, or not at all."""

from __future__ import annotations

import platform
from collections import Counter
from typing import Final

from prometheus_client import Metric

from ...amqp_frames.compiled import FORM
from ...core.connection.reading_time import Pause
from ...core.statistics.journal_figures import JournalFigures
from .asked import Asked, Form, Source
from .families import counter, gauge, gauges, histogram, histograms, info

_PAUSES: Final = {
    Pause.ALARM: "alarm",
    Pause.CLIENT: "client_does_not_read",
    Pause.NODE_WINDOW: "node_window",
    Pause.WINDOW: "publish_window",
}


def metrics(source: Source, asked: Asked) -> list[Metric]:
    """All of them, unless families of RabbitMQ's are asked for."""
    if asked.form is Form.DETAILED:
        return []
    lag = histogram(
        "leveret_event_loop_lag_seconds",
        "How late the event loop came to a timer",
        source.lag_seconds,
    )
    journal = _journal(source.context.journal_figures)
    return [_build(source), _memory(source), lag, _confirms(source), _paused(source), *journal]


def _build(source: Source) -> Metric:
    labels = {
        "version": source.about.version,
        "python_version": platform.python_version(),
        "codec": FORM,
    }
    return info("leveret_build_info", "Versions of Leveret and Python, form of the codec", labels)


def _confirms(source: Source) -> Metric:
    latency = source.context.confirm_latency
    return histograms(
        "leveret_confirm_seconds",
        "Time from the read of publishes to their confirm, one value for each batch",
        ("kind",),
        [(("persistent",), latency.persistent), (("transient",), latency.transient)],
    )


def _paused(source: Source) -> Metric:
    counts = Counter(each.reading.reason for each in source.context.open_connections.values())
    return gauges(
        "leveret_connections_paused",
        "Connections that are not read now, by the reason",
        ("reason",),
        [((name,), counts[pause]) for pause, name in _PAUSES.items()],
    )


def _memory(source: Source) -> Metric:
    context = source.context
    purposes = {
        "queues": context.memory_budget.used_bytes,
        "publishes": context.node_window.used_bytes,
        "deliveries": context.node_outlet.used_bytes,
        "routes": context.vhost_users.route_memory.used_bytes,
        "shared_runs": context.shared_runs.kept_bytes,
    }
    return gauges(
        "leveret_memory_bytes",
        "Memory by purpose, as far as the broker counts it",
        ("purpose",),
        [((name,), value) for name, value in purposes.items()],
    )


def _journal(figures: JournalFigures) -> list[Metric]:
    check = figures.check
    return [
        histogram(
            "leveret_journal_sync_seconds",
            "Time that a sync of the journal took",
            figures.sync_seconds,
        ),
        histogram(
            "leveret_journal_commit_messages",
            "Messages of a commit of the journal, one for each queue that has got it",
            figures.commit_messages,
        ),
        gauge("leveret_journal_segments", "Segments of the journal", figures.segments),
        gauges(
            "leveret_journal_bytes",
            "Bytes of the journal's segments, by whether queues still have the messages",
            ("state",),
            [(("live",), figures.live_bytes), (("dead",), figures.dead_bytes)],
        ),
        gauge(
            "leveret_journal_damaged_segments",
            "Segments in which the start or the background check has found damage",
            figures.damaged_segments,
        ),
        gauges(
            "leveret_journal_check_bytes",
            "Bytes of closed segments that the background check has read, and those left to it",
            ("state",),
            [(("checked",), check.checked_bytes), (("left",), check.left_bytes)],
        ),
        gauge(
            "leveret_journal_check_finished_timestamp_seconds",
            "When the background check last had nothing left to read; 0: not since the start",
            check.finished_seconds,
        ),
        counter(
            "leveret_journal_compactions_total",
            "Segments that were rewritten without their dead messages",
            figures.compactions,
        ),
    ]
