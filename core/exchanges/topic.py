"""Topic exchanges: keys are words between dots; a pattern's `*` is one word, its `#` any number.

The empty key has no words; "a." has two, the second empty. `*` and `#` are wildcards in a pattern
and ordinary words in a message's key.

The exchange keeps its patterns so that a key finds those it matches without trying all. It first
brings patterns that match the same keys into one form: in a row of wildcards only the number of `*`
counts, and whether there is a `#`, so "#.*.#.*" is kept as "*.*.#".

The patterns form a tree: those that begin alike share branches, and each is a leaf at the first
branch that it shares with no other. A key is led through the tree together with the set of
positions in it at which the words up to a branch may end, as the bits of one integer: a word moves
the positions at which the key has it, and a `#` adds all positions behind the first. So a key
reaches a branch at most once. Led with one position at a time it would come once for each, and with
one way at a time more often than there are atoms.

The pattern of a leaf that the key reaches is compared as a whole, in one pass: behind a `#` the
first place where the words up to the next `#` fit is as good as any later one.

So a key costs the branches and leaves whose beginnings fit it: for patterns in practice, those that
it matches and few others. Many bindings can exceed that only if they have many wildcards, and words
that the key has in another order. No known index helps with those, because one would refute the
orthogonal vectors conjecture. So the words of all patterns with many wildcards are counted, and the
exchange limits them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from sys import intern
from typing import Final, NamedTuple

from ..definitions import BindingDefinition, Destination, ExchangeDefinition
from .exchange import Destinations, Exchange

ONE_WORD: Final = "*"
ANY_WORDS: Final = "#"
# In a key, wildcards are words that no pattern can name; nor can a pattern's word have a dot.
_UNNAMEABLE: Final = "."
# A pattern with more wildcards, rows of them made short, counts in `costly_words`.
COMMON_WILDCARDS_MAX: Final = 8
# From a single position a key goes on by its next word or a wildcard, or its end.
_WAYS_FROM_ONE_POSITION: Final = 3


class Matched(NamedTuple):
    """Where the patterns that a key matches lead, and how many steps it took to find them."""

    destinations: list[Destinations]
    steps: int


class _Leaf:
    """A pattern, in the parts between its `#`, and where its bindings lead."""

    __slots__ = ("destinations", "first_wildcards", "last_wildcards", "parts", "words_min")

    def __init__(self, words: Sequence[str]) -> None:
        parts: list[tuple[str, ...]] = []
        begin = 0
        for index, word in enumerate(words):
            if word == ANY_WORDS:
                parts.append(tuple(words[begin:index]))
                begin = index + 1
        self.parts = (*parts, tuple(words[begin:]))
        self.words_min = len(words) - len(parts)
        # Where the parts that a key begins and ends with have a `*`.
        self.first_wildcards = _wildcards_of(self.parts[0])
        self.last_wildcards = _wildcards_of(self.parts[-1])
        self.destinations = Destinations()

    def words(self) -> list[str]:
        """The pattern's words."""
        return list(chain(self.parts[0], *((ANY_WORDS, *part) for part in self.parts[1:])))

    def word_count(self) -> int:
        """The number of the pattern's words."""
        return self.words_min + len(self.parts) - 1


# What follows the words so far: a pattern's next word, or None, with a leaf, if one ends there.
_Branch = dict[str | None, "_Branch | _Leaf"]


