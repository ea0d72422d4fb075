"""`make` says what it installs for the tests before it does, and may be told to leave it out."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).resolve().parents[1]
PARTS = ("clients", "celery", "node", "spark")

# Each stands for a program: it writes down its arguments, and what had been said until then.
RECORDS = """#!{sh}
echo "{name} $*" >> {directory}/calls
cat < {directory}/said > {directory}/said-before-{name}
"""


class Machine(NamedTuple):
    """A directory that stands for a clone, and one for a machine on which nothing is installed."""

    clone: Path
    programs: Path

    def call(self, *command: str) -> None:
        """Run a command with this machine's programs only; `said` gets what it prints."""
        with (self.programs / "said").open("w") as said:
            done = subprocess.run(
                command,
                cwd=self.clone,
                env={"PATH": str(self.programs)},
                stdout=said,
                stderr=subprocess.STDOUT,
                check=False,
            )
        assert done.returncode == 0, self.said()

    def said(self) -> str:
        return (self.programs / "said").read_text()

    def calls(self) -> list[str]:
        calls = self.programs / "calls"
        return calls.read_text().splitlines() if calls.exists() else []


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    clone, programs = tmp_path / "clone", tmp_path / "programs"
    (clone / ".venv" / "bin").mkdir(parents=True)
    programs.mkdir()
    for name in ("bash", "sh", "cat", "mkdir", "make"):
        (programs / name).symlink_to(shutil.which(name) or name)
    program(programs / "timeout", 'shift; exec "$@"')
    program(programs / "id", "echo 0")
    recording = RECORDS.format(sh=programs / "sh", directory=programs, name="{name}")
    for name in ("apt-get", "npm"):
        program(programs / name, recording.format(name=name))
    program(
        clone / ".venv" / "bin" / "python",
        '[ "$1" = -m ] || exit 1\n' + recording.format(name="pip"),
    )
    return Machine(clone, programs)


def program(path: Path, text: str) -> None:
    path.write_text(text if text.startswith("#!") else f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def install(machine: Machine, *parts: str) -> None:
    machine.call("bash", str(ROOT / ".ci" / "tools"), *parts)


def test_what_is_installed_is_said_before_and_how_to_leave_it_out(machine: Machine) -> None:
    install(machine, *PARTS)
    installs = [call for call in machine.calls() if "install" in call]
    assert any(call.startswith("apt-get install") and "strace" in call for call in installs)
    assert any(call.startswith("npm install") for call in installs)
    assert [call for call in installs if call.startswith("pip") and ".[spark]" in call]
    for name in ("apt-get", "npm", "pip"):
        before = (machine.programs / f"said-before-{name}").read_text()
        assert "This installs on the system, with apt-get: amqp-tools strace gcc" in before
        assert "default-jre-headless" in before
        assert "into .venv, with pip: PySpark, half a gigabyte" in before
        assert "into build/node, with npm: amqplib@" in before
        assert "To leave this out, call make with TOOLS=no" in before


def test_without_root_nothing_is_installed_on_the_system(machine: Machine) -> None:
    program(machine.programs / "id", "echo 1000")
    install(machine, *PARTS)
    assert not [call for call in machine.calls() if call.startswith("apt-get")]
    assert "Missing on the system: amqp-tools strace gcc" in machine.said()
    assert "to install: sudo apt-get install amqp-tools strace gcc" in machine.said()
    assert "installs on the system" not in machine.said()


def test_with_everything_there_nothing_is_said(machine: Machine) -> None:
    for name in ("amqp-publish", "strace", "gcc", "java"):
        program(machine.programs / name, "exit 0")
    program(machine.clone / ".venv" / "bin" / "python", "exit 0")
    for name in ("amqplib", "rabbitmq-stats", "nsqjs"):
        (machine.clone / "build" / "node" / "node_modules" / name).mkdir(parents=True)
    install(machine, "celery", "node", "spark")
    assert machine.calls() == []
    assert machine.said() == ""


needs_make = pytest.mark.skipif(shutil.which("make") is None, reason="make is not installed")


@needs_make
def test_make_gives_no_other_python_to_a_venv_that_is_there(machine: Machine) -> None:
    shutil.copy(ROOT / "Makefile", machine.clone)
    (machine.clone / "pyproject.toml").touch()
    program(machine.programs / "touch", ": > $1")
    for name in ("python3", "python"):
        place = machine.programs if name == "python3" else machine.clone / ".venv" / "bin"
        program(place / name, f'echo "{name} $*" >> {machine.programs}/calls')
    machine.call("make", ".venv/installed", "TOOLS=no")
    calls = machine.calls()
    assert [call.split()[0] for call in calls] == ["python3", "python", "python"]
    assert not [call for call in calls if "-m venv" in call]
    assert (machine.clone / ".venv" / "installed").exists()


@needs_make
@pytest.mark.parametrize(("setting", "calls"), [("TOOLS=no", 0), ("TOOLS=yes", 1)])
def test_make_leaves_the_tools_out_when_it_is_told_to(
    machine: Machine, setting: str, calls: int
) -> None:
    shutil.copy(ROOT / "Makefile", machine.clone)
    (machine.clone / "pyproject.toml").touch()
    (machine.clone / ".venv" / "installed").touch()
    (machine.clone / ".ci").mkdir()
    recording = RECORDS.format(sh=machine.programs / "sh", directory=machine.programs, name="tools")
    program(machine.clone / ".ci" / "tools", recording)
    machine.call("make", "tools", setting)
    assert machine.calls() == ["tools clients celery management node spark pykka"] * calls
