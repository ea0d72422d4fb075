"""All that a node takes from the machine it runs on: disk, threads, clocks, random bytes.

By default it is the machine's own. A simulation passes models, so that a node runs in one thread
and does the same again for the same seed; what a node does besides is the same there and here.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .actors.connection.logins import login_threads
from .actors.runtime.out_of_memory import OnFatal
from .actors.runtime.runtime import Runtime, Scheduler
from .actors.runtime.thread_actor import OwnThreads, Threads
from .storage.catalog import CatalogFiles, Catalogs
from .storage.files import Files, OperatingSystemFiles

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


def machine_runtime(scheduler: Scheduler, log: FilteringBoundLogger, on_fatal: OnFatal) -> Runtime:
    """A runtime with the machine's clock, whose actors have their turns in order."""
    return Runtime(scheduler, log, on_fatal)


@dataclass
class Machine:
    """`new_runtime` is called on the thread of the event loop."""

    files: Files = field(default_factory=OperatingSystemFiles)
    catalogs: Catalogs = field(default_factory=CatalogFiles)
    # Of the actors that wait for the disk.
    threads: Threads = field(default_factory=OwnThreads)
    # For so many password checks at once.
    login_threads: Callable[[int], Executor] = login_threads
    random_bytes: Callable[[int], bytes] = os.urandom
    # Of background work, in seconds.
    pause: Callable[[float], None] = time.sleep
    # Seconds, for a wait of the whole start and for background work: the event loop's clock may
    # stand still in a callback.
    monotonic: Callable[[], float] = time.monotonic
    # Seconds that the calling thread has had a processor.
    thread_time: Callable[[], float] = time.thread_time
    new_runtime: Callable[[Scheduler, FilteringBoundLogger, OnFatal], Runtime] = machine_runtime

    def other_files(self) -> Files:
        """The same disk for another thread: one with large writes has memory for these."""
        is_machine = isinstance(self.files, OperatingSystemFiles)
        return OperatingSystemFiles() if is_machine else self.files