class TopicPatterns:
    """Patterns and their destinations; the same may be added several times."""

    def __init__(self) -> None:
        self._root: _Branch = {}
        # The words of the patterns that have many wildcards.
        self.costly_words = 0

    def __bool__(self) -> bool:
        return bool(self._root)

    def add(self, pattern: str, destination: Destination) -> None:
        """Have one more binding with this pattern lead to the destination."""
        words = _normalised(pattern)
        branch = self._root
        for depth, word in enumerate((*words, None)):
            found = branch.get(word)
            if found is None:
                found = branch[word] = _Leaf(words)
                self.costly_words += _costly_words_of(words)
            if isinstance(found, _Leaf):
                others = found.words()
                if others == words:
                    found.destinations.add(destination)
                    return
                # Both go on by this word, so the other leaf moves behind it.
                found = branch[word] = {(*others, None)[depth + 1]: found}
            branch = found

    def remove(self, pattern: str, destination: Destination) -> None:
        """Undo one `add`."""
        words = (*_normalised(pattern), None)
        path = [self._root]
        for word in words:
            found = path[-1][word]
            if isinstance(found, _Leaf):
                break
            path.append(found)
        assert isinstance(found, _Leaf), pattern
        found.destinations.remove(destination)
        if found.destinations:
            return
        self.costly_words -= _costly_words_of(words[:-1])
        depth = len(path) - 1
        del path[depth][words[depth]]
        # A branch that only one leaf is left on becomes that leaf again.
        while depth and len(path[depth]) == 1:
            (left,) = path[depth].values()
            if not isinstance(left, _Leaf):
                break
            depth -= 1
            path[depth][words[depth]] = left

    def costly_words_with(self, pattern: str) -> int:
        """Count what `costly_words` would be with this pattern, which may be there already."""
        words = _normalised(pattern)
        node: _Branch | _Leaf | None = self._root
        for word in (*words, None):
            if not isinstance(node, dict):
                break
            node = node.get(word)
        is_there = isinstance(node, _Leaf) and node.words() == words
        return self.costly_words + (0 if is_there else _costly_words_of(words))

    # --- Matching

    def match(self, key: str) -> Matched:
        """Find the patterns that the key matches, in a stable order."""
        words = _Words(key)
        found: list[Destinations] = []
        steps = 0
        reached: list[tuple[_Branch, int]] = [(self._root, 0)]
        anywhere: list[tuple[_Branch, int]] = []
        # Until a `#` there is one position in the key. Both lists grow while they are walked.
        for branch, position in reached:
            steps += _WAYS_FROM_ONE_POSITION
            for word in words.ways_from(position):
                node = branch.get(word)
                if node is None:
                    continue
                if isinstance(node, _Leaf):
                    steps += node.word_count()
                    if words.match(node):
                        found.append(node.destinations)
                elif word == ANY_WORDS:
                    anywhere.append((node, -1 << position))
                else:
                    reached.append((node, position + 1))
        for branch, positions in anywhere:
            where = words.where()
            ways = branch if len(branch) < len(where) else where
            steps += len(ways)
            for word in ways:
                node = branch.get(word)
                ends = positions & where.get(word, 0)
                if node is None or not ends:
                    continue
                if isinstance(node, _Leaf):
                    steps += node.word_count()
                    if words.match(node):
                        found.append(node.destinations)
                else:
                    # The first position stands for all behind it.
                    ends = -(ends & -ends) if word == ANY_WORDS else ends << 1
                    anywhere.append((node, ends))
        return Matched(found, steps)


