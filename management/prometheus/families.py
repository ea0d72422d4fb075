"""Metrics of the official library, made in one line each."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from prometheus_client import Metric
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    UnknownMetricFamily,
)
from prometheus_client.utils import floatToGoString

from ...core.histogram import Histogram

# Labels are in the order of their names.
Samples = Iterable[tuple[Sequence[str], float]]


def gauge(name: str, text: str, value: float) -> Metric:
    """One number that may go up and down."""
    return GaugeMetricFamily(name, text, value)


def counter(name: str, text: str, value: float) -> Metric:
    """One number that only goes up, until the node ends; its name ends with `_total`."""
    return CounterMetricFamily(name, text, value)


def gauges(name: str, text: str, labels: Sequence[str], samples: Samples) -> Metric:
    """One for each set of labels."""
    metric = GaugeMetricFamily(name, text, labels=labels)
    for values, value in samples:
        metric.add_metric(values, value)
    return metric


def counters(name: str, text: str, labels: Sequence[str], samples: Samples) -> Metric:
    """One for each set of labels; the name ends with `_total`."""
    metric = CounterMetricFamily(name, text, labels=labels)
    for values, value in samples:
        metric.add_metric(values, value)
    return metric


def untyped(name: str, text: str, labels: Mapping[str, str], value: float) -> Metric:
    """One that RabbitMQ shows without a type."""
    metric = UnknownMetricFamily(name, text, labels=list(labels))
    metric.add_metric(list(labels.values()), value)
    return metric


def info(name: str, text: str, labels: Mapping[str, str]) -> Metric:
    """A gauge that is always 1, and tells by its labels."""
    return gauges(name, text, list(labels), [(list(labels.values()), 1)])


def histogram(name: str, text: str, values: Histogram) -> Metric:
    """A histogram at this moment."""
    return histograms(name, text, (), [((), values)])


def histograms(
    name: str,
    text: str,
    labels: Sequence[str],
    each: Iterable[tuple[Sequence[str], Histogram]],
) -> Metric:
    """One for each set of labels, at this moment."""
    metric = HistogramMetricFamily(name, text, labels=labels)
    for label_values, values in each:
        # As RabbitMQ, and Prometheus' own libraries, write numbers: dashboards name some.
        bounds = [*map(floatToGoString, values.bounds), "+Inf"]
        # The last one is the count: read once, buckets and count agree.
        counts = accumulate(tuple(values.counts))
        metric.add_metric(label_values, list(zip(bounds, counts, strict=True)), values.total)
    return metric
