"""Numbers of things, in sentences for people."""

from __future__ import annotations


def counted(count: int, noun: str, plural: str = "") -> str:
    """The number with its noun: 1 event, 2,000 events. The plural of most nouns adds an s."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
