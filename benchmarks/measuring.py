"""The figures of a load: rates, latencies, and the CPU time of generator and broker."""

from __future__ import annotations

import math
import struct
import time
from contextlib import suppress
from typing import Protocol

import psutil

from benchmarks.client import Client

Figures = dict[str, float]


def without_nan(figures: Figures) -> dict[str, float | None]:
    """Give the figures as JSON can hold them: None where there is no number."""
    return {name: None if math.isnan(value) else value for name, value in figures.items()}


class AnyLoad(Protocol):
    """A load over one connection or many, as far as it is measured."""

    @property
    def confirmed(self) -> int:
        """Publishes confirmed so far."""

    @property
    def sent(self) -> int:
        """Publishes sent so far."""

    @property
    def messages_back(self) -> int:
        """Deliveries and returns so far."""

    def latencies(self) -> list[float]:
        """Give the samples, in seconds, since this was asked last."""

    def run(self, seconds: float) -> None:
        """Publish and consume for this long."""

    def drain(self) -> None:
        """Publish no more; go on until all is confirmed."""


class BrokerCpu:
    """The CPU time that the broker's process, and those below it, have used."""

    def __init__(self, pid: int) -> None:
        root = psutil.Process(pid)
        # With their CPU seconds when they were last there.
        self._seconds = dict.fromkeys([root, *root.children(recursive=True)], 0.0)

    def seconds(self) -> float:
        """Give the sum since they were started; an ended process counts as it was last seen."""
        for process in self._seconds:
            with suppress(psutil.NoSuchProcess):
                times = process.cpu_times()
                self._seconds[process] = times.user + times.system
        return sum(self._seconds.values())


class Stopwatch:
    """Measures from its making on: the time, and what generator and broker compute meanwhile."""

    def __init__(self, broker: BrokerCpu | None) -> None:
        self._broker = broker
        self._cpu, self._broker_cpu = time.process_time(), self._broker_seconds()
        self._begun = time.perf_counter()

    def stop(self) -> tuple[float, Figures]:
        """Give the seconds, and the share of a core that each has used."""
        elapsed = time.perf_counter() - self._begun
        return elapsed, {
            "broker_cpu_share": (self._broker_seconds() - self._broker_cpu) / elapsed,
            "generator_cpu_share": (time.process_time() - self._cpu) / elapsed,
        }

    def _broker_seconds(self) -> float:
        return self._broker.seconds() if self._broker else math.nan


def measured(
    load: AnyLoad, seconds: float, warmup_seconds: float, broker: BrokerCpu | None = None
) -> Figures:
    """Run the load; give rates, latencies, and what generator and broker computed for it."""
    load.run(warmup_seconds)
    load.latencies()
    confirmed, back = load.confirmed, load.messages_back
    watch = Stopwatch(broker)
    load.run(seconds)
    elapsed, shares = watch.stop()
    return {
        "confirmed_rate": (load.confirmed - confirmed) / elapsed,
        "back_rate": (load.messages_back - back) / elapsed,
        **quantiles(sorted(load.latencies())),
        **shares,
    }


def one_at_a_time(
    client: Client,
    block: bytes,
    seconds: float,
    warmup_seconds: float,
    broker: BrokerCpu | None = None,
) -> Figures:
    """Publish, wait for the confirm, publish again: on a blocking socket, for true latencies."""
    latencies: list[float] = []
    send, receive, clock = client.socket.sendall, client.socket.recv, time.perf_counter
    seq_no = 0
    end = clock() + warmup_seconds
    watch = None
    while True:
        if (sent := clock()) >= end:
            if watch is not None:
                break
            watch, end = Stopwatch(broker), end + seconds
        seq_no += 1
        send(block)
        confirm = receive(64)
        done = clock()
        while len(confirm) < 21:
            confirm += receive(64)
        if struct.unpack_from(">Q", confirm, 11)[0] != seq_no or confirm[9:11] != b"\x00P":
            raise ValueError(f"publish {seq_no} was answered with {confirm.hex()}")
        if watch is not None:
            latencies.append(done - sent)
    elapsed, shares = watch.stop()
    figures = quantiles(sorted(latencies))
    rate = len(latencies) / elapsed
    return {"confirmed_rate": rate, "back_rate": 0.0, "messages": seq_no, **figures, **shares}


def quantiles(latencies_sorted: list[float]) -> Figures:
    """Give p50 and p99 of sorted seconds, in milliseconds."""
    if not latencies_sorted:
        return {"p50_ms": math.nan, "p99_ms": math.nan}
    last = len(latencies_sorted) - 1
    return {
        "p50_ms": latencies_sorted[round(last * 0.50)] * 1e3,
        "p99_ms": latencies_sorted[round(last * 0.99)] * 1e3,
    }
