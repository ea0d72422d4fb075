"""A control group of Linux with little memory, for a broker to run in.

Of version 1 or 2, as the machine has it; below the group of this process where that may be, so that
nothing else changes. Making one needs the right to write there, which root has and a container may
have not.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple


class NoControlGroupError(Exception):
    """The system does not let this process make a group with a limit; says why."""


class MemoryFacts(NamedTuple):
    """What the kernel says of a group: bytes at most, processes that it has killed for memory.

    The bytes include the files' pages that it keeps for the group, and gives up when it must.
    """

    most_bytes: int
    killed: int


class ControlGroup:
    """A group that exists; `command` runs a program in it."""

    def __init__(self, directory: Path, version: int) -> None:
        self._directory = directory
        self._version = version

    def limit(self, limit_bytes: int) -> None:
        """No process of the group gets more memory than this; swap counts as memory."""
        if self._version == 2:
            (self._directory / "memory.max").write_text(str(limit_bytes))
            with suppress(OSError):
                (self._directory / "memory.swap.max").write_text("0")
            return
        (self._directory / "memory.limit_in_bytes").write_text(str(limit_bytes))
        with suppress(OSError):
            (self._directory / "memory.memsw.limit_in_bytes").write_text(str(limit_bytes))

    def command(self, program: str) -> str:
        """A command line that enters the group and becomes the program, with its arguments."""
        procs = shlex.quote(str(self._directory / "cgroup.procs"))
        script = f'echo $$ > {procs} && exec {program} "$@"'
        return f"sh -c {shlex.quote(script)} sh"

    def facts(self) -> MemoryFacts:
        """How it went so far."""
        if self._version == 2:
            most, events = "memory.peak", "memory.events"
        else:
            most, events = "memory.max_usage_in_bytes", "memory.oom_control"
        killed = 0
        for line in (self._directory / events).read_text().splitlines():
            name, _, number = line.partition(" ")
            if name == "oom_kill":
                killed = int(number)
        return MemoryFacts(int((self._directory / most).read_text()), killed)

    def remove(self) -> None:
        """Once no process is in it any more."""
        with suppress(OSError):
            self._directory.rmdir()


@contextmanager
def control_group(name: str, limit_bytes: int) -> Iterator[ControlGroup]:
    """Make a group below this process's own; NoControlGroupError."""
    parent, version = _own_group()
    directory = parent / f"{name}-{os.getpid()}"
    group = ControlGroup(directory, version)
    try:
        directory.mkdir()
        group.limit(limit_bytes)
    except OSError as error:
        group.remove()
        raise NoControlGroupError(f"{directory}: {error.strerror or error}") from error
    try:
        yield group
    finally:
        group.remove()


def _own_group() -> tuple[Path, int]:
    paths = {}
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        for controller in controllers.split(","):
            paths[controller] = path.lstrip("/")
    first = Path("/sys/fs/cgroup/memory")
    if "memory" in paths and first.is_dir():
        return first / paths["memory"], 1
    second = Path("/sys/fs/cgroup")
    if "" in paths and "memory" in _controllers(second):
        # A group with processes gives no memory to groups below: beside it, at the top.
        return second, 2
    raise NoControlGroupError("there is no control group for memory")


def _controllers(directory: Path) -> str:
    with suppress(OSError):
        return (directory / "cgroup.subtree_control").read_text()
    return ""
