"""Topic patterns: examples, and every set of patterns against a matcher that only recurses."""

from __future__ import annotations

import pytest
from holding import part
from hypothesis import given
from hypothesis import strategies as st
from leveret.core.definitions import BindingDefinition, ExchangeDefinition, QueueDefinition
from leveret.core.exchanges.topic import TopicExchange, TopicPatterns

# Few words, so that they meet; empty ones and wildcards among them.
WORDS = st.sampled_from(["a", "b", "", "*", "#"])
KEYS = st.lists(WORDS, max_size=6).map(".".join)
PATTERNS = st.lists(st.sampled_from(["a", "b", "", "*", "#", "*", "#"]), max_size=6).map(".".join)


class Patterns:
    """A topic exchange with one queue per pattern, named like it."""

    def __init__(self, *patterns: str) -> None:
        self.exchange = TopicExchange(ExchangeDefinition("x", "topic", durable=False))
        self.queues: dict[str, QueueDefinition] = {}
        self.bindings: dict[str, BindingDefinition] = {}
        for pattern in patterns:
            self.bind(pattern)

    def bind(self, pattern: str) -> None:
        self.queues[pattern] = QueueDefinition(pattern, len(self.queues), durable=False)
        self.bindings[pattern] = BindingDefinition("x", pattern, pattern, durable=False)
        self.exchange.bind(self.bindings[pattern], self.queues[pattern])

    def unbind(self, pattern: str) -> None:
        self.exchange.unbind(self.bindings.pop(pattern), self.queues.pop(pattern))

    def route(self, key: str) -> list[str]:
        return [queue.name for queue in self.exchange.route(key)]


def words(key: str) -> list[str]:
    return key.split(".") if key else []


def matches(pattern: list[str], key: list[str]) -> bool:
    """The rule itself: slow, and short enough to be seen to be right."""
    if not pattern:
        return not key
    if pattern[0] == "#":
        return any(matches(pattern[1:], key[skipped:]) for skipped in range(len(key) + 1))
    return bool(key) and pattern[0] in ("*", key[0]) and matches(pattern[1:], key[1:])


@pytest.mark.parametrize(
    ("pattern", "key", "expected"),
    [
        ("a.b", "a.b", True),
        ("a.b", "a.b.c", False),
        ("a.*", "a.b", True),
        ("a.*", "a", False),
        ("a.*", "a.", True),
        ("*", "", False),
        ("#", "", True),
        ("", "", True),
        ("", "a", False),
        (".", "", False),
        ("*.*", ".", True),
        ("a.#", "a", True),
        ("a.#", "a.b.c", True),
        ("#.b", "b", True),
        ("#.b", "a.b.b", True),
        ("#.b.#", "a.b.c", True),
        ("a.#.*", "a", False),
        ("a.#.*", "a.b", True),
        ("#.#", "", True),
        ("a*", "ab", False),
        ("a#", "a", False),
        ("a.b", "a.*", False),
        ("a.b", "#", False),
        ("*", "#", True),
    ],
)
def test_examples(pattern, key, expected):
    assert Patterns(pattern).route(key) == ([pattern] if expected else [])


@given(patterns=st.sets(PATTERNS, max_size=12), keys=st.lists(KEYS, min_size=1, max_size=8))
def test_routes_are_those_of_the_rule(patterns, keys):
    bound = Patterns(*sorted(patterns))
    for key in keys:
        route = bound.route(key)
        assert len(route) == len(set(route))
        assert set(route) == {each for each in patterns if matches(words(each), words(key))}


@given(patterns=st.lists(PATTERNS, unique=True, max_size=12), data=st.data())
def test_unbinding_leaves_the_trie_as_if_it_had_never_been_bound(patterns, data):
    gone = data.draw(st.lists(st.sampled_from(patterns), unique=True)) if patterns else []
    bound = Patterns(*patterns)
    for pattern in gone:
        bound.unbind(pattern)
    left = [pattern for pattern in patterns if pattern not in gone]
    key = data.draw(KEYS)
    assert set(bound.route(key)) == set(Patterns(*left).route(key))
    for pattern in left:
        bound.unbind(pattern)
    assert not part(bound.exchange, TopicPatterns)


def test_a_route_is_that_of_the_bindings_at_hand():
    bound = Patterns("a.*")
    assert bound.route("a.b") == ["a.*"]
    bound.bind("#.b")
    assert set(bound.route("a.b")) == {"a.*", "#.b"}
    bound.unbind("a.*")
    assert bound.route("a.b") == ["#.b"]


def test_a_pattern_full_of_wildcards_does_not_stop_the_broker():
    # Backtracking would try more ways here than there are atoms.
    pattern = ".".join(["#.a"] * 60 + ["b"])
    bound = Patterns(pattern, "#")
    assert bound.route(".".join(["a"] * 127)) == ["#"]
    assert set(bound.route(".".join(["a"] * 126 + ["b"]))) == {pattern, "#"}
