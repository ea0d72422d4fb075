"""JSON is the same with orjson and without it, where nothing else would do."""

from __future__ import annotations

import json
import sys
from importlib.util import find_spec, module_from_spec
from types import ModuleType

import pytest


@pytest.fixture(params=["orjson", "json"])
def text(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The module, made anew with this library."""
    if request.param == "json":
        monkeypatch.setitem(sys.modules, "orjson", None)
    spec = find_spec("leveret.management.text")
    assert spec is not None
    assert spec.loader is not None
    made = module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize("name", ["hare", "Häsin", b"\xff".decode("utf-8", "surrogateescape")])
def test_names_come_back_as_they_were(text: ModuleType, name: str) -> None:
    """One that is not UTF-8 has surrogate escapes."""
    octets = text.encoded({"name": name})
    assert octets.decode().isprintable()
    # What Python's library reads, which has no rule against surrogates.
    assert json.loads(octets) == {"name": name}


def test_what_is_nested_too_deeply_is_a_wrong_value(text: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"nested|depth|recursion"):
        text.decoded(b"[" * 100_000)
