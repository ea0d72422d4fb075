"""A start's findings in a directory of an earlier version, as make_directories.py describes it."""

from __future__ import annotations

import hashlib
import sqlite3
from pathlib import Path
from typing import Any

from leveret.storage.journal.recovery import Recovered
from publishes import message


def queue_names(data: Path) -> dict[int, str]:
    catalog = sqlite3.connect(data / "catalog.sqlite")
    names = dict(catalog.execute("SELECT queue_id, name FROM queues"))
    catalog.close()
    return names


def described(recovered: Recovered, names: dict[int, str]) -> dict[str, Any]:
    """As make_directories.py describes what the earlier version recovers."""
    queues = {}
    for queue_id in recovered.queues:
        entries = queues[names[queue_id]] = []
        for run in recovered.messages(queue_id):
            for position, index in enumerate(run.indexes):
                several = run.deadlines
                deadline = several if isinstance(several, int) else several[position]
                digest = hashlib.sha256(message(run.batch, index)).hexdigest()[:16]
                entry_id = run.first_entry_id + position
                times = run.due_times
                due = times if isinstance(times, int) else times[position]
                # Earlier formats have none.
                entries.append([entry_id, run.attempts, deadline, digest] + [due] * (due > 0))
    identities = {
        names[queue_id]: [
            [run.first_entry_id, run.last_entry_id, run.until_ms, bytes(run.identities).hex()]
            for run in runs
        ]
        for queue_id, runs in recovered.identities.items()
    }
    return {
        "queues": queues,
        "identities": identities,
        "next_entry_ids": {names[key]: each for key, each in recovered.next_entry_ids.items()},
        "next_batch_number": recovered.next_batch_number,
        "report": [list(line[:2]) for line in recovered.report],
    }
