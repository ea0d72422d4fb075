"""Routes that are kept: for all connections of a user to a vhost, bounded, and let go."""

from __future__ import annotations

import itertools

import pytest
from batches import batch_of
from holding import held_by
from leveret.core.definitions import QueueDefinition
from leveret.core.exchanges.table import ExchangeTable, carry_out
from leveret.core.publishing.routes import ROUTE_BYTES, Route, RouteMemory, Routes
from leveret.core.publishing.vhost_users import VhostUsers
from leveret.core.topology.topology import Topology
from leveret.core.users.accounts import Accounts, Permission, PutPermission
from wire import publish

MEMORY_BYTES_MAX = 20_000


def may_write(exchange: str) -> None:
    """Its user may write everywhere."""


@pytest.fixture
def memory() -> RouteMemory:
    return RouteMemory(MEMORY_BYTES_MAX)


def look_up(routes: Routes, *keys: object) -> list[tuple[QueueDefinition, ...]]:
    return [
        route.queues
        for route in carry_out(routes.of_keys(batch_of(*(publish(f"{k}") for k in keys))))
    ]


def kept_count(routes: Routes) -> int:
    held = held_by(routes, but=(ExchangeTable, RouteMemory))
    return sum(isinstance(each, Route) for each in held)


def test_the_kept_routes_of_all_users_together_are_bounded(commands, memory):
    keepers = [Routes(commands.table, may_write, memory) for _ in range(5)]
    for number in range(200):
        for keeper in keepers:
            look_up(keeper, *range(number * 3, number * 3 + 3))
        kept = sum(map(kept_count, keepers))
        assert kept * ROUTE_BYTES < memory.used_bytes <= MEMORY_BYTES_MAX
    assert memory.used_bytes == sum(keeper.kept_bytes for keeper in keepers)


def test_the_user_with_most_kept_routes_forgets_them(commands, memory):
    one, other = (Routes(commands.table, may_write, memory) for _ in range(2))
    look_up(one, *range(5))
    before = one.kept_bytes
    for number in range(1000):
        look_up(other, f"random {number}")
    assert one.kept_bytes == before
    assert other.kept_bytes <= MEMORY_BYTES_MAX - before


def test_routes_to_many_queues_count_for_more(commands, memory):
    commands.declare_exchange(type_name="fanout")
    for number in range(1000):
        commands.declare_queue(f"q{number}")
        commands.bind(f"q{number}")
    routes = Routes(commands.table, may_write, memory)
    for number in range(10):
        carry_out(routes.of_keys(batch_of(publish(f"{number}", exchange="x"))))
    assert kept_count(routes) <= 2
    assert memory.used_bytes <= MEMORY_BYTES_MAX


def test_routes_without_room_are_not_kept(commands):
    memory = RouteMemory(0)
    routes = Routes(commands.table, may_write, memory)
    queue = commands.declare_queue()
    assert look_up(routes, "q", "none", "q") == [(queue,), ()]
    assert (memory.used_bytes, kept_count(routes)) == (0, 0)


def test_a_change_of_the_topology_lets_go_of_them(commands, memory):
    routes = Routes(commands.table, may_write, memory)
    assert look_up(routes, "q") == [()]
    queue = commands.declare_queue()
    assert look_up(routes, "q") == [(queue,)]
    assert kept_count(routes) == 1
    assert memory.used_bytes == routes.kept_bytes


def test_mistakes_are_not_kept(commands, memory):
    routes = Routes(commands.table, may_write, memory)
    (route,) = carry_out(routes.of_keys(batch_of(publish("k", exchange="none"))))
    assert route.error is not None
    assert route.error.__traceback__ is None
    assert memory.used_bytes == 0


@pytest.fixture
def topology() -> Topology:
    return Topology(itertools.count(1).__next__, bytes, "v")


@pytest.fixture
def users() -> VhostUsers:
    accounts = Accounts()
    accounts.apply([PutPermission(Permission(user, "v", ".*", ".*", ".*")) for user in "ab"])
    return VhostUsers(accounts, MEMORY_BYTES_MAX)


def test_connections_of_a_user_to_a_vhost_keep_routes_together(users, topology):
    first, second, other = (users.enter(user, topology) for user in "aab")
    assert first is second
    assert first is not other
    look_up(first.routes, *range(5))
    used = users.route_memory.used_bytes
    assert used > 5 * ROUTE_BYTES
    look_up(second.routes, *range(5))
    assert users.route_memory.used_bytes == used
    look_up(other.routes, *range(5))
    assert users.route_memory.used_bytes == 2 * used


def test_with_the_last_connection_its_routes_go(users, topology):
    first, second, other = (users.enter(user, topology) for user in "aab")
    look_up(first.routes, *range(5))
    look_up(other.routes, 1)
    users.leave(first)
    assert len(users) == 2
    assert users.route_memory.used_bytes > 5 * ROUTE_BYTES
    users.leave(second)
    assert len(users) == 1
    assert users.route_memory.used_bytes == other.routes.kept_bytes
    # What a channel still looks up on its way out is not kept.
    look_up(second.routes, *range(5))
    assert users.route_memory.used_bytes == other.routes.kept_bytes
    users.leave(other)
    assert (len(users), users.route_memory.used_bytes) == (0, 0)
    # A vhost of the same name is another one.
    assert users.enter("a", topology).access.topology is topology


def test_each_key_that_is_not_kept_is_a_step_and_the_others_are_none(commands, memory):
    routes = Routes(commands.table, may_write, memory)

    def steps(*keys: str) -> int:
        made = routes.of_keys(batch_of(*(publish(key, exchange="amq.topic") for key in keys)))
        return sum(1 for _ in made)

    assert steps("a", "b", "a") == 2
    assert steps("b", "a") == 0
    assert steps("a", "c") == 1


def test_a_change_between_two_steps_holds_for_the_rest_and_nothing_old_is_kept(commands, memory):
    commands.declare_queue("q")
    routes = Routes(commands.table, may_write, memory)
    batch = batch_of(*(publish(key, exchange="amq.topic") for key in "abc"))
    steps = routes.of_keys(batch)
    next(steps)
    next(steps)
    commands.bind("q", "amq.topic", "#")
    found = carry_out(steps)
    assert [bool(route.queues) for route in found] == [False, True, True]
    assert all(route.queues for route in carry_out(routes.of_keys(batch)))
