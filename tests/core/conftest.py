"""Shared by the tests of topology: commands that are prepared and applied, and exact refusals."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from leveret.amqp_frames.errors import SoftError
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.definitions import ExchangeDefinition, QueueDefinition
from leveret.core.exchanges.table import TopologyLimits, carry_out
from leveret.core.publishing.publisher import Publisher
from leveret.core.topology.topology import Topology


class Commands:
    """A topology, and its commands with defaults: queue "q", exchange "x", key "k"."""

    us = "our connection"
    them = "another connection"

    def __init__(self, **limits: int) -> None:
        self.topology = Topology(
            itertools.count(1).__next__,
            lambda count: b"\xff\xfb" * (count // 2),
            limits=TopologyLimits(**limits),
        )
        self.table = self.topology.table

    def declare_queue(self, name="q", owner=us, **how: Any) -> QueueDefinition:
        plan = self.topology.prepare_declare_queue(name, owner, **{"arguments": {}, **how})
        self.topology.apply(plan)
        return plan.queue

    def declare_exchange(self, name="x", type_name="direct", **how: Any) -> ExchangeDefinition:
        plan = self.topology.prepare_declare_exchange(name, type_name, **{"arguments": {}, **how})
        self.topology.apply(plan)
        return plan.exchange

    def delete_queue(self, name="q", owner=us) -> None:
        self.topology.apply(self.topology.prepare_delete_queue(name, owner))

    def bind(self, queue="q", exchange="x", key="k", owner=us, **arguments: Any) -> None:
        table = table_of(arguments)
        self.topology.apply(self.topology.prepare_bind(queue, exchange, key, table, owner))

    def unbind(self, queue="q", exchange="x", key="k", owner=us, **arguments: Any) -> None:
        table = table_of(arguments)
        self.topology.apply(self.topology.prepare_unbind(queue, exchange, key, table, owner))

    def bind_exchange(self, destination, source="x", key="k", **arguments: Any) -> None:
        table = table_of(arguments)
        self.topology.apply(self.topology.prepare_bind_exchange(destination, source, key, table))

    def unbind_exchange(self, destination, source="x", key="k", **arguments: Any) -> None:
        table = table_of(arguments)
        self.topology.apply(self.topology.prepare_unbind_exchange(destination, source, key, table))

    def delete_exchange(self, name="x", **how: Any) -> None:
        self.topology.apply(self.topology.prepare_delete_exchange(name, **how))

    def exchange_names(self) -> list[str]:
        """The exchanges but for the broker's own."""
        names = [exchange.definition.name for exchange in self.table.exchanges()]
        return [name for name in names if not name.startswith("amq.")]

    def route(self, exchange="x", key="k") -> list[str]:
        return [queue.name for queue in carry_out(self.table.route(exchange, key))]

    def route_message(self, exchange="x", key="k", **headers: Any) -> list[str]:
        queues = carry_out(
            self.table.route_message(exchange, (key,), Properties(headers=table_of(headers)))
        )
        return [queue.name for queue in queues]


@pytest.fixture
def commands() -> Commands:
    return Commands()


@pytest.fixture
def commands_within() -> Callable[..., Commands]:
    """Makes a topology with limits of its own."""
    return Commands


@pytest.fixture
def refused() -> Callable[[int, str], AbstractContextManager[None]]:
    """`with refused(406, "PRECONDITION_FAILED - ..."):` the channel is closed with just that."""

    @contextmanager
    def refused(code: int, text: str) -> Iterator[None]:
        with pytest.raises(SoftError) as caught:
            yield
        assert (caught.value.reply_code, caught.value.reply_text) == (code, text)

    return refused


# For the helpers `batches` and `publishing`.
sys.path.insert(0, str(Path(__file__).parent))
# Their asserts, too, say what was and what should have been.
pytest.register_assert_rewrite("queue_model", "queue_history")


@pytest.fixture
def publisher(commands: Commands) -> Publisher:
    """A publisher in confirm mode, on the topology of `commands`."""
    from publishing import publisher_of

    made = publisher_of(commands)
    made.confirm_mode = True
    return made
