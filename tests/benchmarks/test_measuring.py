"""The CPU time of a broker, of which a process may end meanwhile."""

from __future__ import annotations

import os
import subprocess
import sys

from benchmarks.measuring import BrokerCpu


def test_a_process_that_has_ended_keeps_the_time_that_it_had_used() -> None:
    script = "sum(range(10**6)); print(flush=True); input()"
    child = subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    try:
        assert child.stdout is not None
        child.stdout.readline()
        cpu = BrokerCpu(os.getpid())
        before = cpu.seconds()
    finally:
        child.communicate(b"\n")
    assert cpu.seconds() >= before > 0
