"""Queues that are declared, bound, filled and deleted while the broker may die at any moment."""

from __future__ import annotations

import frames_by_hand as wire
from load_threads import LoadThread
from socket_client import SocketClient

EXCHANGE = "amq.topic"


class Declared:
    """A client's knowledge of the queues that it has declared.

    Per name: how many messages it may hold, or None among them if it may not be there.
    """

    def __init__(self) -> None:
        self.states: dict[str, set[int | None]] = {}
        self.bound: set[str] = set()
        self.made = 0

    def check(self, port: int) -> tuple[int, int]:
        """Each is as it must be, of which the state now is known; how many are there, and gone."""
        there = gone = 0
        client = SocketClient(port)
        for channel, (name, state) in enumerate(self.states.items(), 1):
            client.open_channel(channel)
            count = client.find(name, channel)
            assert count in state, f"queue {name} has {count} messages, not one of {state}"
            self.states[name] = {count}
            there, gone = there + (count is not None), gone + (count is None)
        client.close()
        return there, gone

    def remove(self, port: int) -> int:
        """Publish to each that was bound for certain, then delete all; how many were bound."""
        client = SocketClient(port)
        client.open_channel(confirm=True)
        bound = 0
        for name, state in self.states.items():
            if None not in state and name in self.bound:
                bound += 1
                client.send(wire.publish(1, EXCHANGE, name, b"more", mandatory=True))
                answer = client.frame()
                assert answer.ids == wire.ACK, f"the binding of {name} is lost: {answer}"
            client.ask(wire.queue_delete(1, name), wire.QUEUE_DELETE_OK)
        client.close()
        self.states = {}
        self.bound = set()
        return bound


class Declarer(LoadThread):
    """Makes queues, deletes them, and makes some of them again, which must then be empty."""

    def __init__(self, port: int, seed: int, declared: Declared) -> None:
        super().__init__("declarer", port, seed)
        self._declared = declared

    def work(self) -> None:
        """One queue after the other."""
        client = self.connect()
        client.open_channel(confirm=True)
        states = self._declared.states
        while True:
            known = [name for name, state in states.items() if len(state) == 1]
            there = [name for name in known if None not in states[name]]
            choice = self.random.random()
            if len(there) > 100 or (there and choice < 0.3):
                self._unmake(client, self.random.choice(there))
            elif len(known) > len(there) and choice < 0.4:
                gone = [name for name in known if None in states[name]]
                self._make(client, self.random.choice(gone))
            else:
                self._declared.made += 1
                self._make(client, f"made-{self._declared.made}")

    def _make(self, client: SocketClient, name: str) -> None:
        states = self._declared.states
        # First: its old binding went with it, also if the broker dies before it answers.
        self._declared.bound.discard(name)
        states[name] = {None, 0}
        assert client.declare(name) == 0, f"{name} was declared anew and is not empty"
        states[name] = {0}
        client.ask(wire.queue_bind(1, name, EXCHANGE, name), wire.QUEUE_BIND_OK)
        self._declared.bound.add(name)
        states[name] = {0, 1}
        client.publish_confirmed(EXCHANGE, name, b"one")
        states[name] = {1}

    def _unmake(self, client: SocketClient, name: str) -> None:
        states = self._declared.states
        states[name] = {None, 1}
        client.ask(wire.queue_delete(1, name), wire.QUEUE_DELETE_OK)
        states[name] = {None}
