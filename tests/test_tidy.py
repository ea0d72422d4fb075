"""Style that a machine can check, beside what ruff and mypy see."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pykka

ROOT = Path(__file__).resolve().parents[1]

LINE_CHARACTERS_MAX = 100
PRAGMA = re.compile(r"  # (?:type: ignore|noqa)")
README_LINES_MAX = 150
# Where a test has no public way to what it claims, and a comment says why.
PRIVATE_IN_TESTS_MAX = 15
REASON = "# private: "

# Which folders a folder may import; imports run one way.
MAY_IMPORT = {
    "amqp_frames": {"amqp_frames"},
    "nsq_frames": {"nsq_frames", "amqp_frames"},
    "core": {"core", "amqp_frames", "nsq_frames"},
    "storage": {"storage", "amqp_frames"},
    "logs": {"logs"},
    # Of storage, the seam to the disk.
    "spark": {"spark", "amqp_frames", "logs", "storage"},
    "pyspark_leveret": {"spark"},
    "actors": {"actors", "core", "storage", "amqp_frames", "nsq_frames", "logs"},
    "management": {
        "management",
        "actors",
        "core",
        "storage",
        "amqp_frames",
        "nsq_frames",
        "logs",
    },
    "node": {
        "node",
        "management",
        "actors",
        "core",
        "storage",
        "amqp_frames",
        "nsq_frames",
        "logs",
        "spark",
    },
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
    "aiohttp": ("management",),
    "prometheus_client": ("management",),
}

# Rules and codec know no clock, file, socket, thread or chance: what they need is an argument.
PURE = ("amqp_frames", "nsq_frames", "core")
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
# It asks the environment once which form of the codec is wanted.
WORLDLY = {("amqp_frames/compiled/__init__.py", "os")}
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


def package_of(file: Path) -> list[str]:
    """The installed package that a module of ours lies in."""
    folder, *inner = file.relative_to(ROOT).parts[:-1]
    return [*TOP_LEVEL.get(folder, ["leveret", folder]), *inner]


def name_of(file: Path) -> str:
    """A module's installed name; a package's `__init__` has the package's."""
    stem = [] if file.stem == "__init__" else [file.stem]
    return ".".join([*package_of(file), *stem])


def imports(file: Path) -> Iterator[tuple[int, str]]:
    """The line and name of every import; of ours as `leveret.folder...`, with the name imported."""
    package = package_of(file) if file.relative_to(ROOT).parts[0] in MAY_IMPORT else []
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            name = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                yield node.lineno, f"{name}.{alias.name}"


@functools.cache
def arrows() -> dict[str, set[str]]:
    """Which of our modules imports which; imports for type checkers count."""
    names = {name_of(file): file for file in modules(*SOURCE)}
    found: dict[str, set[str]] = {name: set() for name in names}
    for name, file in names.items():
        for _, imported in imports(file):
            target = imported if imported in names else imported.rpartition(".")[0]
            if target in names and target != name:
                found[name].add(target)
    return found


def circles(graph: dict[str, set[str]]) -> list[str]:
    """One line for each arrow that can be followed back to where it begins."""
    reached: dict[str, set[str]] = {}
    for start in graph:
        seen: set[str] = set()
        ahead = list(graph[start])
        while ahead:
            node = ahead.pop()
            if node not in seen:
                seen.add(node)
                ahead.extend(graph.get(node, ()))
        reached[start] = seen
    return [
        f"{start} -> {target}"
        for start, targets in sorted(graph.items())
        for target in sorted(targets)
        if start in reached[target]
    ]


def folder_of(name: str) -> str | None:
    """Which of our folders an imported name lies in."""
    parts = name.split(".")
    if parts[0] != "leveret":
        return None
    return parts[1] if len(parts) > 1 and parts[1] in MAY_IMPORT else "node"


def is_private(name: str) -> bool:
    return name.startswith("_") and not name.startswith("__")


def private_names(file: Path) -> Iterator[tuple[int, str]]:
    """The line and name of each private attribute and method, and what is imported of Pykka."""
    for line, name in imports(file):
        if name.startswith("pykka.") and any(map(is_private, name.split("."))):
            yield line, name
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            yield node.lineno, node.attr
        elif isinstance(node, ast.FunctionDef) and is_private(node.name):
            yield node.lineno, node.name
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value


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


def test_no_module_imports_one_that_leads_back_to_it() -> None:
    wrong = circles(arrows())
    assert not wrong, listed(wrong)


def test_no_package_imports_one_that_leads_back_to_it() -> None:
    packages = {name_of(file) for file in modules(*SOURCE) if file.stem == "__init__"}
    graph: dict[str, set[str]] = {package: set() for package in packages}
    for name, targets in arrows().items():
        package = name if name in packages else name.rpartition(".")[0]
        for target in targets:
            other = target if target in packages else target.rpartition(".")[0]
            # A package and those inside it are one room with alcoves.
            if not f"{other}.".startswith(f"{package}.") and not f"{package}.".startswith(
                f"{other}."
            ):
                graph[package].add(other)
    wrong = circles(graph)
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


