"""Changes of policies with many queues: in slices, one after the other, and within bounds."""

from __future__ import annotations

import threading
from typing import Any

import leveret
import pytest
from dashed import dashed
from insides import context_of, on_loop
from leveret.actors.messages import AccountRequest, ControlAnswer
from leveret.actors.runtime.runtime import LoopActor, Runtime, tell
from leveret.amqp_frames.methods import ChannelClose, QueueDeclare
from leveret.amqp_frames.values.field_table import table_of
from leveret.commands.control_client import RequestError, ask_broker
from timeouts import TIMEOUT_SECONDS
from wire import Client

QUEUES = 400
# At most so many are told of other arguments in one turn of the broker actor.
TOLD_AT_ONCE_MAX = 25


class Changed:
    """What came of changes: errors, and the rounds of the event loop until all were done."""

    def __init__(self, count: int) -> None:
        self.errors: list[str] = []
        self.rounds = 0
        self.is_done = threading.Event()
        self._count = count

    def answered(self, error: str) -> None:
        self.errors.append(error)
        if len(self.errors) == self._count:
            self.is_done.set()

    def count_rounds(self, runtime: Runtime) -> None:
        self.rounds += 1
        if not self.is_done.is_set():
            runtime.scheduler.call_soon(lambda: self.count_rounds(runtime))


class Hearing(LoopActor):
    """Hears the answers."""

    def __init__(self, changed: Changed) -> None:
        super().__init__()
        self._changed = changed

    def on_receive(self, message: object) -> None:
        assert isinstance(message, ControlAnswer)
        self._changed.answered(message.error)


def change(broker: leveret.Broker, *requests: tuple[str, dict[str, Any]]) -> Changed:
    """Ask for these in one turn of the event loop, and wait until all are done."""
    context, changed = context_of(broker), Changed(len(requests))

    def ask() -> None:
        hearing = Hearing.start_on(context.runtime, changed)
        changed.count_rounds(context.runtime)
        for name, given in requests:
            tell(context.broker, AccountRequest(hearing, None, name, given))

    on_loop(broker, ask)
    assert changed.is_done.wait(TIMEOUT_SECONDS)
    return changed


def policy(**definition: int) -> dict[str, Any]:
    return {"vhost": "/", "name": "p", "pattern": "^q", "definition": dashed(definition)}


def effective(broker: leveret.Broker, argument: str) -> set[object]:
    queues = context_of(broker).vhosts["/"].table.queues()
    return {queue.effective[argument].value for queue in queues if argument in queue.effective}


@pytest.fixture
def client(broker: leveret.Broker):
    with Client(broker.host, broker.port).log_in() as client:
        client.open_channel(1)
        yield client


def declare_many(client: Client) -> None:
    for number in range(QUEUES):
        client.declare(f"q{number}")


def test_other_work_goes_on_while_many_queues_get_other_arguments(
    broker: leveret.Broker, client: Client
) -> None:
    declare_many(client)
    changed = change(broker, ("policy set", policy(max_length=5)))
    assert changed.errors == [""]
    assert effective(broker, "x-max-length") == {5}
    assert changed.rounds > QUEUES / TOLD_AT_ONCE_MAX


def test_changes_come_into_effect_in_their_order(broker: leveret.Broker, client: Client) -> None:
    declare_many(client)
    lengths = (5, 3, 9)
    requests = [("policy set", policy(max_length=length)) for length in lengths]
    change(broker, *requests)
    assert effective(broker, "x-max-length") == {9}
    change(broker, ("policy set", policy(max_length=2)), ("policy clear", policy()))
    assert effective(broker, "x-max-length") == set()


def test_a_queue_that_is_declared_meanwhile_has_the_newest_policy(
    broker: leveret.Broker, client: Client
) -> None:
    declare_many(client)
    requests = [("policy set", policy(max_length=length)) for length in range(1, 6)]
    changing = threading.Thread(target=change, args=(broker, *requests))
    changing.start()
    declared = 0
    while changing.is_alive() or not declared:
        client.declare(f"q.late{declared}")
        declared += 1
    changing.join()
    table = context_of(broker).vhosts["/"].table
    assert len(table.queues()) == QUEUES + declared
    assert [q.effective["x-max-length"].value for q in table.queues()] == [5] * len(table.queues())


class TestDedupIdentities:
    """All dedup windows of a node have a bound, for policies as for declarations."""

    @pytest.fixture
    def settings(self) -> dict[str, object]:
        return {"dedup_identities_max": 100}

    def test_a_policy_that_asks_for_too_much_is_refused(
        self, broker: leveret.Broker, client: Client
    ) -> None:
        client.declare("q1", durable=True)
        client.declare("q2", durable=True)
        client.declare("own", durable=True, arguments=table_of({"x-dedup-window": 10}))
        [error] = change(broker, ("policy set", policy(dedup_window=60))).errors
        words = "the dedup windows of all queues together would have 30 more identities than"
        assert error.startswith(words)
        assert context_of(broker).accounts.parameters.of("policy") == []
        assert effective(broker, "x-dedup-window") == {10}
        assert change(broker, ("policy set", policy(dedup_window=40))).errors == [""]
        assert effective(broker, "x-dedup-window") == {10, 40}
        # Another queue, to which the policy applies.
        closed = client.ask(1, QueueDeclare(queue="q3", durable=True))
        assert isinstance(closed, ChannelClose)
        assert "cannot declare queue 'q3' in vhost '/' with an x-dedup-window of 40" in str(closed)
        # A policy that asks for less is set, and one that hid a larger one cannot go.
        lower = policy(dedup_window=90) | {"name": "low", "priority": -1}
        ask_broker(broker.configuration.data_dir, "policy set", lower)
        with pytest.raises(RequestError, match="would have 90 more identities"):
            ask_broker(broker.configuration.data_dir, "policy clear", policy())
        assert change(broker, ("policy set", policy(dedup_window=5))).errors == [""]
        assert effective(broker, "x-dedup-window") == {10, 5}
