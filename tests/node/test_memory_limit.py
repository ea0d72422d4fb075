"""How much memory a process may use, read from made-up files of /proc and /sys."""

from __future__ import annotations

import resource
from pathlib import Path

import pytest
from leveret.configuration import Configuration
from leveret.errors import ConfigurationError
from leveret.memory_limit import UNLIMITED_BYTES, default_memory_budget_bytes, memory_limit_bytes

MIB = 1024 * 1024
GIB = 1024 * MIB

MOUNT_2 = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n"
MOUNT_1 = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
NO_LIMIT_1 = "9223372036854771712\n"


def unlimited(_kind: int) -> tuple[int, int]:
    return resource.RLIM_INFINITY, resource.RLIM_INFINITY


def limit_found(directory: Path, files: dict[str, str]) -> int:
    """The limit on a machine of 8 GiB with these files."""
    machine = {"proc/meminfo": "MemTotal:        8388608 kB\nMemFree:            4096 kB\n"}
    for name, text in (machine | files).items():
        file = directory / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    return memory_limit_bytes(directory, unlimited)


def test_the_memory_of_the_machine_is_the_limit_where_there_is_no_other(tmp_path: Path) -> None:
    assert limit_found(tmp_path, {}) == 8 * GIB


def test_a_system_that_says_nothing_has_no_limit(tmp_path: Path) -> None:
    assert memory_limit_bytes(tmp_path, unlimited) == UNLIMITED_BYTES


@pytest.mark.parametrize(("file", "limit"), [("memory.max", GIB), ("memory.high", GIB // 2)])
def test_a_control_group_of_version_2_limits_the_memory(
    tmp_path: Path, file: str, limit: int
) -> None:
    files = {
        "proc/self/cgroup": "0::/system.slice/leveret.service\n",
        "proc/self/mountinfo": MOUNT_2,
        "sys/fs/cgroup/system.slice/leveret.service/memory.max": "max\n",
        "sys/fs/cgroup/system.slice/leveret.service/memory.high": "max\n",
    }
    files[f"sys/fs/cgroup/system.slice/leveret.service/{file}"] = f"{limit}\n"
    assert limit_found(tmp_path, files) == limit


def test_a_group_above_the_process_s_own_limits_it_too(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/system.slice/leveret.service\n",
        "proc/self/mountinfo": MOUNT_2,
        "sys/fs/cgroup/system.slice/leveret.service/memory.max": f"{4 * GIB}\n",
        "sys/fs/cgroup/system.slice/memory.max": f"{2 * GIB}\n",
    }
    assert limit_found(tmp_path, files) == 2 * GIB


def test_a_control_group_of_version_1_limits_the_memory(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "5:devices:/x\n4:cpu,memory:/process/7\n0::/\n",
        "proc/self/mountinfo": MOUNT_1,
        "sys/fs/cgroup/memory/process/7/memory.limit_in_bytes": f"{256 * MIB}\n",
        "sys/fs/cgroup/memory/memory.limit_in_bytes": NO_LIMIT_1,
    }
    assert limit_found(tmp_path, files) == 256 * MIB


def test_a_group_without_a_limit_leaves_the_machine_s_memory(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "4:memory:/process/7\n",
        "proc/self/mountinfo": MOUNT_1,
        "sys/fs/cgroup/memory/process/7/memory.limit_in_bytes": NO_LIMIT_1,
    }
    assert limit_found(tmp_path, files) == 8 * GIB


@pytest.mark.parametrize("path", ["/docker/abc", "/"])
def test_a_container_finds_its_group_at_the_top_of_the_mounted_tree(
    tmp_path: Path, path: str
) -> None:
    mount = MOUNT_1.replace(" / ", f" {path} ")
    files = {
        "proc/self/cgroup": f"4:memory:{path}\n",
        "proc/self/mountinfo": mount,
        "sys/fs/cgroup/memory/memory.limit_in_bytes": f"{256 * MIB}\n",
    }
    assert limit_found(tmp_path, files) == 256 * MIB


def test_a_group_outside_the_mounted_tree_is_looked_for_nowhere_else(tmp_path: Path) -> None:
    files = {
        "proc/self/cgroup": "0::/../../other\n",
        "proc/self/mountinfo": MOUNT_2,
        "sys/fs/cgroup/memory.max": f"{GIB}\n",
        "sys/other/memory.max": "1\n",
    }
    assert limit_found(tmp_path, files) == GIB


@pytest.mark.parametrize("kind", [resource.RLIMIT_AS, resource.RLIMIT_DATA])
def test_the_limits_of_the_process_count(tmp_path: Path, kind: int) -> None:
    def rlimit(asked: int) -> tuple[int, int]:
        return (GIB, 2 * GIB) if asked == kind else unlimited(asked)

    assert memory_limit_bytes(tmp_path, rlimit) == GIB


def test_the_default_budget_is_a_tenth_of_the_memory_and_64_mib_at_most() -> None:
    assert default_memory_budget_bytes(256 * MIB) == 256 * MIB // 10
    assert default_memory_budget_bytes(640 * MIB) == 64 * MIB
    assert default_memory_budget_bytes(8 * GIB) == 64 * MIB


def test_the_budget_of_a_broker_is_the_setting_or_its_default() -> None:
    expected = default_memory_budget_bytes(memory_limit_bytes())
    assert Configuration().memory_budget_limit() == expected
    assert Configuration(memory_budget_bytes=5 * MIB).memory_budget_limit() == 5 * MIB


def test_a_budget_of_less_than_a_mebibyte_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="memory_budget_bytes: 1000 is less than "):
        Configuration(memory_budget_bytes=1000)


def test_the_alarm_is_above_the_budget_and_ends_at_two_thirds_of_its_level() -> None:
    assert Configuration(memory_budget_bytes=5 * MIB).memory_alarm_levels() == (15 * MIB, 10 * MIB)
    assert Configuration(memory_alarm_bytes=3 * MIB).memory_alarm_levels() == (3 * MIB, 2 * MIB)


def test_an_alarm_that_would_end_below_the_budget_is_refused() -> None:
    with pytest.raises(
        ConfigurationError, match="memory_alarm_bytes: 3145727 is less than 3145728"
    ):
        Configuration(memory_budget_bytes=2 * MIB, memory_alarm_bytes=3 * MIB - 1)
    with pytest.raises(ConfigurationError, match="memory_alarm_bytes: 300 is less than 1572864"):
        Configuration(memory_alarm_bytes=300)


def test_an_alarm_that_is_set_alone_lowers_the_default_budget_so_that_queues_page_below_it() -> (
    None
):
    assert Configuration(memory_alarm_bytes=3 * MIB).memory_budget_limit() == 2 * MIB
    default = Configuration().memory_budget_limit()
    assert Configuration(memory_alarm_bytes=2 * default).memory_budget_limit() == default


def test_the_window_of_the_node_is_the_setting_or_the_budget() -> None:
    assert Configuration(memory_budget_bytes=5 * MIB).node_publish_window_limit() == 5 * MIB
    assert Configuration(node_publish_window_bytes_max=7).node_publish_window_limit() == 7
