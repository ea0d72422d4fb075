"""The disk under one data directory: its files, the room kept on it, and who watches it."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from .actors.disk.disk_watch import DiskWatch
from .actors.disk.journal import DiskBudget, Room
from .actors.messages import Ref
from .actors.node_context import NodeContext
from .configuration import Configuration
from .logs.events import DISK_NO_RESERVE
from .storage.data_directory import DirectoryWatch
from .storage.errors import NoSpaceError
from .storage.files import Files
from .storage.reserve import Purpose, Reserve

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger

# Less than this is no room, also where disk_free_bytes_min asks for none.
ROOM_BYTES_MIN: Final = 1024 * 1024
# The trace stops while so much more than that is free, one part in so many, so that it alone never
# raises the alarm.
TRACE_PART: Final = 4

Result = TypeVar("Result")


class Disk:
    """Made before anything is opened in the directory."""

    def __init__(
        self, configuration: Configuration, files: Files, log: FilteringBoundLogger
    ) -> None:
        self._log = log
        # Why the reserve cannot be had, as the log was told.
        self._fault = ""
        self.files = files
        self._directory = str(configuration.data_dir)
        self._free_bytes_min = configuration.disk_free_bytes_min
        self._interval_seconds = configuration.disk_check_interval_ms / 1000
        # Less than this is low.
        self._room_bytes_min = max(self._free_bytes_min, ROOM_BYTES_MIN)
        self._budget = DiskBudget(self._free_bytes_min)
        self.reserve = Reserve(self.files, self._directory, configuration.disk_reserve_bytes)

    @property
    def path(self) -> Path:
        """The directory."""
        return Path(self._directory)

    @property
    def room(self) -> Room:
        """For the journal."""
        return Room(self._budget, self._seek, self.reserve)

    @contextmanager
    def room_to_start(self) -> Iterator[None]:
        """Writes within this block may use up the reserve: a broker that cannot start frees
        nothing."""
        self.files.make_room = partial(self.reserve.release_step, Purpose.START)
        try:
            yield
        finally:
            self.files.make_room = None

    def begin(self, call: Callable[[], Result]) -> Result:
        """Make a call of the start that meets a full disk again, with what the reserve has.

        For the catalog, which writes by itself.
        """
        while True:
            try:
                return call()
            except NoSpaceError:
                if not self.reserve.release_step(Purpose.START):
                    raise

    def _seek(self, free_bytes: int) -> bool:
        """Refill the reserve, if so much is free; is there room for publishes besides?"""
        wanted_bytes = self._room_bytes_min
        # Or publishes would take what it has given up for others.
        has_room = free_bytes - self.reserve.missing_bytes >= wanted_bytes
        fault = ""
        is_true = True
        try:
            is_true = self.reserve.refill(free_bytes, wanted_bytes)
        except OSError as error:
            # As where a file may not be so large. Without a reserve a broker runs as well.
            fault = str(error)
        if fault and fault != self._fault:
            self._log.warning(DISK_NO_RESERVE, reason=fault)
        self._fault = fault
        return is_true and has_room

    def require_room(self, size_bytes: int) -> None:
        """For what stops first: OSError if so many bytes more would bring the disk near to low."""
        kept_bytes = self._room_bytes_min + self._room_bytes_min // TRACE_PART
        free_bytes = self.files.free_bytes(self._directory)
        if free_bytes - size_bytes < kept_bytes:
            text = f"only {free_bytes} bytes are free, of which {kept_bytes} are for messages"
            raise OSError(errno.ENOSPC, text)

    def watch(self, context: NodeContext, listener: Ref) -> None:
        """Raise and clear the alarm from now on, and end the node if the directory is gone."""
        directory = DirectoryWatch(self._directory, self.files)

        def free_bytes() -> int:
            directory.check()
            return self.files.free_bytes(self._directory)

        DiskWatch.start_on(
            context.runtime,
            context,
            listener,
            free_bytes,
            self._free_bytes_min,
            self._interval_seconds,
            self._budget,
        )
