"""Topology as a state machine beside a model that keeps plain sets and searches them all."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from examples import examples
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from leveret.amqp_frames.errors import SoftError
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.definitions import (
    AddBinding,
    AddExchange,
    AddQueue,
    BindingDefinition,
    ExchangeDefinition,
    QueueDefinition,
    RemoveBinding,
    RemoveExchange,
    RemoveQueue,
)
from leveret.core.exchanges.table import carry_out
from leveret.core.topology.topology import Plan, Topology

OWNERS = st.sampled_from(["one", "two"])
QUEUES = st.sampled_from(["q1", "q2", "q3"])
EXCHANGES = st.sampled_from(["x1", "x2", "amq.topic"])
OWN_EXCHANGES = st.sampled_from(["x1", "x2"])
TYPES = st.sampled_from(["direct", "fanout", "topic"])
KEYS = st.sampled_from(["", "a.b", "a.*", "#"])
ARGUMENTS = st.sampled_from([{}, {"a": 1}])
KEYS_PUBLISHED = ("", "a", "a.b", "a.b.c", "q1", "q3")

Binding = tuple[str, str, str, int]


def is_match(type_name: str, pattern: str, key: str) -> bool:
    if type_name == "topic":
        # The few patterns above, said otherwise.
        return {"#": True, "a.*": key == "a.b"}.get(pattern, pattern == key)
    return type_name == "fanout" or pattern == key


class Catalog:
    """A catalog's content: the changes that it was given, and no more."""

    def __init__(self) -> None:
        self.exchanges: dict[str, ExchangeDefinition] = {}
        self.queues: dict[int, QueueDefinition] = {}
        self.bindings: dict[object, BindingDefinition] = {}

    def commit(self, plan: Plan) -> None:
        for change in plan.catalog:
            match change:
                case AddExchange(exchange):
                    self.exchanges[exchange.name] = exchange
                case RemoveExchange(exchange):
                    del self.exchanges[exchange.name]
                case AddQueue(queue):
                    self.queues[queue.queue_id] = queue
                case RemoveQueue(queue):
                    del self.queues[queue.queue_id]
                case AddBinding(binding):
                    self.bindings[binding.identity] = binding
                case RemoveBinding(binding):
                    del self.bindings[binding.identity]


