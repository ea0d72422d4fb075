"""The trace of a node at its start: its files, and its filter from the beginning."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .actors.runtime.out_of_memory import OnFatal
from .configuration import Configuration
from .disk import Disk
from .logs.events import TRACE_FAILED
from .logs.trace.files import TraceFiles
from .logs.trace.trace import Trace, TraceFilter

if TYPE_CHECKING:
    from structlog.typing import FilteringBoundLogger


def start_trace(
    trace: Trace,
    disk: Disk,
    configuration: Configuration,
    log: FilteringBoundLogger,
    on_fatal: OnFatal,
) -> None:
    """Give the trace its files, write what a killed broker left, and start it if it is configured.

    A disk without room for a trace is logged and does not keep the broker from its start: the
    broker must serve the messages on that disk.
    """
    files = trace.sink = TraceFiles(
        trace,
        disk.path / "traces",
        log,
        configuration.trace_buffer_bytes_max,
        configuration.trace_file_bytes_max,
        configuration.trace_file_age_seconds_max,
        configuration.trace_files_max,
        on_fatal,
        disk.require_room,
    )
    wanted = TraceFilter(configuration.trace_one_of, frozenset(configuration.trace_queues))
    try:
        # Also while the trace is off, so that those who ask find the last hops of a message.
        files.salvage()
        if configuration.trace_one_of:
            trace.start(wanted, "configured")
    except OSError as fault:
        if configuration.trace_one_of:
            # `leveret trace status` says so until the disk watch has found room, or somebody
            # switches the trace on or off.
            trace.start_later(wanted, "configured")
            trace.error = (
                f"the settings ask for a trace, which could not start: {fault}; it needs room for "
                f"its ring (trace_buffer_bytes_max, {configuration.trace_buffer_bytes_max} bytes) "
                "beside the bytes kept for messages (disk_free_bytes_min and a quarter of it)"
            )
        log.error(TRACE_FAILED, error=str(fault), directory=str(files.directory))