class _Words:
    """The words of a key."""

    __slots__ = ("_ends", "_where", "_words")

    def __init__(self, key: str) -> None:
        words = key.split(".") if key else []
        if ONE_WORD in words or ANY_WORDS in words:
            words = [_UNNAMEABLE if word in (ONE_WORD, ANY_WORDS) else word for word in words]
        self._words = tuple(words)
        self._where: dict[str | None, int] = {}
        # Of words that were looked for: by position, the end of the next one, or -1.
        self._ends: dict[str, list[int]] = {}

    def ways_from(self, position: int) -> tuple[str | None, ...]:
        """The words that patterns may have at the one position to be matched."""
        if position < len(self._words):
            return self._words[position], ONE_WORD, ANY_WORDS
        return ANY_WORDS, None

    def where(self) -> dict[str | None, int]:
        """By word of a pattern, its positions: bit p for word p, or the key's end."""
        where = self._where
        if not where:
            bit = 1
            for word in self._words:
                where[word] = where.get(word, 0) | bit
                bit <<= 1
            where[ONE_WORD] = bit - 1
            where[ANY_WORDS] = -1
            where[None] = bit
        return where

    def match(self, leaf: _Leaf) -> bool:
        """Whether the key matches the leaf's pattern."""
        words, parts = self._words, leaf.parts
        spare = len(words) - leaf.words_min
        if spare < 0 or not _fits(parts[0], leaf.first_wildcards, words[: len(parts[0])]):
            return False
        if len(parts) == 1:
            return not spare
        position, end = len(parts[0]), len(words) - len(parts[-1])
        if not _fits(parts[-1], leaf.last_wildcards, words[end:]):
            return False
        for part in parts[1:-1]:
            position = self._end_of_next(part, position)
            if position < 0:
                return False
        return position <= end

    def _end_of_next(self, part: Sequence[str], begin: int) -> int:
        """Where the part ends that is first found from `begin` on; -1 if there is none."""
        if len(part) == 1:
            # The most frequent, and of few words.
            ends = self._ends.get(part[0])
            if ends is None:
                ends = self._ends[part[0]] = self._ends_of(part[0])
            return ends[begin]
        where = self.where()
        at = -1 << begin
        for word in part:
            at = (at & where.get(word, 0)) << 1
        return (at & -at).bit_length() - 1

    def _ends_of(self, word: str) -> list[int]:
        ends: list[int] = []
        where = self.where().get(word, 0)
        while where:
            end = (where & -where).bit_length()
            ends += [end] * (end - len(ends))
            where &= where - 1
        return ends + [-1] * (len(self._words) + 1 - len(ends))


def _fits(part: tuple[str, ...], wildcards: Sequence[int], words: tuple[str, ...]) -> bool:
    """Whether as many words of a key are those of the part, which has `*` at these positions."""
    if wildcards:
        own = list(words)
        for position in wildcards:
            own[position] = ONE_WORD
        words = tuple(own)
    return words == part


def _wildcards_of(part: Sequence[str]) -> tuple[int, ...]:
    if ONE_WORD not in part:
        return ()
    return tuple(position for position, word in enumerate(part) if word == ONE_WORD)


def _costly_words_of(words: Sequence[str | None]) -> int:
    wildcards = words.count(ONE_WORD) + words.count(ANY_WORDS)
    return len(words) if wildcards > COMMON_WILDCARDS_MAX else 0


def _normalised(pattern: str) -> list[str]:
    """The words of the pattern; each row of wildcards is its `*`, then a `#` if it has one."""
    words: list[str] = []
    has_any_words = False
    for word in pattern.split(".") if pattern else ():
        if word == ANY_WORDS:
            has_any_words = True
            continue
        if has_any_words and word != ONE_WORD:
            words.append(ANY_WORDS)
            has_any_words = False
        words.append(intern(word))
    if has_any_words:
        words.append(ANY_WORDS)
    return words


# With so many a key takes about 25 ms at most.
TOPIC_COSTLY_WORDS_MAX: Final = 500_000


class TopicExchange(Exchange):
    """Routes by patterns."""

    def __init__(self, definition: ExchangeDefinition) -> None:
        super().__init__(definition)
        self._patterns = TopicPatterns()

    def costly_words(self, routing_key: str) -> int:
        """Count the words of the patterns with many wildcards, this one included."""
        return self._patterns.costly_words_with(routing_key)

    def route(self, routing_key: str) -> tuple[Destination, ...]:
        """Find the destinations of the patterns that the key matches."""
        found = self._patterns.match(routing_key).destinations
        if len(found) == 1:
            return found[0].in_order()
        return tuple(dict.fromkeys(each for some in found for each in some.in_order()))

    def _add_route(self, binding: BindingDefinition, destination: Destination) -> None:
        self._patterns.add(binding.routing_key, destination)

    def _remove_route(self, binding: BindingDefinition, destination: Destination) -> None:
        self._patterns.remove(binding.routing_key, destination)
