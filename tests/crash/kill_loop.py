"""The loop of all crash tests: load on one data directory, kill -9 at a random moment.

A scenario has the queues, the threads of clients, and what must be there behind a start. All that
is random comes from one seed, which is printed; LEVERET_SEED repeats the choices (what the
machine's scheduler adds to them it cannot).
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Sequence

from broker_process import BrokerProcess
from load_threads import LoadThread, failures
from timeouts import TIMEOUT_SECONDS

# So small that segments are rewritten and removed, and messages paged, while the load runs; the log
# tells of each that was rewritten.
SETTINGS = {
    "segment_bytes_max": 1 << 20,
    "memory_budget_bytes": 1 << 20,
    "compaction_live_percent_max": 90,
    "compaction_segment_bytes_min": 4096,
    "maintenance_busy_percent_max": 100,
    "disk_check_interval_ms": 100,
    "log_level": "debug",
}


class KillLoop:
    """The broker that is killed and started again and again; `random` has the seed."""

    def __init__(self, start: Callable[..., BrokerProcess], seed: int) -> None:
        self.random = random.Random(seed)
        self._start_broker = start
        self.broker = self.start()

    def seed(self) -> int:
        """A seed for one thread."""
        return self.random.randrange(2**32)

    def start(self) -> BrokerProcess:
        """Start the next broker on the directory, and wait until it listens."""
        self.broker = self._start_broker(**SETTINGS).listening()
        return self.broker

    def kill_while_starting(self, seconds: tuple[float, float]) -> None:
        """Start a broker, and kill it before it may have come to an end of that."""
        broker = self._start_broker(**SETTINGS)
        threading.Event().wait(self.random.uniform(*seconds))
        broker.kill()

    def load_and_kill(
        self, threads: Sequence[LoadThread], load_seconds: tuple[float, float]
    ) -> float:
        """Run the threads until the broker is killed; return the seconds of load.

        They begin when all are connected, which on a busy machine may take as long as the load.
        """
        for thread in threads:
            thread.start()
        for thread in threads:
            assert thread.has_begun.wait(TIMEOUT_SECONDS), f"{thread.name} did not begin"
        seconds = self.random.uniform(*load_seconds)
        # The moment of the kill; nothing waits for anything here.
        threading.Event().wait(seconds)
        self.broker.kill()
        for thread in threads:
            thread.join(TIMEOUT_SECONDS)
            assert not thread.is_alive(), f"{thread.name} did not notice the end"
        assert not failures(threads), failures(threads)
        assert self.broker.faults() == []
        return seconds

    def kill(self) -> None:
        """Kill a broker without load."""
        self.broker.kill()
        assert self.broker.faults() == []

    def stop_or_kill(self) -> bool:
        """End a broker without load, by chance in either way; true if it was stopped."""
        is_stopped = self.random.random() < 0.5
        if is_stopped:
            assert self.broker.stop() == 0
            assert self.broker.faults() == []
        else:
            self.kill()
        return is_stopped
