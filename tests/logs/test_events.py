from __future__ import annotations

import ast
import re
from pathlib import Path

from leveret.logs.events import EVENTS

ROOT = Path(__file__).resolve().parents[2]
LEVELS = {"debug", "info", "warning", "error", "critical", "exception"}


def logged_names() -> dict[str, str]:
    """Every string literal that is the event of a log call: its place."""
    found = {}
    for folder in ("actors", "node", "storage", "logs", "spark"):
        for file in (ROOT / folder).rglob("*.py"):
            for call in ast.walk(ast.parse(file.read_text())):
                if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute)):
                    continue
                owner = ast.unparse(call.func.value)
                if call.func.attr in LEVELS and owner.endswith("log") and call.args:
                    for part in ast.walk(call.args[0]):
                        if isinstance(part, ast.Constant) and isinstance(part.value, str):
                            found[part.value] = f"{file.name}:{call.lineno}"
    return found


def test_every_event_that_is_logged_is_in_the_list() -> None:
    unknown = {name: place for name, place in logged_names().items() if name not in EVENTS}
    assert unknown == {}


def test_every_finding_of_recovery_has_its_event() -> None:
    sources = [path.read_text() for path in (ROOT / "storage").rglob("*.py")]
    notes = re.compile(r'\.note\(\s*"(\w+)"')
    findings = {finding for source in sources for finding in notes.findall(source)}
    assert len(findings) == 7
    assert {f"journal.{finding}" for finding in findings} <= EVENTS


def test_names_are_a_thing_a_dot_and_what_happened() -> None:
    for name in EVENTS:
        assert re.fullmatch(r"[a-z]+(\.[a-z_]+)+", name), name
