"""The installation contains the package `leveret` and nothing else, and works on its own."""

from __future__ import annotations

import importlib.metadata
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
FOLDERS: dict[str, str] = PROJECT["tool"]["setuptools"]["package-dir"]
# Folders whose name is not that of their package.
BARE = sorted(folder for package, folder in FOLDERS.items() if package != folder)
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
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    # Not what brokers have traced into logs/traces/.
    ignored = shutil.ignore_patterns("__pycache__", "*.jsonl", "*.gz", "*.ring")
    for folder in FOLDERS.values():
        shutil.copytree(ROOT / folder, source / folder, ignore=ignored)
    python("-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", ".", cwd=source)
    [built] = source.glob("*.whl")
    return built


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
    expected = {"leveret/py.typed", "leveret/leveret.toml"}
    for package, folder in FOLDERS.items():
        for file in (ROOT / folder).rglob("*.py"):
            expected.add(f"{package.replace('.', '/')}/{file.relative_to(ROOT / folder)}")
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {name for name in names if ".dist-info/" not in name} == expected


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
