"""The OpenAPI document says what the table has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any

import leveret
import pytest
from asking_http import asked
from leveret.management.openapi import PATH, document
from leveret.management.request import Request
from leveret.management.resources.table import ACTIONS
from table_calls import call, make_things
from wire import Client


def test_the_document_is_published(broker: leveret.Broker) -> None:
    published = asked(broker, "GET", PATH)
    assert published.status == 200
    assert published.content == document(ACTIONS, version("leveret"))
    assert asked(broker, "GET", PATH, user=None).status == 401


def test_every_row_is_an_operation_with_its_parameters() -> None:
    paths = document(ACTIONS, "1")["paths"]
    operations = {(path, method.upper()) for path, found in paths.items() for method in found}
    assert operations == {(action.path, action.method) for action in ACTIONS}
    names = [one["operationId"] for found in paths.values() for one in found.values()]
    assert len(set(names)) == len(names)
    for path, found in paths.items():
        for operation in found.values():
            given = [each["name"] for each in operation["parameters"] if each["in"] == "path"]
            assert given == re.findall(r"{(\w+)}", path)


class Noting(dict[str, str]):
    """Notes which keys are read."""

    def __init__(self, given: Mapping[str, str], read: set[str]) -> None:
        super().__init__(given)
        self._read = read

    def __getitem__(self, name: str) -> str:
        self._read.add(name)
        return super().__getitem__(name)

    def __contains__(self, name: object) -> bool:
        self._read.add(str(name))
        return super().__contains__(name)

    def get(self, name: str, default: Any = None) -> Any:
        self._read.add(name)
        return super().get(name, default)


def test_query_parameters_that_a_row_reads_are_in_the_document(
    broker: leveret.Broker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    read: set[str] = set()

    def noting(**fields: Any) -> Request:
        return Request(**fields | {"query": Noting(fields["query"], read)})

    things = make_things(broker)
    monkeypatch.setattr("leveret.management.api.Request", noting)
    unknown: dict[str, set[str]] = {}
    for action in ACTIONS:
        if action.method == "GET":
            read.clear()
            call(broker, action, things, "guest")
            if "page" in read:
                # Read only if a page is asked for.
                read.update(("name", "use_regex"))
            if not read <= set(action.query):
                unknown[action.path] = read - set(action.query)
    assert not unknown
