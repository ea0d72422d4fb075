"""Inputs that Hypothesis draws for a target: any octets, and its seeds with some changed."""

from __future__ import annotations

from types import ModuleType
from typing import NamedTuple

from hypothesis import strategies as st


class Change(NamedTuple):
    """At a place, as a part of 65,536 of the whole: so many octets go, and these come."""

    place: int
    removed: int
    added: bytes


_PLACES = 65_536
_CHANGES = st.builds(
    Change,
    st.integers(0, _PLACES - 1),
    st.sampled_from([0, 0, 1, 1, 2, 4, 8]),
    st.binary(max_size=8),
)


def _changed(seed: bytes, changes: list[Change]) -> bytes:
    data = bytearray(seed)
    for place, removed, added in changes:
        at = place * (len(data) + 1) // _PLACES
        data[at : at + removed] = added
    return bytes(data)


def inputs(target: ModuleType) -> st.SearchStrategy[bytes]:
    """Strings of octets for `target.run`."""
    seeds = st.sampled_from(target.seeds())
    changed = st.builds(_changed, seeds, st.lists(_CHANGES, max_size=6))
    joined = st.builds(lambda one, other: one + other[2:], changed, changed)
    return st.one_of(changed, joined, st.binary(max_size=200))
