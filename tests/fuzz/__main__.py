"""Fuzzes one target after the other: `make fuzz`, or `python tests/fuzz records --runs 100000`.

The engine is Atheris where it is installed (`pip install -e '.[fuzz]'`): libFuzzer, which keeps the
inputs that reach code which none has reached before, and changes those on. Else it is Hypothesis,
which draws them without that. Each target runs in a process of its own. A line at the end says how
many inputs there were, how many a second, and by how much the process has grown since a tenth of
them; a target fails if an input raises, takes longer than SECONDS_MAX, or if the process grows by
more than GROWTH_BYTES_MAX. The input is kept in build/fuzz; once its fault is mended it goes to
tests/data/fuzz, and every run of the tests begins with those.

The target `compiled` is a program in C with an engine of its own (compiled_program.py).
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import importlib.util
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(HERE.parent / "live")]

import conftest  # noqa: E402, F401 - the folders that targets import from

TARGETS = ("decoder", "nsq", "reader", "nsq_reader", "records", "indexes", "recovery")
COMPILED = "compiled"
ALL = (*TARGETS, COMPILED)
KEPT = ROOT / "tests" / "data" / "fuzz"
FOUND = ROOT / "build" / "fuzz"
SECONDS_MAX = 20
MIB = 1024 * 1024
# A line for so many inputs.
PROGRESS = 100_000
# Hypothesis remembers what it has drawn in a round.
ROUND_MAX = 10_000
# libFuzzer keeps every input that reached something new, in memory, too.
GROWTH_BYTES_MAX = 256 * MIB
# So much of a process's memory is no fault of a single input.
RESIDENT_BYTES_MAX = 2048 * MIB


def resident_bytes() -> int:
    """The memory of this process."""
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


class Tally:
    """Calls the target, and counts."""

    def __init__(self, name: str, engine: str, run: Callable[[bytes], None], runs: int) -> None:
        self._name = name
        self._engine = engine
        self._run = run
        self._early = max(1, runs // 10)
        self._began = time.monotonic()
        self.count = 0
        self._resident_early = 0

    def __call__(self, data: bytes) -> None:
        self._run(data)
        self.count += 1
        if self.count == self._early:
            self._resident_early = resident_bytes()
        if self.count % PROGRESS == 0:
            print(f"fuzz {self._name}: {self.count:,} inputs so far", flush=True)

    def report(self) -> bool:
        """Print the line; true if the process has grown too much."""
        seconds = time.monotonic() - self._began
        resident = resident_bytes()
        early = self._resident_early or resident
        print(
            f"fuzz {self._name} ({self._engine}): {self.count:,} inputs in {seconds:.0f} s, "
            f"{self.count / seconds:,.0f} a second; from {early / MIB:.0f} to "
            f"{resident / MIB:.0f} MiB resident",
            flush=True,
        )
        return resident - early > GROWTH_BYTES_MAX


def kept(name: str) -> list[bytes]:
    """The inputs that once broke something."""
    return [file.read_bytes() for file in sorted((KEPT / name).glob("*"))]


def has_atheris() -> bool:
    return importlib.util.find_spec("atheris") is not None


def target_of(name: str) -> ModuleType:
    return importlib.import_module(f"{name}_target")


def fuzz_with_atheris(name: str, runs: int, seconds: int) -> None:
    """Does not return: libFuzzer ends the process."""
    import atheris

    with atheris.instrument_imports(include=["leveret"]):
        target = target_of(name)
    begin = FOUND / name / "seeds"
    corpus = FOUND / name / "corpus"
    for folder in (begin, corpus):
        folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate([*target.seeds(), *kept(name)]):
        (begin / f"{number:04d}").write_bytes(seed)
    tally = Tally(name, "atheris", target.run, runs)

    def call(data: bytes) -> None:
        tally(data)
        if tally.count == runs:
            # libFuzzer ends without a word to Python.
            os._exit(tally.report())

    options = [
        f"-max_total_time={seconds}",
        f"-max_len={target.INPUT_BYTES_MAX}",
        f"-timeout={SECONDS_MAX}",
        f"-rss_limit_mb={RESIDENT_BYTES_MAX // MIB}",
        f"-artifact_prefix={FOUND / name}/",
        "-verbosity=0",
        "-print_final_stats=1",
        "-len_control=20",
    ]
    atheris.Setup([sys.argv[0], *options, str(corpus), str(begin)], call)
    atheris.Fuzz()


def fuzz_with_hypothesis(name: str, runs: int, seconds: int) -> int:
    """As many inputs as that; more than one round of Hypothesis, so that it forgets the earlier."""
    from hypothesis import HealthCheck, Phase, given, settings
    from inputs import inputs

    target = target_of(name)
    tally = Tally(name, "hypothesis", target.run, runs)
    for data in kept(name):
        target.run(data)
    until = time.monotonic() + seconds if seconds else float("inf")

    @settings(
        max_examples=min(runs, ROUND_MAX),
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(inputs(target))
    def call(data: bytes) -> None:
        faulthandler.dump_traceback_later(SECONDS_MAX, exit=True)
        tally(data)

    while tally.count < runs and time.monotonic() < until:
        call()
    faulthandler.cancel_dump_traceback_later()
    return int(tally.report())


def fuzz_compiled(runs: int, seconds: int, seed: int | None) -> int:
    """The program in C; where it cannot be compiled, that is said and is no fault."""
    from compiled_program import fuzz

    chosen = random.SystemRandom().randrange(1, 2**32) if seed is None else seed
    status = fuzz(FOUND / COMPILED, runs, seconds, chosen)
    if status is None:
        print("fuzz compiled: skipped, there is no compiler with sanitizers")
    elif status:
        print(f"fuzz compiled: broken; --seed {chosen} repeats it")
    return status or 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="tests/fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help=", ".join(ALL))
    parser.add_argument("--runs", type=int, default=100_000, help="inputs for each")
    parser.add_argument("--seconds", type=int, default=0, help="at most, for each; 0 is no limit")
    parser.add_argument("--seed", type=int, help="of the target `compiled`")
    parser.add_argument("--engine", choices=("atheris", "hypothesis"))
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    names = parsed.targets or list(ALL)
    for name in names:
        if name not in ALL:
            parser.error(f"there is no target {name!r}: {', '.join(ALL)}")
    engine = parsed.engine or ("atheris" if has_atheris() else "hypothesis")
    if parsed.child:
        if engine == "atheris":
            fuzz_with_atheris(names[0], parsed.runs, parsed.seconds)
        return fuzz_with_hypothesis(names[0], parsed.runs, parsed.seconds)
    failed = []
    for name in names:
        if name == COMPILED:
            if fuzz_compiled(parsed.runs, parsed.seconds, parsed.seed):
                failed.append(name)
            continue
        limits = ["--runs", str(parsed.runs), "--seconds", str(parsed.seconds)]
        command = [sys.executable, str(HERE), name, "--child", "--engine", engine, *limits]
        if subprocess.run(command, cwd=ROOT, check=False).returncode:
            failed.append(name)
    if failed:
        print(f"fuzz: {', '.join(failed)} failed; inputs are in {FOUND}")
    return bool(failed)


if __name__ == "__main__":
    sys.exit(main())
