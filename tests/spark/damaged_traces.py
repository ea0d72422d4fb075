"""A live broker's trace, and copies of it that were damaged, each as a boot of its own."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from leveret.amqp_frames.methods import BasicAck, BasicReturn
from leveret.logs.reading.reader import read_trace, trace_files
from traced import client_of, traced
from wire import PERSISTENT, TRANSIENT, publish

Line = dict[str, Any]

ROUNDS = ((1, "orders", PERSISTENT), (5, "bills", PERSISTENT), (3, "orders", TRANSIENT))


def traced_lines(directory: Path) -> list[Line]:
    """The trace of a broker: windows to two queues, returns, deliveries."""
    with traced(directory) as broker, client_of(broker) as client:
        client.declare("orders", durable=True)
        client.declare("bills", durable=True)
        for count, queue, properties in ROUNDS * 3:
            client.publish_all(queue, *[b"body"] * count, properties=properties)
        number = client.next_seq_no
        client.send(publish("nobody", b"body", PERSISTENT, mandatory=True))
        client.expect_type(1, BasicReturn)
        client.read_content(1)
        client.expect(1, BasicAck(delivery_tag=number))
        for _ in range(4):
            got = client.get("orders")
            assert got is not None
            client.send_methods(1, BasicAck(delivery_tag=got.delivery_tag))
        client.close()
    return list(read_trace(trace_files([directory / "data" / "traces"])))


def as_boot(lines: Sequence[Line], boot: str) -> list[Line]:
    """A copy that another run of the broker might have written."""
    return [{**copy.deepcopy(line), "boot": boot} for line in lines]


def damaged(
    lines: Sequence[Line],
    seed: int,
    times: int,
    kinds: Sequence[str] = ("drop", "repeat", "move", "numbers"),
) -> list[Line]:
    """A copy with events left out, repeated, moved, or their numbers changed."""
    chance = random.Random(seed)
    copied = as_boot(lines, f"{seed:08x}")
    for _ in range(times):
        at = chance.randrange(1, len(copied))
        damage = chance.choice(kinds)
        if damage == "drop":
            del copied[at]
        elif damage == "repeat":
            copied.insert(chance.randrange(1, len(copied)), copy.deepcopy(copied[at]))
        elif damage == "move":
            moved = copied.pop(at)
            copied.insert(chance.randrange(1, len(copied)), moved)
        else:
            for name in ("seq_no", "messages", "waits_for_sync"):
                for span in copied[at].get(name) or []:
                    span[chance.randrange(2)] += chance.choice([-1, 1, 2])
    return copied


def write_lines(file: Path, lines: Sequence[Line], behind: str = "") -> None:
    """As a broker writes them; `behind` is what comes last."""
    file.write_text("".join(json.dumps(line) + "\n" for line in lines) + behind)
