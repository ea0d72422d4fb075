"""Each target of the fuzzer, with the inputs that once broke it and some that Hypothesis draws.

`make fuzz` runs the same targets with many more inputs, under a coverage-guided engine.
"""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest
from compiled_program import fuzz
from examples import examples
from hypothesis import HealthCheck, given, settings
from inputs import inputs

HERE = Path(__file__).parent
KEPT = HERE.parent / "data" / "fuzz"
TARGETS = ("decoder", "nsq", "reader", "nsq_reader", "records", "indexes", "recovery")
# Inputs of each target, by how long one takes.
EXAMPLES = {
    "decoder": 500,
    "nsq": 500,
    "reader": 200,
    "nsq_reader": 200,
    "records": 2000,
    "indexes": 500,
    "recovery": 200,
}
COMPILED_INPUTS = 50_000


def target_of(name: str) -> ModuleType:
    return importlib.import_module(f"{name}_target")


@pytest.mark.parametrize("name", TARGETS)
def test_an_input_that_once_broke_a_promise_keeps_all_of_them(name: str) -> None:
    target = target_of(name)
    for data in [*target.seeds(), *(file.read_bytes() for file in (KEPT / name).glob("*"))]:
        target.run(data)


@pytest.mark.parametrize("name", TARGETS)
def test_no_input_breaks_a_promise(name: str) -> None:
    target = target_of(name)

    @settings(
        max_examples=examples(EXAMPLES[name]),
        deadline=None,
        print_blob=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(inputs(target))
    def hold(data: bytes) -> None:
        target.run(data)

    hold()


def test_the_fuzzer_counts_its_inputs_and_says_how_fast_it_was() -> None:
    command = [sys.executable, str(HERE), "records", "--runs", "2000", "--engine", "hypothesis"]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    assert ended.stdout.startswith("fuzz records (hypothesis): ")
    assert int(ended.stdout.split()[3].replace(",", "")) >= 2000
    assert "MiB resident" in ended.stdout


def test_the_fuzzer_fails_for_an_input_that_breaks_a_promise(tmp_path: Path) -> None:
    """With a decoder of records that forgets to look at how many entries there are."""
    script = (
        "import runpy, sys\n"
        "from leveret.storage.journal import records\n"
        "def broken(data, start, end):\n"
        "    return records.CommitRecord(*data[:4])\n"
        "records.decode_record = broken\n"
        f"sys.path.insert(0, {str(HERE)!r})\n"
        "sys.argv = ['fuzz', 'records', '--child', '--runs', '500', '--engine', 'hypothesis']\n"
        f"runpy.run_path({str(HERE)!r}, run_name='__main__')\n"
    )
    command = [sys.executable, "-c", script]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path)
    assert ended.returncode
    assert "records_target.py" in ended.stderr


def test_no_input_of_the_compiled_loops_is_a_fault_of_memory(
    tmp_path: Path, seed: int, capfd: pytest.CaptureFixture[str]
) -> None:
    status = fuzz(tmp_path, examples(COMPILED_INPUTS), 0, seed + 1)
    if status is None:
        pytest.skip("there is no compiler with sanitizers")
    printed = capfd.readouterr()
    assert status == 0, printed.err
    counted = re.search(
        r"(\d+) publishes, .* (\d+) acks, (\d+) written, .* "
        r"(\d+) bodies, (\d+) finishes, (\d+) sent",
        printed.out,
    )
    assert counted is not None, printed.out
    assert all(int(count) > COMPILED_INPUTS // 200 for count in counted.groups())
