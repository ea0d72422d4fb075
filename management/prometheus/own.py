"""Leveret's own metrics: what it does that RabbitMQ does otherwise, or not at all."""

from __future__ import annotations

import platform

from prometheus_client import Metric

from ...amqp_frames.compiled import FORM
from ...core.statistics.journal_figures import JournalFigures
from .asked import Asked, Form, Source
from .families import counter, gauge, gauges, histogram, info


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
    return [_build(source), _memory(source), lag, *journal]


def _build(source: Source) -> Metric:
    labels = {
        "version": source.about.version,
        "python_version": platform.python_version(),
        "codec": FORM,
    }
    return info("leveret_build_info", "Versions of Leveret and Python, form of the codec", labels)


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
        counter(
            "leveret_journal_compactions_total",
            "Segments that were rewritten without their dead messages",
            figures.compactions,
        ),
    ]
