"""Arguments of `leveret.Broker`: a mistake is a clear error, also of a type checker."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from leveret import Broker, Configuration, ConfigurationError

ROOT = Path(__file__).resolve().parents[2]


def fault(*arguments: Any, **settings: Any) -> str:
    with pytest.raises(ConfigurationError) as refused:
        Broker(*arguments, **settings)
    assert "\n" not in str(refused.value)
    return str(refused.value)


def test_a_name_that_is_no_setting_is_refused_with_the_nearest_one() -> None:
    text = "prt in the arguments of Broker is not a setting; did you mean port?"
    assert fault(prt=0) == text
    assert fault(nonsense=3) == "nonsense in the arguments of Broker is not a setting"


@pytest.mark.parametrize("path", ["/path", Path("/path")])
def test_a_path_alone_is_refused_with_the_setting_that_takes_it(path: object) -> None:
    assert fault(path).endswith("; did you mean Broker(data_dir='/path')?")


def test_a_value_of_the_wrong_type_is_refused_by_the_name_of_its_setting() -> None:
    assert fault(port="5672") == "port: '5672' is not a whole number"
    assert fault(port=70000) == "port: 70000 is not between 0 and 65535"
    assert fault(data_dir="") == "data_dir: '' is not a path"
    assert fault(5) == "Broker takes a Configuration or settings by name, not 5"


def test_settings_beside_a_configuration_are_refused_and_not_passed_over() -> None:
    text = "give Broker a Configuration or settings (port, host), not both"
    assert fault(Configuration(), port=0, host="::1") == text


def test_lists_and_paths_are_written_as_in_the_file() -> None:
    configuration = Broker(trace_queues=["orders"], data_dir="data").configuration
    assert configuration.trace_queues == ("orders",)
    assert configuration.data_dir == Path("data")
    assert "is not a list of strings" in fault(trace_queues=[1])


# --- For type checkers


PROGRAM = """
import leveret

leveret.Broker(port=0, data_dir="data", trace_queues=["orders"], log_level="error")
leveret.Broker(leveret.Configuration(port=0))
leveret.Broker(prot=0)
leveret.Broker(port="0")
leveret.Broker("/path")
"""


@pytest.mark.skipif(importlib.util.find_spec("mypy") is None, reason="mypy is not installed")
def test_a_misspelt_setting_is_a_type_error(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(PROGRAM)
    # As where it is installed. Only the modules that say the types are looked into: all take long.
    (tmp_path / "leveret").symlink_to(ROOT / "node")
    modules = [f"leveret/{name}.py" for name in ("__init__", "broker", "configuration", "settings")]
    options = ["--strict", "--follow-imports=skip", "--cache-dir", str(tmp_path / "cache")]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, "--no-error-summary", "program.py", *modules],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    said = [line for line in done.stdout.splitlines() if line.startswith("program.py")]
    assert [line.split(":")[1] for line in said if "error" in line] == ["6", "7", "8"], done.stdout
    assert 'Unexpected keyword argument "prot" for "Broker"' in said[0]
