"""A naive model of exchanges that lead on: plain sets, searched whole for every message."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

# Few, so that they meet often. None asks for the header alone.
ARGUMENTS: tuple[dict[str, object], ...] = (
    {},
    {"a": 1},
    {"x-match": "any", "a": 1, "b": True},
    {"x-match": "any-with-x", "x-a": 1, "b": False},
    {"x-match": "all", "b": None, "x-a": 2},
    {"x-match": "all-with-x", "a": 1, "x-a": 1},
)
HEADERS: tuple[dict[str, object], ...] = (
    {},
    {"a": 1.0},
    {"a": 1, "b": True},
    {"a": 2, "b": False},
    {"x-a": 1},
    {"a": 1, "x-a": 1},
)
KEYS = ("", "a.b", "a.*", "#")
KEYS_PUBLISHED = ("", "a.b", "a.c", "b")


class Exchange(NamedTuple):
    type_name: str
    durable: bool
    auto_delete: bool = False
    alternate: str | None = None


class Binding(NamedTuple):
    source: str
    kind: str
    destination: str
    key: str
    # The number of its ARGUMENTS.
    arguments: int


@dataclass
class Model:
    exchanges: dict[str, Exchange] = field(default_factory=dict)
    # Name to whether it is durable.
    queues: dict[str, bool] = field(default_factory=dict)
    bindings: set[Binding] = field(default_factory=set)

    def durable_part(self) -> Model:
        """The part of the model that a restart keeps."""
        exchanges = {name: each for name, each in self.exchanges.items() if each.durable}
        queues = {name: True for name, durable in self.queues.items() if durable}
        kept = Model(exchanges, queues)
        kept.bindings = {
            each
            for each in self.bindings
            if each.source in exchanges and each.destination in kept.ends(each.kind)
        }
        return kept

    def ends(self, kind: str) -> set[str]:
        return set(self.queues if kind == "queue" else self.exchanges)

    # --- Removing, with what goes along.

    def remove_bindings(self, gone: set[Binding]) -> None:
        self.bindings -= gone
        for source in {each.source for each in gone}:
            exchange = self.exchanges.get(source)
            is_bound = any(each.source == source for each in self.bindings)
            if exchange is not None and exchange.auto_delete and not is_bound:
                self.remove_exchange(source)

    def remove_exchange(self, name: str) -> None:
        if self.exchanges.pop(name, None) is not None:
            self.bindings = {each for each in self.bindings if each.source != name}
            self.remove_bindings(self.bindings_to("exchange", name))

    def remove_queue(self, name: str) -> None:
        if self.queues.pop(name, None) is not None:
            self.remove_bindings(self.bindings_to("queue", name))

    def bindings_to(self, kind: str, name: str) -> set[Binding]:
        return {each for each in self.bindings if (each.kind, each.destination) == (kind, name)}

    # --- Routing.

    def reached(self, exchange: str, key: str, headers: dict[str, object]) -> set[str]:
        queues: set[str] = set()
        seen: set[str] = set()

        def visit(name: str) -> None:
            if name in seen or name not in self.exchanges:
                return
            seen.add(name)
            type_name, _, _, alternate = self.exchanges[name]
            taken = [
                each
                for each in self.bindings
                if each.source == name and matches(type_name, each, key, headers)
            ]
            for each in taken:
                if each.kind == "queue":
                    queues.add(each.destination)
                else:
                    visit(each.destination)
            if not taken and alternate is not None:
                visit(alternate)

        visit(exchange)
        return queues


def matches(type_name: str, binding: Binding, key: str, headers: dict[str, object]) -> bool:
    if type_name == "fanout":
        return True
    if type_name == "direct":
        return binding.key == key
    if type_name == "topic":
        # The few patterns above, said otherwise.
        return {"#": True, "a.*": key in ("a.b", "a.c")}.get(binding.key, binding.key == key)
    arguments = dict(ARGUMENTS[binding.arguments])
    how = arguments.pop("x-match", "all")
    met = [
        name in headers and value in (None, headers[name])
        for name, value in arguments.items()
        if str(how).endswith("-with-x") or not name.startswith("x-")
    ]
    return any(met) if str(how).startswith("any") else all(met)
