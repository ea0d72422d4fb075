"""Topic exchanges: keys are words between dots; a pattern's `*` is one word, its `#` any number.

The empty key has no words; "a." has two, the second empty. `*` and `#` are wildcards in a pattern
and ordinary words in a message's key.

The patterns form a trie. A key is matched word by word with the set of nodes that are reachable
so far, not by trying one way after the other: a pattern such as "#.a.#.a.#.a" against a long key
costs words times nodes at most, where backtracking takes exponential time, which one client could
use to stop a broker.

Routes of keys seen lately are kept, for all channels, until the next bind or unbind.
"""

from __future__ import annotations

from typing import Final

from .definitions import BindingDefinition, Destination, ExchangeDefinition
from .destinations import Destinations
from .exchange import Exchange

# Past this the kept routes are dropped and collected anew: random keys must not take memory for
# ever. With keys of 255 characters it is 2 MB.
_ROUTES_KEPT_MAX: Final = 4_096

_ONE_WORD: Final = "*"
_ANY_WORDS: Final = "#"


class _Node:
    """The end of a pattern's prefix. `any_words` nodes stay reachable whatever words follow."""

    __slots__ = ("any_words", "children", "destinations", "is_any_words", "one_word")

    def __init__(self, is_any_words: bool = False) -> None:
        self.is_any_words = is_any_words
        self.children: dict[str, _Node] = {}
        self.one_word: _Node | None = None
        self.any_words: _Node | None = None
        self.destinations = Destinations()

    def child(self, word: str) -> _Node | None:
        """The node for one more word of a pattern."""
        if word == _ONE_WORD:
            return self.one_word
        if word == _ANY_WORDS:
            return self.any_words
        return self.children.get(word)

    def add_child(self, word: str) -> _Node:
        """The same, made if it is not there."""
        node = self.child(word)
        if node is None:
            node = _Node(is_any_words=word == _ANY_WORDS)
            if word == _ONE_WORD:
                self.one_word = node
            elif word == _ANY_WORDS:
                self.any_words = node
            else:
                self.children[word] = node
        return node

    def remove_child(self, word: str) -> None:
        if word == _ONE_WORD:
            self.one_word = None
        elif word == _ANY_WORDS:
            self.any_words = None
        else:
            del self.children[word]

    def is_needed(self) -> bool:
        """Whether a pattern ends here or goes on from here."""
        return bool(
            self.destinations or self.children or self.one_word or self.any_words,
        )


class TopicExchange(Exchange):
    """A trie of patterns and the routes of recent keys."""

    def __init__(self, definition: ExchangeDefinition) -> None:
        super().__init__(definition)
        self._root = _Node()
        self._routes: dict[str, tuple[Destination, ...]] = {}

    def route(self, routing_key: str) -> tuple[Destination, ...]:
        """What is bound with a pattern that the key matches."""
        found = self._routes.get(routing_key)
        if found is None:
            found = _destinations(_match(self._root, _words(routing_key)))
            if len(self._routes) >= _ROUTES_KEPT_MAX:
                self._routes.clear()
            self._routes[routing_key] = found
        return found

    def _add_route(self, binding: BindingDefinition, destination: Destination) -> None:
        self._routes.clear()
        node = self._root
        for word in _words(binding.routing_key):
            node = node.add_child(word)
        node.destinations.add(destination)

    def _remove_route(self, binding: BindingDefinition, destination: Destination) -> None:
        self._routes.clear()
        node = self._root
        path: list[tuple[_Node, str]] = []
        for word in _words(binding.routing_key):
            path.append((node, word))
            child = node.child(word)
            assert child is not None, binding
            node = child
        node.destinations.remove(destination)
        for parent, word in reversed(path):
            if node.is_needed():
                break
            parent.remove_child(word)
            node = parent


def _words(key: str) -> list[str]:
    return key.split(".") if key else []


def _match(root: _Node, words: list[str]) -> dict[_Node, None]:
    """The nodes at which a pattern ends that matches all the words, and some that are bare."""
    reached: dict[_Node, None] = {}
    _reach(root, reached)
    for word in words:
        following: dict[_Node, None] = {}
        for node in reached:
            if node.is_any_words:
                following[node] = None
            child = node.children.get(word)
            if child is not None:
                _reach(child, following)
            child = node.one_word
            if child is not None:
                _reach(child, following)
        if not following:
            return following
        reached = following
    return reached


def _reach(node: _Node, reached: dict[_Node, None]) -> None:
    """Add the node, and those behind a `#`, which may stand for no words."""
    reached[node] = None
    behind = node.any_words
    while behind is not None:
        reached[behind] = None
        behind = behind.any_words


def _destinations(nodes: dict[_Node, None]) -> tuple[Destination, ...]:
    found = [node.destinations.in_order() for node in nodes if node.destinations]
    if len(found) == 1:
        return found[0]
    return tuple(dict.fromkeys(each for destinations in found for each in destinations))
