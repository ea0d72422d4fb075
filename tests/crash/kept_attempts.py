"""How often the journal says that each message was delivered: read from a copy, in this process."""

from __future__ import annotations

import shutil
import sqlite3
import struct
from pathlib import Path

from leveret.amqp_frames.messages.batch import Batch
from leveret.storage.journal.opening import open_journal
from numbered_messages import key_in


def kept_attempts(data: Path, copy: Path) -> dict[str, dict[int, int]]:
    """Per queue name and key of a message, the attempts that a start would find in `data`."""
    shutil.rmtree(copy, ignore_errors=True)
    shutil.copytree(data, copy, ignore=shutil.ignore_patterns("*.sock"))
    with sqlite3.connect(copy / "catalog.sqlite") as catalog:
        names = dict(catalog.execute("SELECT queue_id, name FROM queues"))
    catalog.close()
    journal, recovered = open_journal(str(copy / "journal"), known_queue_ids=set(names))
    journal.close()
    attempts: dict[str, dict[int, int]] = {}
    for queue_id in recovered.queues:
        kept = attempts.setdefault(names[queue_id], {})
        for run in recovered.messages(queue_id):
            for index in run.indexes:
                body = _body(run.batch, index)
                if body.startswith(b"LVRT"):
                    kept[key_in(body)] = run.attempts
    shutil.rmtree(copy)
    return attempts


def _body(batch: Batch, index: int) -> bytes:
    """Take the body out of the frames, header frame first."""
    wire, at, end = batch.wire, batch.headers[index], batch.ends[index]
    pieces = []
    while at < end:
        kind, _, size = struct.unpack_from(">BHI", wire, at)
        if kind == 3:
            pieces.append(wire[at + 7 : at + 7 + size])
        at += 8 + size
    return b"".join(pieces)
