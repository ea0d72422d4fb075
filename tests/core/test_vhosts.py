"""Vhosts: worlds that know nothing of each other."""

from __future__ import annotations

import itertools
import os

import pytest
from leveret.core.definitions import BindingDefinition, ExchangeDefinition, QueueDefinition
from leveret.core.exchanges.table import carry_out
from leveret.core.topology.topology import Topology, Vhosts


def new(*names: str) -> Vhosts:
    return Vhosts(names, itertools.count(1).__next__, os.urandom)


def declare(topology: Topology, name: str) -> QueueDefinition:
    plan = topology.prepare_declare_queue(name, None, arguments={})
    topology.apply(plan)
    assert plan.queue is not None
    return plan.queue


def test_a_name_in_one_vhost_is_another_thing_in_the_next() -> None:
    vhosts = new("/", "v")
    first, second = declare(vhosts["/"], "q"), declare(vhosts["v"], "q")
    assert first.queue_id != second.queue_id
    assert (str(first), str(second)) == ("queue 'q' in vhost '/'", "queue 'q' in vhost 'v'")
    assert vhosts["/"].table.find_queue("q") is first
    assert vhosts["v"].table.find_queue("q") is second
    assert list(vhosts.queues()) == [first, second]


def test_each_vhost_has_the_exchanges_that_are_there_from_the_start() -> None:
    vhosts = new("/")
    vhosts.add("v")
    for topology in vhosts:
        definitions = [exchange.definition for exchange in topology.table.exchanges()]
        assert {each.vhost for each in definitions} == {topology.vhost}
        assert {each.name for each in definitions} >= {"amq.direct", "amq.topic", "amq.fanout"}


def test_a_vhost_that_was_removed_is_not_the_one_that_has_its_name_now() -> None:
    vhosts = new("/", "v")
    old = vhosts["v"]
    queue = declare(old, "q")
    assert vhosts.table_of(queue) is old.table
    vhosts.remove("v")
    assert vhosts.find("v") is vhosts.tables.get("v") is vhosts.table_of(queue) is None
    vhosts.add("v")
    assert old.is_deleted
    assert not vhosts["v"].is_deleted
    assert vhosts.table_of(queue) is None


def test_definitions_of_the_catalog_go_to_their_vhosts() -> None:
    vhosts = new("/", "v")
    exchanges = [ExchangeDefinition("x", "fanout", True, vhost=vhost) for vhost in ("v", "/")]
    queues = [
        QueueDefinition(f"q{number}", number, True, vhost=vhost)
        for number, vhost in enumerate(("/", "v"))
    ]
    bindings = [BindingDefinition("x", "q1", "", True, vhost="v")]
    vhosts.restore(exchanges, queues, bindings)
    assert carry_out(vhosts["v"].table.route("x", "")) == (queues[1],)
    assert carry_out(vhosts["/"].table.route("x", "")) == ()


def test_a_catalog_with_things_in_a_vhost_that_is_not_there_is_not_believed() -> None:
    with pytest.raises(ValueError, match="vhosts that are not there"):
        new("/").restore([], [QueueDefinition("q", 1, True, vhost="v")], [])
