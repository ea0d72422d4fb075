"""A process whose broker dies by kill -9 within one command of an NSQ topic.

    python topic_child.py DATA_DIRECTORY SCENARIO POINT

A scenario has commands that make a topic, messages that are published to it, and the command in
which the broker is killed: before the commit of the catalog's transaction, when all of it is
written ("in the transaction"), or behind its commit, before anybody is answered ("committed"), or
when the messages that move on are first told to a channel ("moving"), or when all channels have
confirmed them and they are still to be settled ("moved").
"""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1] / "live"))

import leveret
from leveret.actors.messages import Publish, Settle
from leveret.actors.topology import moving
from leveret.storage import catalog
from topic_commands import TopicCommands
from wire import PERSISTENT, Client, publish

SETTINGS: Final = {"port": 0, "log_level": "error", "password_hash_cost": 10}
PUBLISHED: Final = [b"%d" % number for number in range(50)]


class Scenario(NamedTuple):
    """`None` among the commands publishes the messages."""

    commands: list[tuple[str, str] | None]
    killed_in: tuple[str, str]


TOPIC, CHANNEL = ("ENSURE_TOPIC", ""), ("ENSURE_CHANNEL", "c")
PAUSE, RESUME = ("PAUSE_TOPIC", ""), ("RESUME_TOPIC", "")
SCENARIOS: Final = {
    "a new topic": Scenario([], TOPIC),
    "the first channel": Scenario([TOPIC, None], CHANNEL),
    "another channel": Scenario([CHANNEL, None], ("ENSURE_CHANNEL", "d")),
    "a pause": Scenario([CHANNEL, None], PAUSE),
    "a resume": Scenario([CHANNEL, ("ENSURE_CHANNEL", "d"), PAUSE, None], RESUME),
    "the last channel's end": Scenario([CHANNEL, None], ("DELETE_CHANNEL", "c")),
    "the topic's end": Scenario([CHANNEL, None], ("DELETE_TOPIC", "")),
}


def kill() -> None:
    """As the kernel does it, with nothing written, closed or said."""
    os.kill(os.getpid(), signal.SIGKILL)
    signal.pause()


class CatalogTrap:
    """Kills in the catalog's next transaction, before or behind its commit, once it is set."""

    def __init__(self) -> None:
        self.point = ""
        connect, apply = sqlite3.connect, catalog.Catalog.apply

        def connected(*arguments: Any, **options: Any) -> sqlite3.Connection:
            connection = connect(*arguments, **options)
            connection.set_trace_callback(self._begins)
            return connection

        def applied(opened: catalog.Catalog, changes: Any) -> None:
            apply(opened, changes)
            if self.point == "committed":
                kill()

        sqlite3.connect = connected  # type: ignore[assignment]
        catalog.Catalog.apply = applied  # type: ignore[method-assign]

    def _begins(self, statement: str) -> None:
        if self.point == "in the transaction" and statement == "COMMIT":
            kill()


def die_at(kind: type) -> None:
    """Die when a mover tells a message of this kind."""
    tell = moving.tell

    def killed_at(target: Any, message: object) -> bool:
        if isinstance(message, kind):
            kill()
        return tell(target, message)

    moving.tell = killed_at


def run(directory: str, scenario: Scenario, point: str) -> None:
    """Never returns."""
    trap = CatalogTrap()
    with leveret.Broker(data_dir=Path(directory), **SETTINGS) as broker:  # type: ignore[arg-type]
        topic = TopicCommands(broker)
        for command in scenario.commands:
            if command is not None:
                topic.do(*command)
                continue
            with Client(broker.host, broker.port).log_in() as client:
                client.open_channel(1, confirms=True)
                client.send(*(publish("", body, PERSISTENT, exchange="t") for body in PUBLISHED))
                client.expect_acks(range(1, len(PUBLISHED) + 1))
        if point in ("moving", "moved"):
            die_at(Publish if point == "moving" else Settle)
        trap.point = point
        topic.do(*scenario.killed_in)
        signal.pause()


if __name__ == "__main__":
    run(sys.argv[1], SCENARIOS[sys.argv[2]], sys.argv[3])
