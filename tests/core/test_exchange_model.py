"""Exchanges that lead on as a state machine beside a model that searches everything."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from examples import examples
from exchange_model import ARGUMENTS, HEADERS, KEYS, KEYS_PUBLISHED, Binding, Exchange, Model
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
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.definitions import (
    AddBinding,
    AddExchange,
    AddQueue,
    RemoveBinding,
    RemoveExchange,
    RemoveQueue,
)
from leveret.core.exchanges.table import carry_out
from leveret.core.topology.topology import Plan, Topology

OWN = ("x1", "x2", "x3", "x4")
NAMES = st.sampled_from(OWN)
EXCHANGES = st.sampled_from([*OWN, "amq.headers"])
QUEUES = st.sampled_from(["q1", "q2", "x1"])
TYPES = st.sampled_from(["direct", "fanout", "topic", "headers"])
KINDS = st.sampled_from(["queue", "exchange"])
ALTERNATES = st.sampled_from([None, None, *OWN, "amq.headers", ""])


class ExchangeMachine(RuleBasedStateMachine):
    """Commands at random. The topology and its catalog must follow the model."""

    def __init__(self) -> None:
        super().__init__()
        self.ids = itertools.count(1)
        self.topology = Topology(self.ids.__next__, bytes)
        self.model = Model({"amq.headers": Exchange("headers", durable=True)})
        # What a catalog would hold, by what it was told.
        self.catalog: dict[object, object] = {}

    def apply(self, plan: Plan) -> None:
        for change in plan.catalog:
            match change:
                case AddExchange(made) | AddQueue(made) | AddBinding(made):
                    self.catalog[made] = change
                case RemoveExchange(gone) | RemoveQueue(gone) | RemoveBinding(gone):
                    del self.catalog[gone]
        self.topology.apply(plan)

    @initialize(data=st.data())
    def declare_all(self, data):
        for name in OWN:
            how = (data.draw(st.booleans()) for _ in range(2))
            self.declare_exchange(name, data.draw(TYPES), *how, data.draw(ALTERNATES))
        for name in ("q1", "q2", "x1"):
            self.declare_queue(name, data.draw(st.booleans()))

    @rule(
        name=NAMES,
        type_name=TYPES,
        durable=st.booleans(),
        auto_delete=st.booleans(),
        alternate=ALTERNATES,
    )
    def declare_exchange(self, name, type_name, durable, auto_delete, alternate):
        wanted = Exchange(type_name, durable, auto_delete, alternate)
        arguments = {} if alternate is None else {"alternate-exchange": alternate}
        how = {"durable": durable, "auto_delete": auto_delete, "arguments": table_of(arguments)}
        plan = planned(
            lambda: self.topology.prepare_declare_exchange(name, type_name, **how),
            None if self.model.exchanges.get(name, wanted) == wanted else 406,
        )
        if plan is not None:
            self.apply(plan)
            self.model.exchanges[name] = wanted

    @rule(name=NAMES)
    def delete_exchange(self, name):
        self.apply(self.topology.prepare_delete_exchange(name))
        self.model.remove_exchange(name)

    @rule(name=QUEUES, durable=st.booleans())
    def declare_queue(self, name, durable):
        if name not in self.model.queues:
            self.apply(
                self.topology.prepare_declare_queue(name, None, durable=durable, arguments={})
            )
            self.model.queues[name] = durable

    @rule(name=QUEUES)
    def delete_queue(self, name):
        self.apply(self.topology.prepare_delete_queue(name, None))
        self.model.remove_queue(name)

    @rule(
        source=EXCHANGES,
        queue=QUEUES,
        exchange=EXCHANGES,
        kind=KINDS,
        key=st.sampled_from(KEYS),
        arguments=st.integers(0, len(ARGUMENTS) - 1),
    )
    def bind(self, source, queue, exchange, kind, key, arguments):
        destination = queue if kind == "queue" else exchange
        binding = Binding(source, kind, destination, key, arguments)
        model = self.model
        are_there = source in model.exchanges and destination in model.ends(kind)
        plan = planned(lambda: self.prepared(binding, "bind"), None if are_there else 404)
        if plan is not None:
            assert bool(plan.changes) == (binding not in model.bindings)
            self.apply(plan)
            model.bindings.add(binding)

    @precondition(lambda self: self.model.bindings)
    @rule(data=st.data())
    def unbind(self, data):
        binding = data.draw(st.sampled_from(sorted(self.model.bindings)))
        self.apply(self.prepared(binding, "unbind"))
        self.model.remove_bindings({binding})
        # Once more is no error, and changes nothing.
        if binding.destination in self.model.ends(binding.kind):
            assert not self.prepared(binding, "unbind").changes

    def prepared(self, binding: Binding, verb: str) -> Plan:
        source, kind, destination, key, number = binding
        ends = destination, source, key, table_of(ARGUMENTS[number])
        if kind == "exchange":
            return getattr(self.topology, "_".join(["prepare", verb, kind]))(*ends)
        return getattr(self.topology, f"prepare_{verb}")(*ends, None)

    @invariant()
    def routes_are_the_models(self):
        check_routes(self.topology, self.model)

    @invariant()
    def a_restart_keeps_what_is_durable_and_nothing_else(self):
        restarted = Topology(self.ids.__next__, bytes)
        changes = self.catalog.values()
        restarted.restore(
            [each.exchange for each in changes if isinstance(each, AddExchange)],
            [each.queue for each in changes if isinstance(each, AddQueue)],
            [each.binding for each in changes if isinstance(each, AddBinding)],
        )
        check_routes(restarted, self.model.durable_part())


def planned(prepare: Callable[[], Plan], expected: int | None) -> Plan | None:
    """The plan of a command, or None if it is refused, with just this code."""
    try:
        plan, code = prepare(), None
    except SoftError as error:
        plan, code = None, error.reply_code
    assert code == expected
    return plan


def check_routes(topology: Topology, model: Model) -> None:
    table = topology.table
    found = {each.definition.name for each in table.exchanges()}
    assert {name for name in found if name in (*OWN, "amq.headers")} == set(model.exchanges)
    assert {queue.name for queue in table.queues()} == set(model.queues)
    for name, key in itertools.product(model.exchanges, KEYS_PUBLISHED):
        # Whoever need not look at headers goes by the key alone.
        by_key = (
            None if table.routes_each_message(name) else names_of(carry_out(table.route(name, key)))
        )
        for headers in HEADERS:
            queues = names_of(
                carry_out(table.route_message(name, (key,), Properties(headers=table_of(headers))))
            )
            assert queues == model.reached(name, key, headers)
            assert by_key in (None, queues)


def names_of(queues) -> set[str]:
    names = [queue.name for queue in queues]
    assert len(set(names)) == len(names)
    return set(names)


SETTINGS = settings(max_examples=examples(25), stateful_step_count=40, deadline=None)


def test_exchanges_route_like_their_model() -> None:
    run_state_machine_as_test(ExchangeMachine, settings=SETTINGS)


@pytest.mark.soak
def test_exchanges_route_like_their_model_in_many_more_steps() -> None:
    run_state_machine_as_test(ExchangeMachine, settings=settings(SETTINGS, max_examples=300))
