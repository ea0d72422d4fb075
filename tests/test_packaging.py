"""The installation contains the package `leveret` and nothing else, and works on its own."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDERS: dict[str, str] = PROJECT["tool"]["setuptools"]["package-dir"]
# Folders whose name is not that of their package.
BARE = sorted(folder for package, folder in FOLDERS.items() if package != folder)
COMPILED = "leveret/amqp_frames/compiled"
BINARIES = (".so", ".pyd")
VERSION: str = PROJECT["project"]["version"]


def python(*arguments: str, cwd: Path, **environment: str) -> str:
    finished = subprocess.run(
        [sys.executable, *arguments],
        cwd=cwd,
        env={"PATH": "/usr/bin:/bin", "HOME": str(cwd), **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy: a build finds the files that an earlier one left behind."""
    source = tmp_path_factory.mktemp("source")
    copy_source(source)
    return build_wheel(source)


def copy_source(directory: Path) -> None:
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, directory)
    # Not what brokers have traced into logs/traces/, nor what is compiled in place.
    ignored = shutil.ignore_patterns("__pycache__", "*.jsonl", "*.gz", "*.ring", "*.so")
    for folder in FOLDERS.values():
        shutil.copytree(ROOT / folder, directory / folder, ignore=ignored)


def build_wheel(source: Path, **environment: str) -> Path:
    command = ("-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", ".")
    python(*command, cwd=source, **environment)
    [built] = source.glob("*.whl")
    return built


