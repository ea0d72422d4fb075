"""A publish to a queue with a window, divided: what is new to it, and what it repeats.

Each message is looked up once. A transient message repeats any of its identity; one that is to be
stored repeats stored ones only, for a confirm of it says that it is on disk.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

from ..amqp_frames.batch import Batch, Indexes
from ..amqp_frames.dedup_headers import IdentityReader
from .dedup_window import STORED_KIND, TRANSIENT_KIND, DedupWindow


class Division(NamedTuple):
    """Which messages are what; indexes ascend in each."""

    fresh: Indexes
    # Aligned with `fresh`: b"" for a message that carries no identity.
    identities: list[bytes]
    # What these repeat has been taken before: stored messages, and transient ones.
    repeats_stored: Indexes
    repeats_transient: Indexes
    # These repeat one of `fresh`, whose fate is not decided yet; and that one's identity.
    again: Indexes
    again_identities: list[bytes]


def divide_by_identity(
    window: DedupWindow, reader: IdentityReader, batch: Batch, indexes: Indexes, durable: bool
) -> Division:
    """`durable`: does the queue store what is persistent?"""
    digests = reader.digests(batch, indexes)
    if durable and all(digests) and batch.persistent.count(0) == 0:
        # As it nearly always is: all are to be stored, and none has ever come before.
        identities = [digest + STORED_KIND for digest in digests]
        if len(set(identities)) == len(identities) and not window.holds_any(identities):
            return Division(indexes, identities, range(0), range(0), range(0), [])
    return _one_by_one(window, batch, indexes, digests, durable)


def _one_by_one(
    window: DedupWindow, batch: Batch, indexes: Indexes, digests: Sequence[bytes], durable: bool
) -> Division:
    fresh, again = array("I"), array("I")
    repeats_stored, repeats_transient = array("I"), array("I")
    identities: list[bytes] = []
    again_identities: list[bytes] = []
    seen: set[bytes] = set()
    persistent = batch.persistent
    for index, digest in zip(indexes, digests, strict=True):
        stored = digest + STORED_KIND
        identity = stored if durable and persistent[index] else digest + TRANSIENT_KIND
        if not digest:
            identity = b""
        elif stored in window:
            repeats_stored.append(index)
            continue
        elif identity is not stored and identity in window:
            repeats_transient.append(index)
            continue
        elif identity in seen or stored in seen:
            again.append(index)
            again_identities.append(stored if stored in seen else identity)
            continue
        else:
            seen.add(identity)
        fresh.append(index)
        identities.append(identity)
    if len(fresh) == len(indexes):
        return Division(indexes, identities, range(0), range(0), range(0), [])
    return Division(fresh, identities, repeats_stored, repeats_transient, again, again_identities)