class TopologyMachine(RuleBasedStateMachine):
    """Commands at random; those that are refused must change nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.ids = itertools.count(1)
        self.topology = Topology(self.ids.__next__, bytes)
        self.catalog = Catalog()
        # name -> (type, durable, auto_delete); name -> (durable, owner or None)
        self.exchanges: dict[str, tuple[str, bool, bool]] = {
            f"amq.{name}": (name, True, False) for name in ("direct", "fanout", "topic")
        }
        self.queues: dict[str, tuple[bool, str | None]] = {}
        self.bindings: set[Binding] = set()

    def is_done(self, prepare: Callable[[], Plan], expected: int | None) -> bool:
        """Run a command, which is refused with the expected code, or done if that is None."""
        try:
            plan, code = prepare(), None
        except SoftError as error:
            plan, code = None, error.reply_code
        assert code == expected
        if plan is not None:
            version = self.topology.table.version
            self.catalog.commit(plan)
            self.topology.apply(plan)
            assert (self.topology.table.version > version) == bool(plan.changes)
        return plan is not None

    def is_locked(self, queue: str, owner: str) -> bool:
        return queue in self.queues and self.queues[queue][1] not in (None, owner)

    def drop_bindings(self, gone: set[Binding]) -> None:
        self.bindings -= gone
        for source in {binding[0] for binding in gone}:
            is_unused = all(binding[0] != source for binding in self.bindings)
            if is_unused and self.exchanges[source][2]:
                del self.exchanges[source]

    @initialize(data=st.data())
    def declare_all(self, data):
        for name in ("x1", "x2"):
            how = (data.draw(st.booleans()) for _ in range(2))
            self.declare_exchange(name, data.draw(TYPES), *how)
        for name in ("q1", "q2", "q3"):
            self.declare_queue(name, "one", data.draw(st.booleans()), data.draw(st.booleans()))

    @rule(name=OWN_EXCHANGES, type_name=TYPES, durable=st.booleans(), auto_delete=st.booleans())
    def declare_exchange(self, name, type_name, durable, auto_delete):
        wanted = (type_name, durable, auto_delete)
        how = {"durable": durable, "auto_delete": auto_delete, "arguments": {}}
        if self.is_done(
            lambda: self.topology.prepare_declare_exchange(name, type_name, **how),
            None if self.exchanges.get(name, wanted) == wanted else 406,
        ):
            self.exchanges[name] = wanted

    @rule(name=OWN_EXCHANGES, if_unused=st.booleans())
    def delete_exchange(self, name, if_unused):
        bound = {binding for binding in self.bindings if binding[0] == name}
        if self.is_done(
            lambda: self.topology.prepare_delete_exchange(name, if_unused=if_unused),
            406 if if_unused and bound else None,
        ):
            self.bindings -= bound
            self.exchanges.pop(name, None)

    @rule(name=QUEUES, owner=OWNERS, durable=st.booleans(), exclusive=st.booleans())
    def declare_queue(self, name, owner, durable, exclusive):
        wanted = (durable and not exclusive, owner if exclusive else None)
        existing = self.queues.get(name, wanted)
        how = {"durable": durable, "exclusive": exclusive, "arguments": {}}
        same_code = None if existing == wanted else 406
        if self.is_done(
            lambda: self.topology.prepare_declare_queue(name, owner, **how),
            same_code if existing[1] == wanted[1] else 405,
        ):
            self.queues[name] = wanted

    @rule(name=QUEUES, owner=OWNERS)
    def delete_queue(self, name, owner):
        if self.is_done(
            lambda: self.topology.prepare_delete_queue(name, owner),
            405 if self.is_locked(name, owner) else None,
        ):
            self.queues.pop(name, None)
            self.drop_bindings({binding for binding in self.bindings if binding[1] == name})

    @rule(owner=OWNERS)
    def connection_goes(self, owner):
        owned = {name for name, (_, each) in self.queues.items() if each == owner}
        found = self.topology.queues_of(owner)
        assert {queue.name for queue in found} == owned
        assert self.is_done(lambda: self.topology.prepare_remove_queues(found), None)
        for name in owned:
            del self.queues[name]
        self.drop_bindings({binding for binding in self.bindings if binding[1] in owned})

    @rule(queue=QUEUES, exchange=OWN_EXCHANGES, key=KEYS, arguments=ARGUMENTS)
    def bind_own(self, queue, exchange, key, arguments):
        self.bind(queue, exchange, key, arguments, "one")

    @rule(queue=QUEUES, exchange=EXCHANGES, key=KEYS, arguments=ARGUMENTS, owner=OWNERS)
    def bind_any(self, queue, exchange, key, arguments, owner):
        self.bind(queue, exchange, key, arguments, owner)

    def bind(self, queue, exchange, key, arguments, owner):
        code = 405 if self.is_locked(queue, owner) else None
        if exchange not in self.exchanges or queue not in self.queues:
            code = 404
        if self.is_done(
            lambda: self.topology.prepare_bind(queue, exchange, key, table_of(arguments), owner),
            code,
        ):
            self.bindings.add((exchange, queue, key, len(arguments)))

    @rule(queue=QUEUES, exchange=EXCHANGES, key=KEYS, owner=OWNERS)
    def unbind_any(self, queue, exchange, key, owner):
        self.unbind((exchange, queue, key, 0), owner)

    @precondition(lambda self: self.bindings)
    @rule(data=st.data(), owner=OWNERS)
    def unbind_bound(self, data, owner):
        self.unbind(data.draw(st.sampled_from(sorted(self.bindings))), owner)

    def unbind(self, binding: Binding, owner: str) -> None:
        exchange, queue, key, argument_count = binding
        arguments = table_of({"a": 1}) if argument_count else {}
        is_refused = binding in self.bindings and self.is_locked(queue, owner)
        if self.is_done(
            lambda: self.topology.prepare_unbind(queue, exchange, key, arguments, owner),
            405 if is_refused else None,
        ):
            self.drop_bindings({binding} & self.bindings)

    def check_routes(self, topology: Topology, queues: set[str], bindings: set[Binding]) -> None:
        for exchange, key in itertools.product(self.exchanges, KEYS_PUBLISHED):
            if topology.table.find_exchange(exchange) is None:
                assert not self.exchanges[exchange][1]
                continue
            route = [queue.name for queue in carry_out(topology.table.route(exchange, key))]
            assert len(route) == len(set(route))
            assert set(route) == {
                queue
                for source, queue, pattern, _ in bindings
                if source == exchange and is_match(self.exchanges[exchange][0], pattern, key)
            }
        for key in KEYS_PUBLISHED:
            found = carry_out(topology.table.route("", key))
            assert [queue.name for queue in found] == ([key] if key in queues else [])

    @invariant()
    def routes_are_the_models(self):
        self.check_routes(self.topology, set(self.queues), self.bindings)

    @invariant()
    def a_restart_keeps_what_is_durable_and_nothing_else(self):
        restarted = Topology(self.ids.__next__, bytes)
        catalog = self.catalog
        restarted.restore(
            catalog.exchanges.values(), catalog.queues.values(), catalog.bindings.values()
        )
        durable = {name for name, (is_durable, _) in self.queues.items() if is_durable}
        assert {queue.name for queue in restarted.table.queues()} == durable
        kept = {each for each in self.bindings if each[1] in durable and self.exchanges[each[0]][1]}
        self.check_routes(restarted, durable, kept)


SETTINGS = settings(max_examples=examples(60), stateful_step_count=50, deadline=None)


def test_topology_routes_like_its_model() -> None:
    run_state_machine_as_test(TopologyMachine, settings=SETTINGS)


@pytest.mark.soak
def test_topology_routes_like_its_model_in_many_more_steps() -> None:
    run_state_machine_as_test(TopologyMachine, settings=settings(SETTINGS, max_examples=600))