def can_compile(directory: Path) -> bool:
    """Are a compiler and Python's headers there?"""
    program = directory / "program.c"
    program.write_text("#include <Python.h>\n")
    compiler = sysconfig.get_config_var("CC") or "cc"
    include = f"-I{sysconfig.get_path('include')}"
    command = [*compiler.split(), include, "-fsyntax-only", str(program)]
    try:
        return subprocess.run(command, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


@pytest.fixture(scope="module")
def has_compiler(tmp_path_factory: pytest.TempPathFactory) -> bool:
    return can_compile(tmp_path_factory.mktemp("compiler"))


@pytest.fixture(scope="module")
def site(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory that the wheel is installed into; it goes before the editable installation."""
    directory = tmp_path_factory.mktemp("site")
    arguments = ("-m", "pip", "install", "-q", "--no-deps", "--no-index", "--target", ".")
    python(*arguments, str(wheel), cwd=directory)
    return directory


def test_the_wheel_holds_leveret_and_what_pyspark_finds_and_nothing_else(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    tops = {name.split("/")[0] for name in names}
    assert tops == {"leveret", "pyspark_leveret", f"leveret-{VERSION}.dist-info"}


def test_the_wheel_holds_every_module_and_what_is_no_module(wheel: Path) -> None:
    expected = {"leveret/py.typed", "leveret/leveret.toml", f"{COMPILED}/_codec.pyi"}
    for package, folder in FOLDERS.items():
        for file in (ROOT / folder).rglob("*.py"):
            expected.add(f"{package.replace('.', '/')}/{file.relative_to(ROOT / folder)}")
    names = set(zipfile.ZipFile(wheel).namelist())
    there = {name for name in names if ".dist-info/" not in name}
    assert {name for name in there if not name.endswith(BINARIES)} == expected


def test_the_wheel_holds_the_compiled_codec_for_every_later_python(
    wheel: Path, has_compiler: bool
) -> None:
    if not has_compiler:
        pytest.skip("no compiler, or no Python.h: there is no compiled codec")
    names = zipfile.ZipFile(wheel).namelist()
    binaries = [name for name in names if name.endswith(BINARIES)]
    # `abi3`, the stable ABI, is in the names of both.
    assert binaries == [f"{COMPILED}/_codec.abi3.so"]
    assert wheel.name.startswith(f"leveret-{VERSION}-cp311-abi3-")


def test_the_installed_wheel_has_the_form_that_was_built_and_python_s_if_asked(
    site: Path, has_compiler: bool
) -> None:
    program = "from leveret.amqp_frames.compiled import FORM; print(FORM)"
    form = "compiled" if has_compiler else "pure Python"
    assert python("-c", program, cwd=site, PYTHONPATH=str(site)) == f"{form}\n"
    asked = {"PYTHONPATH": str(site), "LEVERET_COMPILED": "no"}
    assert python("-c", program, cwd=site, **asked) == "pure Python\n"


def test_without_a_compiler_a_wheel_is_built_that_works(tmp_path: Path) -> None:
    source, site = tmp_path / "source", tmp_path / "site"
    source.mkdir()
    copy_source(source)
    wheel = build_wheel(source, CC="/bin/false")
    assert not [name for name in zipfile.ZipFile(wheel).namelist() if name.endswith(BINARIES)]
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    program = (
        "from leveret.amqp_frames.compiled import FORM\n"
        "from leveret.amqp_frames.messages.publishes import decode_publishes\n"
        "print(FORM, len(decode_publishes(b'')))\n"
    )
    assert python("-c", program, cwd=site, PYTHONPATH=str(site)) == "pure Python 0\n"


def test_the_sdist_holds_the_sources_of_what_is_compiled(tmp_path: Path) -> None:
    copy_source(tmp_path)
    program = (
        "from setuptools import build_meta\n"
        "import sys\n"
        "print(build_meta.build_sdist(sys.argv[1]))\n"
    )
    python("-c", program, str(tmp_path), cwd=tmp_path)
    [sdist] = tmp_path.glob("*.tar.gz")
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    compiled = FOLDERS["leveret.amqp_frames"] + "/compiled"
    sources = {f"{compiled}/{name}" for name in ("_codec.c", "_codec.pyi", "frames.h", "nsq.h")}
    assert sources | {"setup.py"} <= names


def test_the_installed_command_prints_the_documented_settings(site: Path, tmp_path: Path) -> None:
    printed = python("-m", "leveret", "settings", cwd=tmp_path, PYTHONPATH=str(site))
    assert printed == (ROOT / "node" / "leveret.toml").read_text()


def test_the_wheel_carries_the_licence(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert f"leveret-{VERSION}.dist-info/licenses/LICENSE" in names


def test_every_package_is_listed() -> None:
    packages = {
        ".".join([package, *file.parent.relative_to(ROOT / folder).parts])
        for package, folder in FOLDERS.items()
        for file in (ROOT / folder).rglob("__init__.py")
    }
    assert sorted(PROJECT["tool"]["setuptools"]["packages"]) == sorted(packages)


def test_the_installed_wheel_runs_and_loads_no_folder_by_its_bare_name(site: Path) -> None:
    program = (
        "import sys, leveret, leveret.commands.command_line\n"
        f"assert leveret.__file__.startswith({str(site)!r}), leveret.__file__\n"
        f"bare = {BARE!r}\n"
        "print([name for name in bare if name in sys.modules])\n"
    )
    assert python("-c", program, cwd=site.parent, PYTHONPATH=str(site)) == "[]\n"


def test_every_module_of_the_installed_wheel_can_be_imported(site: Path) -> None:
    program = (
        "import importlib, importlib.util, pkgutil, leveret\n"
        "has_spark = importlib.util.find_spec('pyspark') is not None\n"
        "for module in pkgutil.walk_packages(leveret.__path__, 'leveret.'):\n"
        "    if module.name.startswith('leveret.spark.') and not has_spark:\n"
        "        continue\n"
        "    if not module.name.endswith('__main__'):\n"
        "        importlib.import_module(module.name)\n"
        "        print(module.name)\n"
    )
    imported = python("-c", program, cwd=site.parent, PYTHONPATH=str(site)).split()
    assert set(FOLDERS) - {"leveret", "pyspark_leveret"} <= set(imported)


def test_the_installed_wheel_says_its_version(site: Path) -> None:
    said = python("-m", "leveret", "--version", cwd=site.parent, PYTHONPATH=str(site))
    assert said == f"leveret {VERSION}\n"


def test_the_tests_themselves_load_no_folder_by_its_bare_name() -> None:
    assert [name for name in BARE if name in sys.modules] == []


def test_the_version_is_the_same_everywhere() -> None:
    changes = (ROOT / "CHANGELOG.md").read_text()
    newest = re.search(r"^## (\S+)", changes, re.MULTILINE)
    assert importlib.metadata.version("leveret") == VERSION
    assert newest is not None
    assert newest[1] == VERSION


def test_the_licence_is_apache_2() -> None:
    assert "Apache License" in (ROOT / "LICENSE").read_text()
    assert PROJECT["project"]["license"] == "Apache-2.0"


def test_what_pyspark_finds_is_imported_without_pyspark_and_offers_nothing(site: Path) -> None:
    program = (
        "import sys\n"
        "sys.modules['pyspark'] = None\n"
        "import pyspark_leveret\n"
        "print(pyspark_leveret.__file__, hasattr(pyspark_leveret, 'DefaultSource'))\n"
    )
    said = python("-c", program, cwd=site.parent, PYTHONPATH=str(site)).split()
    assert said == [str(site / "pyspark_leveret" / "__init__.py"), "False"]
