"""Kill -9 in the middle of the first start on an earlier version's data directory."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
import shop
from broker_process import BrokerProcess
from earlier_directories import unpack
from system_calls import needs_strace

# What a start changes files with; a start that converts makes some sixty of these calls.
CALLS = ("openat", "writev", "pwrite64", "rename", "unlink", "ftruncate", "fsync", "fdatasync")
KILLS_IN_MAKE_TEST = 1


def killed_at(
    start_broker: Callable[..., BrokerProcess], tmp_path: Path, call: str, when: int
) -> bool:
    """Start, and be killed where that call is made for the n-th time; false if it never is."""
    data = tmp_path / "data"
    watched = [word for name in ("", "journal") for word in ("-P", str(data / name))]
    files = [*data.glob("*"), data / "format.new", data / "boot.new"]
    names = [f"{number:020d}.journal" for number in (4, 5)]
    files += [data / "journal" / name for name in (*names, "synced.new", "synced")]
    watched += [word for file in files for word in ("-P", str(file))]
    broker = start_broker(
        "strace", "-f", "-qq", "-o", "/dev/null", *watched,
        "-e", f"trace={call}", "-e", f"inject={call}:signal=KILL:when={when}",
    )  # fmt: skip
    assert broker.process.stdout is not None
    is_listening = bool(broker.process.stdout.readline())
    broker.kill()
    return not is_listening


def check(start_broker: Callable[..., BrokerProcess], tmp_path: Path, format_version: int) -> None:
    """Two starts: nothing is gone."""
    for is_last in (False, True):
        broker = start_broker().listening()
        if is_last:
            shop.check("127.0.0.1", broker.port, format_version, was_killed=True)
        broker.kill()
        assert broker.faults() == []
    assert (tmp_path / "data" / "format").read_text() == "leveret 5\n"


@needs_strace
@pytest.mark.parametrize("format_version", [3, 4, 5, 6])
def test_a_conversion_that_is_killed_goes_on_at_the_next_start(
    tmp_path: Path, start_broker: Callable[..., BrokerProcess], seed: int, format_version: int
) -> None:
    random = Random(seed + format_version)
    unpack(format_version, tmp_path / "data")
    kills = 0
    while kills < KILLS_IN_MAKE_TEST:
        call, when = random.choice(CALLS), random.randint(1, 6)
        kills += killed_at(start_broker, tmp_path, call, when)
    check(start_broker, tmp_path, format_version)


@needs_strace
@pytest.mark.soak
@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize("format_version", [1, 2, 3])
def test_a_conversion_may_be_killed_at_every_call(
    format_version: int, call: str, tmp_path: Path, start_broker: Callable[..., BrokerProcess]
) -> None:
    when, is_killed = 0, True
    while is_killed:
        when += 1
        directory = tmp_path / f"{when}"
        unpack(format_version, tmp_path / "data")
        is_killed = killed_at(start_broker, tmp_path, call, when)
        check(start_broker, tmp_path, format_version)
        (tmp_path / "data").rename(directory)
    print(f"killed at {when - 1} calls of {call}")
