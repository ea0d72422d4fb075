"""How much memory this process may use: the machine's, or less where a limit is set.

Linux knows several limits at once, and the lowest applies: the memory of the machine, those of the
process's control group and of each group above it (containers, MemoryMax= and MemoryHigh= in
systemd), and the address space and data of the process (ulimit -v and -d). A control group of
version 2 says it in `memory.max` and `memory.high`, one of version 1 in `memory.limit_in_bytes`. A
container often sees its own group as the root of the mounted tree, and a path in
`/proc/self/cgroup` that is outside of it: the mount's own root tells which part of the path
remains.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

# No process has so much: the limit of a group of version 1 that has none is near 2 ** 63.
UNLIMITED_BYTES: Final = 2**62

MIB: Final = 1024 * 1024
# Of what the queues' messages take by default: no more than this, and one part in so many of the
# memory.
MEMORY_BUDGET_BYTES_MAX: Final = 64 * MIB
MEMORY_BUDGET_PART: Final = 10

_LIMITS_2: Final = ("memory.max", "memory.high")
_LIMITS_1: Final = ("memory.limit_in_bytes",)


def default_memory_budget_bytes(memory_bytes: int) -> int:
    """The setting memory_budget_bytes of a process that may use so much memory."""
    return min(MEMORY_BUDGET_BYTES_MAX, memory_bytes // MEMORY_BUDGET_PART)


def memory_limit_bytes(
    root: Path = Path("/"),
    rlimit: Callable[[int], tuple[int, int]] = resource.getrlimit,
) -> int:
    """The least of all limits, in bytes; UNLIMITED_BYTES where the system says of none.

    `root` is the directory that holds `proc` and `sys`; a file that is not there, or has no number,
    limits nothing.
    """
    limits = [UNLIMITED_BYTES, *_machine_memory(root), *_control_group_limits(root)]
    for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA):
        limit_bytes, _ = rlimit(kind)
        if limit_bytes != resource.RLIM_INFINITY:
            limits.append(limit_bytes)
    return min(limits)


def _machine_memory(root: Path) -> Iterator[int]:
    for line in _lines(root / "proc/meminfo"):
        name, _, rest = line.partition(":")
        fields = rest.split()
        if name == "MemTotal" and len(fields) == 2 and fields[0].isdigit():
            yield int(fields[0]) * 1024


def _control_group_limits(root: Path) -> Iterator[int]:
    paths = dict(_group_paths(root))
    for version, mount_root, mount_point in _mounted_trees(root):
        path = paths.get(version)
        if path is None:
            continue
        top = root / mount_point.lstrip("/")
        # The group of the process, as far as the mount shows it, and all above it.
        below = _below(path, mount_root)
        group = top / below
        names = _LIMITS_2 if version == 2 else _LIMITS_1
        for directory in (group, *group.parents):
            for name in names:
                yield from _limits(directory / name)
            if directory == top:
                break


def _group_paths(root: Path) -> Iterator[tuple[int, str]]:
    """The path of the process's memory group, by version: `0::/a` or `4:cpu,memory:/a`."""
    for line in _lines(root / "proc/self/cgroup"):
        number, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if number == "0" and not controllers:
            yield 2, path
        elif "memory" in controllers.split(","):
            yield 1, path


def _mounted_trees(root: Path) -> Iterator[tuple[int, str, str]]:
    """Version, root and mount point of each tree of groups that limits memory."""
    for line in _lines(root / "proc/self/mountinfo"):
        mount, _, file_system = line.partition(" - ")
        fields, about = mount.split(), file_system.split()
        if len(fields) < 5 or not about:
            continue
        if about[0] == "cgroup2":
            yield 2, fields[3], fields[4]
        elif about[0] == "cgroup" and "memory" in about[-1].split(","):
            yield 1, fields[3], fields[4]


def _below(path: str, mount_root: str) -> str:
    """What of a group's path lies below the root of the mount; "" if it lies outside."""
    if mount_root == "/":
        below = path
    elif path == mount_root or path.startswith(mount_root + "/"):
        below = path[len(mount_root) :]
    else:
        below = ""
    # A group beside the namespace's own is shown as /../other.
    return "" if ".." in below.split("/") else below.strip("/")


def _limits(file: Path) -> Iterator[int]:
    for line in _lines(file):
        # `max` where there is none.
        if line.isdigit():
            yield int(line)


def _lines(file: Path) -> list[str]:
    try:
        return file.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return []
