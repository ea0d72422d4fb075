"""Which spool a directory holds: the file `spool.json` in it.

    {"format": 1, "id": "9f2c...", "begins": 0, "queues": ["orders"], "vhost": "/"}

The id is in every offset that the query's checkpoint has since: so it is certain, not a guess from
numbers, that a checkpoint and a spool belong together. `begins` is the offset at which the spool
was begun. Until Spark has logged the first offset with the id, this offset and the queues are all
there is to tell that a range found here is the query's own.
"""

from __future__ import annotations

import json
from typing import Final, NamedTuple

MARK_NAME: Final = "spool.json"
FORMAT: Final = 1


class Mark(NamedTuple):
    """The content of spool.json."""

    spool: str
    begins: int
    queues: tuple[str, ...]
    vhost: str

    def packed(self) -> bytes:
        """Give the file's content."""
        content = {
            "format": FORMAT,
            "id": self.spool,
            "begins": self.begins,
            "queues": list(self.queues),
            "vhost": self.vhost,
        }
        return json.dumps(content).encode() + b"\n"


def read_mark(content: bytes) -> Mark:
    """Read the file's content; ValueError, in words for people, if it is not what it should be."""
    try:
        found = json.loads(content)
    except ValueError:
        raise ValueError("it is damaged: it is no JSON") from None
    if not isinstance(found, dict) or not isinstance(found.get("format"), int):
        raise ValueError("it is damaged: it does not say its format")
    if found["format"] != FORMAT:
        raise ValueError(f"it has format {found['format']}, and this Leveret reads {FORMAT}")
    try:
        mark = Mark(found["id"], found["begins"], tuple(found["queues"]), found["vhost"])
    except (KeyError, TypeError):
        raise ValueError("it is damaged: it does not say all that it should") from None
    if not (isinstance(mark.spool, str) and isinstance(mark.begins, int)):
        raise ValueError("it is damaged: it does not say all that it should")
    return mark
