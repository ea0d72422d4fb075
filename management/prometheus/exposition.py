"""Metrics as text, made in short steps (management/pace.py)."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Sequence
from typing import Final

from prometheus_client import Metric
from prometheus_client.exposition import generate_latest

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
# A sample takes some microseconds.
_SAMPLES_AT_ONCE: Final = 8


class _Alone:
    """A registry, for the library, with one metric."""

    def __init__(self, metric: Metric) -> None:
        self._metric = metric

    def collect(self) -> Iterable[Metric]:
        return (self._metric,)


def exposed(metrics: Sequence[Metric]) -> Generator[None, None, list[bytes]]:
    """The metrics in Prometheus' text format, in parts; those without samples are left out."""
    parts = []
    for metric in metrics:
        samples = metric.samples
        for at in range(0, len(samples), _SAMPLES_AT_ONCE):
            metric.samples = samples[at : at + _SAMPLES_AT_ONCE]
            text = generate_latest(_Alone(metric))
            # The two lines of help and type stand once.
            parts.append(text.split(b"\n", 2)[2] if at else text)
            yield
    return parts
