"""The parts that an object holds, found by their types, and how much memory they take.

A test that asks for a part by its type and looks at its public properties does not care through
which attributes it is reached, so the code between may change.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from types import (
    BuiltinFunctionType,
    CodeType,
    FrameType,
    FunctionType,
    GeneratorType,
    MethodType,
    ModuleType,
)
from typing import Any, TypeVar

import pykka
from leveret.actors.node_context import NodeContext
from leveret.actors.runtime.runtime import Runtime
from leveret.core.statistics.node_counts import NodeCounts

Part = TypeVar("Part")

# These lead out of an object: to its code, and to the node that all share.
_OUTSIDE = (
    type,
    ModuleType,
    FunctionType,
    MethodType,
    BuiltinFunctionType,
    CodeType,
    FrameType,
    GeneratorType,
    NodeContext,
    NodeCounts,
    Runtime,
)
# Parts of an object, which lead to other actors.
_ENDS = (pykka.Actor, pykka.ActorRef)
_ATOMS = (int, float, str, bytes, bytearray, memoryview, type(None))


def held_by(owner: object, *, but: tuple[type, ...] = ()) -> Iterator[Any]:
    """Yield the owner and all that it holds, each once; parts of the types `but` are left out."""
    outside = (*_OUTSIDE, *but)
    found, seen = [owner], {id(owner)}
    for each in found:
        yield each
        if isinstance(each, _ENDS) and each is not owner:
            continue
        for referent in gc.get_referents(each):
            if id(referent) not in seen and not isinstance(referent, outside):
                seen.add(id(referent))
                found.append(referent)


def parts(owner: object, kind: type[Part]) -> list[Part]:
    """All parts of this type, the nearest first."""
    return [each for each in held_by(owner) if isinstance(each, kind)]


def part(owner: object, kind: type[Part]) -> Part:
    """The one part of this type."""
    found = parts(owner, kind)
    assert len(found) == 1, f"{len(found)} of {kind.__name__} in {type(owner).__name__}"
    return found[0]


def object_count(owner: object, *, but: tuple[type, ...] = ()) -> int:
    """How many objects it holds; numbers and strings are not counted, since some are shared."""
    return sum(not isinstance(each, _ATOMS) for each in held_by(owner, but=but))


def octets_held(owner: object, *, but: tuple[type, ...] = ()) -> int:
    """How many octets of memory it holds."""
    return sum(sys.getsizeof(each) for each in held_by(owner, but=but))
