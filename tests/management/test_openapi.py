"""The OpenAPI document says what the table has."""

from __future__ import annotations

import re
from importlib.metadata import version

import leveret
from asking_http import asked
from leveret.management.openapi import PATH, document
from leveret.management.resources.table import ACTIONS


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
