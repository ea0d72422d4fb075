"""Topic patterns, many and hostile: what they match, and what a key costs."""

from __future__ import annotations

import random

import pytest
from holding import parts
from hypothesis import given
from hypothesis import strategies as st
from leveret.core.definitions import QueueDefinition
from leveret.core.exchanges.exchange import Destinations
from leveret.core.exchanges.topic import TopicPatterns

KEY_BYTES_MAX = 255

# Of few words, so that they match in part: the longer, the more ways there are.
LONG = st.lists(st.sampled_from(["a", "b", "*", "#"]), max_size=40).map(".".join)
KEYS = st.lists(st.sampled_from(["a", "b", "*", "#", ""]), max_size=40).map(".".join)


def words(key: str) -> list[str]:
    return key.split(".") if key else []


def matches(pattern: str, key: str) -> bool:
    """The rule, one word of the pattern after the other, on the set of positions reached."""
    own = words(key)
    reached = {0}
    for word in words(pattern):
        if word == "#":
            reached = {end for begin in reached for end in range(begin, len(own) + 1)}
        else:
            reached = {at + 1 for at in reached if at < len(own) and word in ("*", own[at])}
    return len(own) in reached


class Bound:
    """Patterns, each of which leads to a queue named like it."""

    def __init__(self, *patterns: str) -> None:
        self.patterns = TopicPatterns()
        self.queues: dict[str, QueueDefinition] = {}
        for pattern in patterns:
            self.bind(pattern)

    def bind(self, pattern: str) -> None:
        queue = self.queues.setdefault(pattern, QueueDefinition(pattern, 1, durable=False))
        self.patterns.add(pattern, queue)

    def unbind(self, pattern: str) -> None:
        self.patterns.remove(pattern, self.queues[pattern])

    def matched(self, key: str) -> list[str]:
        found = self.patterns.match(key).destinations
        return sorted({queue.name for some in found for queue in some.in_order()})

    def steps(self, key: str) -> int:
        return self.patterns.match(key).steps


def hostile(shape: str, count: int, seed: int) -> list[str]:
    """Different patterns of 40 words and more, none of which the `key_of` the shape matches."""
    chance = random.Random(seed)
    made: dict[str, None] = {}
    while len(made) < count:
        if shape == "any words between two words":
            chosen = [chance.choice("ab") for _ in range(39)]
            pattern = "#." + ".#.".join(chosen) + ".#.z"
        elif shape == "any words between the key's own":
            chosen = [NAMES[at] for at in sorted(chance.sample(range(len(NAMES)), 39))]
            pattern = "#." + ".#.".join(chosen) + "." + chosen[0] + ".#"
        elif shape == "wildcards and a word":
            pattern = ".".join(chance.choice("#*a") for _ in range(100)) + ".z"
        elif shape == "one word or another":
            pattern = ".".join(chance.choice("*a") for _ in range(119)) + ".z"
        else:
            pattern = "#." + ".".join(chance.choice("*a") for _ in range(60)) + ".z.#"
        assert len(pattern) <= KEY_BYTES_MAX
        made[pattern] = None
    return list(made)


NAMES = [f"{first}{second}" for first in "abcdefghij" for second in "klmnopqr"]
KEY_OF = {
    "any words between two words": ".".join(["a", "b"] * 60),
    "any words between the key's own": ".".join(NAMES),
    "wildcards and a word": ".".join(["a"] * 120),
    "one word or another": ".".join(["a"] * 120),
    "a long part between any words": ".".join(["a"] * 120),
}


@given(patterns=st.lists(LONG, unique=True, max_size=8), keys=st.lists(KEYS, max_size=8))
def test_a_key_finds_the_patterns_that_it_matches(patterns, keys):
    bound = Bound(*patterns)
    for key in keys:
        assert bound.matched(key) == sorted(each for each in patterns if matches(each, key))


