"""RabbitMQ's metrics of queues: sums, or a sample for each queue.

The numbers are those of the API's rows (core/statistics/sampling.py).
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Final, NamedTuple

from prometheus_client import Metric

from ...core.definitions import QueueDefinition
from ...core.statistics.sampling import numbers_of, sums_of
from .asked import Asked, Form, Source
from .families import gauge, gauges


class _Gauge(NamedTuple):
    """Of a queue: one of `numbers_of`."""

    families: tuple[str, ...]
    name: str
    number: str
    text: str


_GAUGES: Final = (
    _Gauge(
        ("queue_coarse_metrics",),
        "queue_messages_ready",
        "messages_ready",
        "Messages that can be delivered",
    ),
    _Gauge(
        ("queue_coarse_metrics",),
        "queue_messages_unacked",
        "messages_unacknowledged",
        "Messages delivered and not yet acknowledged, and deferred ones",
    ),
    _Gauge(
        ("queue_coarse_metrics",),
        "queue_messages",
        "messages",
        "Messages in queues: ready and unacknowledged ones",
    ),
    _Gauge(
        ("queue_consumer_count", "queue_metrics"),
        "queue_consumers",
        "consumers",
        "Consumers of queues",
    ),
    _Gauge(
        ("queue_metrics",),
        "queue_process_memory_bytes",
        "memory",
        "Memory that the messages of queues hold, in bytes",
    ),
)


def metrics(source: Source, asked: Asked) -> Generator[None, None, list[Metric]]:
    """Those that the request asks for, in short steps."""
    wanted = [each for each in _GAUGES if asked.wants(*each.families)]
    labels = ("vhost", "queue") if asked.per_object else ()
    made = [gauges(asked.prefix + each.name, each.text, labels, ()) for each in wanted]
    if asked.per_object and wanted:
        for queue in source.queues(asked):
            yield
            numbers = numbers_of(queue)
            if numbers:
                _add(queue, numbers, wanted, made)
    if asked.form is not Form.DETAILED:
        sums = yield from sums_of(source.queues(asked))
        if not asked.per_object:
            for metric, each in zip(made, wanted, strict=True):
                metric.add_sample(metric.name, {}, sums[each.number])
        made += _totals(source, sums["consumers"])
    return made


def _add(
    queue: QueueDefinition, numbers: dict[str, int], wanted: list[_Gauge], to: list[Metric]
) -> None:
    # All samples of a queue have these very labels.
    labels = {"vhost": queue.vhost, "queue": queue.name}
    for metric, each in zip(to, wanted, strict=True):
        metric.add_sample(metric.name, labels, numbers[each.number])


def _totals(source: Source, consumer_count: int) -> list[Metric]:
    context = source.context
    queue_count = sum(len(each.table.queues()) for each in context.vhosts)
    protocol = ("protocol",)
    return [
        gauge("rabbitmq_queues", "Queues that are there", queue_count),
        gauge("rabbitmq_consumers", "Consumers of queues", consumer_count),
        gauges(
            "rabbitmq_global_consumers",
            "Consumers of queues, by protocol",
            protocol,
            [(("amqp091",), consumer_count)],
        ),
    ]
