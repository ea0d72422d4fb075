"""Style that a machine can check, beside what ruff and mypy see."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

LINE_CHARACTERS_MAX = 100
PRAGMA = re.compile(r"  # (?:type: ignore|noqa)")
FUNCTION_LINES_MAX = 50
MODULE_LINES_MAX = 300

# A module or function (`folder/module.py:function`) may be longer when this says why.
LONG_MODULES = {
    "actors/messages.py": "the whole vocabulary of the actors, in one place",
}
LONG_FUNCTIONS: dict[str, str] = {}

# Which folders a folder may import; imports run one way.
MAY_IMPORT = {
    "amqp_frames": {"amqp_frames"},
    "core": {"core", "amqp_frames"},
    "storage": {"storage", "amqp_frames"},
    "logs": {"logs"},
    # Of storage, the seam to the disk.
    "spark": {"spark", "amqp_frames", "logs", "storage"},
    "pyspark_leveret": {"spark"},
    "actors": {"actors", "core", "storage", "amqp_frames", "logs"},
    "node": {"node", "actors", "core", "storage", "amqp_frames", "logs", "spark"},
}
SOURCE = tuple(MAY_IMPORT)

# Folders that are not `leveret.folder`.
TOP_LEVEL = {"node": ["leveret"], "pyspark_leveret": ["pyspark_leveret"]}

# Who else may import what is heavy, forks, or has a thread of its own.
HELD_BACK = {
    "pykka": ("actors", "node"),
    "pyspark": ("spark",),
    "pyarrow": ("spark",),
    "pandas": ("spark",),
    "pika": ("spark",),
}

# Rules and codec know no clock, file, socket, thread or chance: what they need is an argument.
PURE = ("amqp_frames", "core")
WORLD = {
    "asyncio",
    "datetime",
    "fcntl",
    "io",
    "logging",
    "os",
    "pathlib",
    "random",
    "secrets",
    "select",
    "selectors",
    "socket",
    "sqlite3",
    "structlog",
    "subprocess",
    "tempfile",
    "threading",
    "time",
    "uuid",
    "uvloop",
}
NAMES_OF_NOTHING = ("util", "misc", "helper", "manager", "common")


def listed(wrong: list[str]) -> str:
    return "\n" + "\n".join(wrong)


@functools.cache
def tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(), str(file))


def modules(*folders: str) -> list[Path]:
    return sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))


def place(file: Path, line: int = 0) -> str:
    return f"{file.relative_to(ROOT)}:{line}" if line else str(file.relative_to(ROOT))


def imports(file: Path) -> Iterator[tuple[int, str]]:
    """The line and name of every import; of ours as `leveret.folder...`."""
    folder = file.relative_to(ROOT).parts[0]
    package = TOP_LEVEL.get(folder, ["leveret", folder])
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            name = ".".join([*base, *([node.module] if node.module else [])])
            if node.module is None or name == "leveret":
                for alias in node.names:
                    yield node.lineno, f"{name}.{alias.name}"
            else:
                yield node.lineno, name


def folder_of(name: str) -> str | None:
    """Which of our folders an imported name lies in."""
    parts = name.split(".")
    if parts[0] != "leveret":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in MAY_IMPORT else "node"


def functions(file: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def test_imports_between_folders_run_one_way() -> None:
    wrong = [
        f"{place(file, line)} imports {name}"
        for folder in SOURCE
        for file in modules(folder)
        for line, name in imports(file)
        if (target := folder_of(name)) and target not in MAY_IMPORT[folder]
    ]
    assert not wrong, listed(wrong)


def test_a_folder_is_never_imported_by_its_bare_name() -> None:
    wrong = [
        f"{place(file, line)} imports {name}"
        for file in modules(*SOURCE, "tests")
        for line, name in imports(file)
        if name.split(".")[0] in MAY_IMPORT.keys() - {"pyspark_leveret"}
    ]
    assert not wrong, listed(wrong)


def test_pykka_is_imported_in_actors_and_node_only_and_pyspark_in_spark() -> None:
    wrong = [
        f"{place(file, line)} imports {name}"
        for folder in SOURCE
        for file in modules(folder)
        for line, name in imports(file)
        if folder not in HELD_BACK.get(name.split(".")[0], (folder,))
    ]
    assert not wrong, listed(wrong)


def test_rules_and_codec_import_nothing_of_the_world() -> None:
    wrong = [
        f"{place(file, line)} imports {name}"
        for file in modules(*PURE)
        for line, name in imports(file)
        if name.split(".")[0] in WORLD
    ]
    assert not wrong, listed(wrong)


def test_no_line_is_longer_than_100_characters() -> None:
    files = modules(*SOURCE, "tests", "benchmarks", "docs")
    wrong = [
        place(file, number)
        for file in files
        for number, line in enumerate(file.read_text().splitlines(), 1)
        # As ruff counts: without the pragma at the end; and exact words stay in one piece.
        if len(PRAGMA.split(line)[0]) > LINE_CHARACTERS_MAX and not line.endswith("# noqa: E501")
    ]
    assert not wrong, listed(wrong)


def test_no_function_is_longer_than_50_lines() -> None:
    lengths = {
        f"{place(file)}:{function.name}": (function.end_lineno or 0) - function.lineno + 1
        for file in modules(*SOURCE, "tests", "benchmarks")
        for function in functions(file)
    }
    long = {name: lines for name, lines in lengths.items() if lines > FUNCTION_LINES_MAX}
    wrong = [f"{name}: {lines} lines" for name, lines in long.items() if name not in LONG_FUNCTIONS]
    assert not wrong, listed(wrong)
    assert set(LONG_FUNCTIONS) <= set(long), "listed, but not long any more"


def test_no_module_is_longer_than_300_lines() -> None:
    lengths = {
        place(file): len(file.read_text().splitlines())
        for file in modules(*SOURCE, "tests", "benchmarks")
    }
    long = {name: lines for name, lines in lengths.items() if lines > MODULE_LINES_MAX}
    wrong = [f"{name}: {lines} lines" for name, lines in long.items() if name not in LONG_MODULES]
    assert not wrong, listed(wrong)
    assert set(LONG_MODULES) <= set(long), "listed, but not long any more"


def test_every_module_begins_with_what_it_is_for() -> None:
    wrong = [
        place(file)
        for file in modules(*SOURCE, "benchmarks", "docs")
        if not ast.get_docstring(tree(file))
    ]
    assert not wrong, listed(wrong)


def test_the_architecture_names_every_module_of_each_folder_and_no_other() -> None:
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    for folder in SOURCE:
        rows = re.findall(rf"^\| `{folder}/` \| [^|]+ \| (`\w+\.py`.*) \|$", text, re.MULTILINE)
        named = [name for row in rows for name in re.findall(r"`(\w+\.py)`", row)]
        there = [file.name for file in modules(folder) if file.name != "__init__.py"]
        assert sorted(named) == sorted(there), f"docs/ARCHITECTURE.md, Modules, {folder}/"


def test_every_path_that_a_document_names_is_there() -> None:
    path = re.compile(rf"`((?:{'|'.join(SOURCE)}|tests|benchmarks|docs)/[\w./]*)`")
    documents = [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")]
    named = [(each, name) for each in documents for name in path.findall(each.read_text())]
    assert named
    wrong = [f"{place(each)}: {name}" for each, name in named if not (ROOT / name).exists()]
    assert not wrong, listed(wrong)


def test_a_module_is_named_by_what_it_holds() -> None:
    wrong = [
        place(file)
        for file in modules(*SOURCE, "tests", "benchmarks")
        if any(word in file.stem for word in NAMES_OF_NOTHING)
    ]
    assert not wrong, listed(wrong)


def test_nothing_prints_but_benchmarks_examples_and_tests() -> None:
    wrong = [
        place(file, node.lineno)
        for file in modules(*SOURCE)
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    assert not wrong, listed(wrong)


def test_nothing_is_left_to_do() -> None:
    marks = ("TO" + "DO", "FIX" + "ME", "XX" + "X")
    wrong = [
        place(file, number)
        for file in modules(*SOURCE, "tests", "benchmarks", "docs")
        for number, line in enumerate(file.read_text().splitlines(), 1)
        if any(mark in line for mark in marks)
    ]
    assert not wrong, listed(wrong)


def test_no_test_sleeps() -> None:
    wrong = [
        place(file, node.lineno)
        for file in modules("tests")
        for node in ast.walk(tree(file))
        if isinstance(node, ast.Call) and ast.unparse(node.func).split(".")[-1] == "sleep"
    ]
    assert not wrong, listed(wrong)