@given(patterns=st.lists(LONG, unique=True, min_size=1, max_size=8), key=KEYS, data=st.data())
def test_patterns_that_are_gone_leave_nothing(patterns, key, data):
    bound = Bound(*patterns, *patterns)
    for pattern in patterns:
        bound.unbind(pattern)
    gone = data.draw(st.lists(st.sampled_from(patterns), unique=True))
    for pattern in gone:
        bound.unbind(pattern)
    left = [each for each in patterns if each not in gone]
    assert bound.matched(key) == sorted(each for each in left if matches(each, key))
    assert branch_count(bound) <= max(
        branch_count(Bound(*left)), sum(len(words(each)) + 1 for each in left)
    )
    for pattern in left:
        bound.unbind(pattern)
    assert not bound.patterns


def branch_count(bound: Bound) -> int:
    """Dictionaries of the tree, which are those by word, the root left out."""
    tree = [each for each in parts(bound.patterns, dict) if any(type(key) is str for key in each)]
    return len(tree) - 1


@pytest.mark.parametrize(
    ("one", "other"),
    [("#", "#.#"), ("a.#", "a.#.#.#"), ("*.#", "#.*"), ("#.*.#.*.b", "*.*.#.b"), ("", "")],
)
def test_patterns_that_match_the_same_are_one(one, other):
    bound = Bound(one, other)
    assert len(bound.patterns.match(".".join(["x", "y", "b"])).destinations) <= 1
    assert len(parts(bound.patterns, Destinations)) == 1
    bound.unbind(one)
    assert bound.patterns
    bound.unbind(other)
    assert not bound.patterns


@pytest.mark.parametrize("shape", KEY_OF)
def test_a_key_is_led_to_each_pattern_once_however_many_words_it_has(shape):
    seed = random.randrange(2**32)
    print(f"seed {seed}")
    for count in (100, 1000):
        patterns = hostile(shape, count, seed)
        bound = Bound(*patterns)
        key = KEY_OF[shape]
        assert not any(matches(each, key) for each in patterns[:10])
        assert bound.matched(key) == []
        # Each word of the patterns is compared once, and not once for each of the 80 to 120 words
        # of the key; then there are the ways to try at each branch.
        word_count = sum(len(words(each)) for each in patterns)
        assert bound.steps(key) <= word_count + 8 * count


def test_the_cost_of_a_key_does_not_depend_on_patterns_that_begin_otherwise():
    few, many = (
        Bound(
            *(f"device.{number}.#" for number in range(count)),
            *(f"*.{number}.status" for number in range(count)),
            *(f"#.{number}.alarm.#" for number in range(count)),
        )
        for count in (100, 10_000)
    )
    for key in ("device.7.status", "device.7.alarm.high", "other", "", ".".join(["x"] * 120)):
        assert many.steps(key) == few.steps(key)
        assert many.matched(key) == few.matched(key)


def test_a_long_pattern_takes_no_nodes_for_the_words_that_it_shares_with_no_other():
    bound = Bound(*hostile("wildcards and a word", 200, seed=1))
    assert branch_count(bound) < 400
    # Two that part at their last word do, until one of them has gone.
    bound = Bound("a." * 126 + "x", "a." * 126 + "y")
    assert branch_count(bound) == 126
    bound.unbind("a." * 126 + "x")
    assert branch_count(bound) == 0
    assert bound.matched("a." * 126 + "y") == ["a." * 126 + "y"]


def test_the_words_of_patterns_with_many_wildcards_are_counted():
    few, many = "a." + "*.b." * 8 + "c", "a." + "*.b." * 9 + "c"
    bound = Bound(few, "*.#.*.#.*", "x." * 100 + "x")
    assert bound.patterns.costly_words == 0
    assert bound.patterns.costly_words_with(few) == 0
    assert bound.patterns.costly_words_with(many) == 20
    bound.bind(many)
    bound.bind(many)
    # However often it is bound.
    assert bound.patterns.costly_words == bound.patterns.costly_words_with(many) == 20
    bound.bind("#.a." * 10 + "#.#")
    assert bound.patterns.costly_words == 41
    bound.unbind(many)
    assert bound.patterns.costly_words == 41
    bound.unbind(many)
    bound.unbind("#.a." * 10 + "#.#")
    assert bound.patterns.costly_words == 0
