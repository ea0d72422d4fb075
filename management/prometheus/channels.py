"""RabbitMQ's metrics of connections and channels: sums, or a sample for each.

A channel is asked for its counts. All are asked before any answer is awaited, and one that does not
answer soon is left out: a scrape never waits long for a busy connection.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping, Sequence
from operator import attrgetter
from typing import Final, NamedTuple

from prometheus_client import Metric

from ...actors.messages import ChannelReport, Ref, ReportChannel
from ...actors.node_context import OpenConnection
from ..asking import ask_all
from ..client_names import channel_name, open_channels
from ..pace import Pace
from .asked import Asked, Form, Source
from .families import gauge, gauges

# A channel that has not answered after this has much to do.
_ANSWERS_SECONDS_MAX: Final = 1.0


class _Gauge(NamedTuple):
    """Of a channel: one of its counts (actors/channel/channel.py)."""

    name: str
    number: str
    text: str


_GAUGES: Final = (
    _Gauge("channel_consumers", "consumers", "Consumers of channels"),
    _Gauge("channel_messages_unacked", "unacked", "Messages delivered and not yet acknowledged"),
    _Gauge("channel_messages_unconfirmed", "unconfirmed", "Messages published, not yet confirmed"),
    _Gauge("consumer_prefetch", "prefetch", "Prefetch limit of each consumer"),
    _Gauge("channel_prefetch", "global_prefetch", "Prefetch limit of a channel's consumers"),
)


class Reports(NamedTuple):
    """What channels have answered, and their names."""

    names: Mapping[Ref, str]
    reports: Sequence[ChannelReport]


async def reports(source: Source, asked: Asked, pace: Pace) -> Reports:
    """Ask all channels, if the request wants to know of them."""
    if not asked.wants("channel_metrics"):
        return Reports({}, ())
    names = await pace.carry_out(_names(source))
    answers: list[ChannelReport] = await ask_all(
        source.context.runtime,
        names,
        ReportChannel,
        attrgetter("channel"),
        _ANSWERS_SECONDS_MAX,
    )
    return Reports(names, answers)


def _names(source: Source) -> Generator[None, None, dict[Ref, str]]:
    names: dict[Ref, str] = {}
    for opened in tuple(source.context.open_connections.values()):
        for number, channel in open_channels(opened).items():
            names[channel] = channel_name(opened, number)
        yield
    return names


def metrics(source: Source, asked: Asked, answered: Reports) -> Generator[None, None, list[Metric]]:
    """Those that the request asks for, in short steps."""
    made: list[Metric] = []
    if asked.form is not Form.DETAILED:
        opened = source.context.open_connections.values()
        count = sum(len(open_channels(each)) for each in opened)
        made += [
            gauge("rabbitmq_connections", "AMQP connections that are open", len(opened)),
            gauge("rabbitmq_channels", "Channels that are open", count),
            gauges(
                "rabbitmq_global_publishers",
                "Channels that have published",
                ("protocol",),
                [(("amqp091",), sum(map(_publisher_count, opened)))],
            ),
        ]
    if asked.wants("channel_metrics"):
        made += yield from _of_channels(asked, answered)
    return made


def _of_channels(asked: Asked, answered: Reports) -> Generator[None, None, list[Metric]]:
    labels = ("channel",) if asked.per_object else ()
    made = [gauges(asked.prefix + row.name, row.text, labels, ()) for row in _GAUGES]
    sums = dict.fromkeys((row.number for row in _GAUGES), 0)
    for report in answered.reports:
        yield
        counts: Mapping[str, int] = report.counts  # type: ignore[assignment]
        for number in sums:
            sums[number] += counts[number]
        if asked.per_object:
            name = {"channel": answered.names[report.channel]}
            for metric, row in zip(made, _GAUGES, strict=True):
                metric.add_sample(metric.name, name, counts[row.number])
    if not asked.per_object:
        for metric, row in zip(made, _GAUGES, strict=True):
            metric.add_sample(metric.name, {}, sums[row.number])
    return made


def _publisher_count(opened: OpenConnection) -> int:
    return sum("publish" in each.totals for each in opened.channel_counts.values())
