"""Random exchanges: one of the bound queues for each message, and no route of theirs is kept."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterable

import pytest
from batches import batch_of
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Field, table_of
from leveret.core.dead_letters.letters import DeadLetters
from leveret.core.exchanges.table import carry_out
from leveret.core.queue.span import Span
from leveret.core.topology.topology import Topology
from publishing import indexes_by_queue, publisher_of
from wire import publish


class Chance:
    """Octets that are drawn as the test says; each of them once."""

    def __init__(self) -> None:
        self.numbers: list[int] = []

    def octets(self, count: int) -> bytes:
        return self.numbers.pop(0).to_bytes(count, "big")

    def will_draw(self, numbers: Iterable[int]) -> None:
        assert not self.numbers, "not all were drawn"
        self.numbers = list(numbers)


@pytest.fixture
def chance() -> Chance:
    return Chance()


@pytest.fixture
def commands(commands, chance):
    commands.topology = Topology(itertools.count(1).__next__, chance.octets)
    commands.table = commands.topology.table
    commands.declare_exchange("x", "x-random")
    for name in "abc":
        commands.declare_queue(name, durable=True)
        commands.bind(name, "x", f"key of {name}")
    return commands


def routed(commands, *wires: bytes) -> dict[str, list[int]]:
    return indexes_by_queue(carry_out(publisher_of(commands).route(batch_of(*wires))))


def test_each_message_of_a_batch_goes_where_chance_says(commands, chance) -> None:
    publisher = publisher_of(commands)
    for drawn in ([2, 0, 1, 1, 5], [0, 0, 0, 0, 2]):
        chance.will_draw(drawn)
        batch = batch_of(*[publish("k", b"same", exchange="x")] * 5)
        expected: dict[str, list[int]] = {}
        for index, number in enumerate(drawn):
            expected.setdefault("abc"[number % 3], []).append(index)
        assert indexes_by_queue(carry_out(publisher.route(batch))) == expected
        # Kept routes decide nothing.
        assert publisher.route_known(batch) is None
        assert publisher.route_to_one(batch) is None
    assert not chance.numbers


def test_all_queues_get_about_as_much(commands, chance) -> None:
    seed = 20
    print(f"seed {seed}")
    drawn = random.Random(seed)
    chance.will_draw(drawn.getrandbits(64) for _ in range(6_000))
    found = routed(commands, *[publish("k", exchange="x")] * 6_000)
    counts = {name: len(indexes) for name, indexes in found.items()}
    assert counts.keys() == set("abc")
    assert all(1_850 < count < 2_150 for count in counts.values()), counts


def test_a_queue_bound_twice_is_no_likelier(commands, chance) -> None:
    commands.bind("a", "x", "another key")
    chance.will_draw([0, 1, 2])
    assert routed(commands, *[publish("k", exchange="x")] * 3) == {"a": [0], "b": [1], "c": [2]}


def test_one_queue_is_no_matter_of_chance(commands) -> None:
    for name in "ab":
        commands.unbind(name, "x", f"key of {name}")
    assert routed(commands, publish("k", exchange="x")) == {"c": [0]}
    commands.unbind("c", "x", "key of c")
    assert routed(commands, publish("k", exchange="x")) == {}


def test_several_keys_are_one_draw(commands, chance) -> None:
    copies = Properties(headers={"CC": Field("array", [Field("longstr", "key of b")])})
    chance.will_draw([2, 0])
    wires = [publish("k", properties=copies, exchange="x")] * 2
    assert routed(commands, *wires) == {"c": [0], "a": [1]}
    assert not chance.numbers


def test_it_counts_behind_a_binding_between_exchanges(commands, chance) -> None:
    commands.declare_exchange("before", "direct")
    commands.bind_exchange("x", "before", "k")
    chance.will_draw([1, 0])
    assert routed(commands, *[publish("k", exchange="before")] * 2) == {"b": [0], "a": [1]}


def test_a_delayed_message_is_delayed_where_it_goes(commands, chance) -> None:
    arguments = table_of({"x-delayed-type": "x-random"})
    commands.declare_exchange("later", "x-delayed-message", arguments=arguments)
    for name in "abc":
        commands.bind(name, "later")
    delay = Properties(headers={"x-delay": Field("signedint", 500)})
    chance.will_draw([2, 1])
    wires = [publish("k", properties=delay, exchange="later")] * 2
    found = carry_out(publisher_of(commands).route(batch_of(*wires)))
    assert indexes_by_queue(found) == {"c": [0], "b": [1]}
    deferred = {queue.name: found.delays[queue] for queue in found.by_queue}
    assert (deferred["c"][0], deferred["b"][1]) == (500, 500)
    assert not chance.numbers


def test_a_message_that_may_come_delayed_or_not_is_drawn_once(commands, chance) -> None:
    """From an exchange that is bound to one that delays, and to the random one."""
    commands.declare_exchange("both", "fanout")
    arguments = table_of({"x-delayed-type": "fanout"})
    commands.declare_exchange("later", "x-delayed-message", arguments=arguments)
    commands.bind_exchange("later", "both")
    commands.bind_exchange("x", "both")
    commands.declare_queue("delayed")
    commands.bind("delayed", "later")
    delay = Properties(headers={"x-delay": Field("signedint", 500)})
    chance.will_draw([1])
    wire = publish("k", properties=delay, exchange="both")
    found = carry_out(publisher_of(commands).route(batch_of(wire)))
    assert sorted(queue.name for queue in found.by_queue) == ["b", "delayed"]
    assert [queue.name for queue in found.delays] == ["delayed"]


def test_dead_letters_of_one_kind_part_by_chance(commands, chance) -> None:
    dying = commands.declare_queue("dying", arguments=table_of({"x-dead-letter-exchange": "x"}))
    batch = batch_of(*[publish("dying")] * 3)
    letters = DeadLetters({"/": commands.table}.get, itertools.count(1).__next__)
    chance.will_draw([2, 0, 2])
    dead = [(Span(batch, range(3), 1, 1, True), "rejected")]
    made = carry_out(letters.publish(dying, dead, 0))
    assert {queue.name: list(found) for queue, found in made.by_queue.items()} == {
        "c": [0, 2],
        "a": [1],
    }
