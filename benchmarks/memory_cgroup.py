"""A control group that limits the memory of the processes started in it: Linux, as root.

    with memory_cgroup(256 * MIB) as group:
        subprocess.Popen([*group.command, "leveret", "serve"])
        ...
        print(group.peak_bytes, group.kills)

Both versions are known: with version 1 the group lies in the tree of the controller `memory`, with
version 2 at the top of the unified tree, if that controller is there. The limit counts the page
cache, too, which the kernel takes back before it kills anybody; swap is left out where the kernel
can tell it apart.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Final

MIB: Final = 1024 * 1024
ROOT: Final = Path("/sys/fs/cgroup")
_numbers = count()
# A process that was killed is in its group until its parent has heard of it.
_END_SECONDS_MAX: Final = 10.0
_PAUSE_SECONDS: Final = 0.01


class CgroupUnavailableError(Exception):
    """No such group can be made here; the text says why."""


class MemoryCgroup:
    """One group: `command` goes before a command line, the figures are those of all in it."""

    def __init__(self, path: Path, is_version_2: bool, limit_bytes: int) -> None:
        self.path = path
        self.limit_bytes = limit_bytes
        self._is_version_2 = is_version_2
        limit = "memory.max" if is_version_2 else "memory.limit_in_bytes"
        (path / limit).write_text(f"{limit_bytes}")
        swap = ("memory.swap.max", "0")
        if not is_version_2:
            swap = ("memory.memsw.limit_in_bytes", f"{limit_bytes}")
        with suppress(OSError):
            (path / swap[0]).write_text(swap[1])

    @property
    def command(self) -> tuple[str, ...]:
        """Run what follows in the group, as the same process."""
        return ("sh", "-c", f'echo $$ > {self.path}/cgroup.procs && exec "$@"', "sh")

    @property
    def peak_bytes(self) -> int:
        """The most that was in use, page cache included; 0 if the kernel does not count it."""
        name = "memory.peak" if self._is_version_2 else "memory.max_usage_in_bytes"
        with suppress(FileNotFoundError):
            return int((self.path / name).read_text())
        return 0

    @property
    def resident_bytes(self) -> int:
        """The memory of its processes now, without the page cache."""
        return self._count("memory.stat", "anon" if self._is_version_2 else "total_rss")

    @property
    def kills(self) -> int:
        """How many processes the kernel has killed because the limit was reached."""
        file = "memory.events" if self._is_version_2 else "memory.oom_control"
        return self._count(file, "oom_kill")

    def _count(self, file: str, name: str) -> int:
        for line in (self.path / file).read_text().splitlines():
            field, _, value = line.partition(" ")
            if field == name:
                return int(value)
        return 0

    def remove(self) -> None:
        """Kill what still runs in it, and remove the group."""
        until = time.monotonic() + _END_SECONDS_MAX
        while time.monotonic() < until:
            for pid in (self.path / "cgroup.procs").read_text().split():
                with suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            try:
                self.path.rmdir()
            except OSError:
                time.sleep(_PAUSE_SECONDS)
            else:
                return


@contextmanager
def memory_cgroup(limit_bytes: int, root: Path = ROOT) -> Iterator[MemoryCgroup]:
    """Make a group with this limit; CgroupUnavailableError with the reason if there can be none."""
    parent, is_version_2 = _parent(root)
    path = parent / f"leveret-{os.getpid()}-{next(_numbers)}"
    try:
        path.mkdir()
    except OSError as error:
        raise CgroupUnavailableError(f"{path}: {error.strerror}") from error
    try:
        group = MemoryCgroup(path, is_version_2, limit_bytes)
    except OSError as error:
        path.rmdir()
        raise CgroupUnavailableError(f"{path}: {error.strerror}") from error
    try:
        yield group
    finally:
        group.remove()


def _parent(root: Path) -> tuple[Path, bool]:
    if (root / "memory" / "cgroup.procs").exists():
        return root / "memory", False
    controllers = root / "cgroup.controllers"
    if controllers.exists() and "memory" in controllers.read_text().split():
        with suppress(OSError):
            (root / "cgroup.subtree_control").write_text("+memory")
        return root, True
    raise CgroupUnavailableError(f"{root} has no controller for memory")