def test_private_names_of_pykka_are_in_one_module_only() -> None:
    classes = (pykka.Actor, pykka.ThreadingActor, pykka.ActorRef, pykka.ActorRegistry, pykka.Future)
    theirs = {name for each in classes for name in vars(each) if is_private(name)} | {"_actor_ref"}
    used: dict[str, list[str]] = {}
    for file in modules("actors"):
        for line, name in private_names(file):
            if name in theirs or name.startswith("pykka."):
                used.setdefault(place(file), []).append(f"{place(file, line)}: {name}")
    inside = used.pop("actors/runtime/pykka_inside.py")
    assert len(inside) >= 6
    assert not used, listed([line for lines in used.values() for line in lines])


@functools.cache
def private_to_product() -> set[str]:
    """The private names that the product gives to attributes, methods and functions."""
    found: set[str] = set()
    for file in modules(*SOURCE):
        for node in ast.walk(tree(file)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                found.add(node.attr)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.id)
    # Names of NamedTuple's are public to it.
    return set(filter(is_private, found)) - {"_", "_replace"}


def private_uses(file: Path) -> Iterator[tuple[int, str]]:
    """Where a test reads, patches or imports what is private to the product."""
    private, text = private_to_product(), file.read_text()
    for node in ast.walk(tree(file)):
        if isinstance(node, ast.Attribute):
            is_own = isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")
            # A reference's inbox is public to Pykka, and leads behind the reference.
            if not is_own and node.attr in {*private, "actor_inbox"}:
                yield node.lineno, node.attr
        elif isinstance(node, ast.Constant) and node.value in private:
            # The name in a patch; a class of the test's own may name its slots.
            if f"self.{node.value} = " not in text:
                yield node.lineno, node.value
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("leveret"):
            for alias in node.names:
                if alias.name in private:
                    yield node.lineno, alias.name


def test_tests_use_what_is_private_only_where_a_comment_says_why() -> None:
    wrong: list[str] = []
    commented = 0
    for file in modules("tests"):
        lines = file.read_text().splitlines()
        for line, name in set(private_uses(file)):
            if any(REASON in each for each in lines[max(0, line - 2) : line]):
                commented += 1
            else:
                wrong.append(f"{place(file, line)}: {name}")
    assert not wrong, listed(sorted(wrong))
    assert commented <= PRIVATE_IN_TESTS_MAX


def test_rules_and_codec_import_nothing_of_the_world() -> None:
    wrong = [
        f"{place(file, line)} imports {name}"
        for file in modules(*PURE)
        for line, name in imports(file)
        if name.split(".")[0] in WORLD and (str(file.relative_to(ROOT)), name) not in WORLDLY
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


def test_every_module_begins_with_what_it_is_for() -> None:
    wrong = [
        place(file)
        for file in modules(*SOURCE, "benchmarks", "docs")
        if not ast.get_docstring(tree(file))
    ]
    assert not wrong, listed(wrong)


def test_the_architecture_names_every_package_and_no_other() -> None:
    text = (ROOT / "docs" / "ARCHITECTURE.md").read_text()
    packages = text[text.index("\n## Packages\n") :]
    named = re.findall(r"^\| `([a-z_/]+)/` \|", packages, re.MULTILINE)
    there = [
        str(file.parent.relative_to(ROOT)) for file in modules(*SOURCE) if file.stem == "__init__"
    ]
    assert sorted(named) == sorted(there), "docs/ARCHITECTURE.md, Packages"


def test_the_readme_is_read_in_one_go() -> None:
    lines = len((ROOT / "README.md").read_text().splitlines())
    assert lines <= README_LINES_MAX, f"{lines} lines: long tables belong into docs/"


def test_every_path_that_a_document_names_is_there() -> None:
    path = re.compile(rf"`((?:{'|'.join(SOURCE)}|tests|benchmarks|docs)/[\w./]*)`")
    documents = [ROOT / "README.md", ROOT / "CHANGELOG.md", *(ROOT / "docs").glob("*.md")]
    named = [(each, name) for each in documents for name in path.findall(each.read_text())]
    assert named
    wrong = [f"{place(each)}: {name}" for each, name in named if not (ROOT / name).exists()]
    assert not wrong, listed(wrong)


def test_every_test_that_a_document_names_is_there() -> None:
    path = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
    named = [
        (document, ROOT / file, name)
        for document in (ROOT / "docs").glob("*.md")
        for file, name in path.findall(document.read_text())
    ]
    assert named
    wrong = [
        f"{place(document)}: {place(file)}::{name}"
        for document, file, name in named
        if not file.exists() or f"\ndef {name}(" not in file.read_text()
    ]
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
