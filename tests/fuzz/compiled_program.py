"""The target `compiled`: amqp_frames/compiled in a C program of its own, under sanitizers.

It needs a compiler with AddressSanitizer and UndefinedBehaviorSanitizer, and no libFuzzer. The
inputs are random sessions of the codecs's tests with octets changed; the program's line says from
which seed, so that `--seed` repeats a run.
"""

from __future__ import annotations

import random
import shutil
import subprocess
from pathlib import Path

from forms import random_session
from nsq_streams import random_wire

HERE = Path(__file__).resolve().parent
HEADERS = HERE.parents[1] / "amqp_frames" / "compiled"
STREAMS = 2000
# Of `tests/data/fuzz`: the streams are the same in every run, and the changes are not.
_STREAMS_SEED = 14
_SANITIZERS = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
_WARNINGS = ("-Wall", "-Wextra", "-Wconversion")


def compile_program(directory: Path) -> Path | None:
    """The program; None where there is no compiler, or none with sanitizers."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    probe = directory / "probe.c"
    probe.write_text("int main(void) { return 0; }\n")
    command = [compiler, *_SANITIZERS, "-o", str(directory / "probe"), str(probe)]
    if subprocess.run(command, capture_output=True, check=False).returncode:
        return None
    program = directory / "compiled"
    options = ["-std=gnu11", "-g", "-O1", *_WARNINGS, *_SANITIZERS, f"-I{HEADERS}"]
    source = str(HERE / "compiled.c")
    subprocess.run([compiler, *options, "-o", str(program), source], check=True)
    return program


def write_streams(path: Path) -> None:
    """The streams that inputs are made of, each behind its length."""
    with path.open("wb") as file:
        for number in range(STREAMS):
            rng = random.Random(f"{_STREAMS_SEED} {number}")
            wire = random_wire(rng) if number % 3 == 0 else random_session(rng)
            file.write(len(wire).to_bytes(4, "big") + wire)


def fuzz(directory: Path, runs: int, seconds: int, seed: int) -> int | None:
    """Runs the program and returns its status; None if it cannot be compiled here."""
    directory.mkdir(parents=True, exist_ok=True)
    program = compile_program(directory)
    if program is None:
        return None
    streams = directory / "streams"
    write_streams(streams)
    command = [str(program), str(streams), str(runs), str(seconds), str(seed)]
    return subprocess.run(command, check=False).returncode
