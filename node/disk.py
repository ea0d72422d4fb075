"""Starts what watches the data directory's disk."""

from __future__ import annotations

from pathlib import Path

from .actors.disk_watch import DiskWatch
from .actors.messages import Ref
from .actors.node_context import NodeContext
from .configuration import Configuration
from .storage.files import Files, OperatingSystemFiles


def watch_disk(
    context: NodeContext,
    listener: Ref,
    configuration: Configuration,
    files: Files | None,
    directory: Path,
) -> None:
    """Raise and clear the alarm from now on, unless the settings say never."""
    disk = files or OperatingSystemFiles()
    if configuration.disk_free_bytes_min:
        DiskWatch.start_on(
            context.runtime,
            context,
            listener,
            lambda: disk.free_bytes(str(directory)),
            configuration.disk_free_bytes_min,
            configuration.disk_check_interval_ms / 1000,
        )
