"""A test module's claims: the names of its tests, and the strings that they compare with."""

from __future__ import annotations

import ast
import functools
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).parents[1]


class Claims(NamedTuple):
    tests: frozenset[str]
    strings: tuple[str, ...]


@functools.cache
def claims_of(module: str) -> Claims:
    """Read from the source of a module, named by its path below `tests`."""
    nodes = list(ast.walk(ast.parse((TESTS / module).read_text())))
    return Claims(
        frozenset(node.name for node in nodes if isinstance(node, ast.FunctionDef)),
        tuple(
            node.value
            for node in nodes
            if isinstance(node, ast.Constant) and isinstance(node.value, str)
        ),
    )
