"""Policies put in effect: what a change of them means for the queues and exchanges that are there.

Only the broker actor uses this. It plans a change before the catalog hears of it, because a change
that asks for too much is refused, and carries the plan out afterwards. Both go in slices, between
which the event loop has other work; meanwhile no other task of the broker actor begins, so that a
queue is declared either before the plan is made or when the new policies hold.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Final

from ...core.definitions import (
    ExchangeDefinition,
    QueueDefinition,
    ReplaceExchangeArguments,
    ReplaceQueueArguments,
)
from ...core.parameters.parameters import (
    OPERATOR_POLICY,
    POLICY,
    Parameters,
    PutParameter,
    RemoveParameter,
)
from ...core.policies.effective import Policies
from ...core.topology.topology import Topology
from ...core.users.accounts import AccountChange, AccountError, RemoveVhost
from ..messages import SetArguments
from ..node_context import NodeContext
from ..runtime.runtime import tell

# A slice's share of the event loop's time, and the most queues that it looks at or tells: a queue
# that is told of new arguments needs time of its own besides.
SLICE_SECONDS: Final = 0.001
_LOOKED_AT_PER_SLICE_MAX: Final = 500
_TOLD_PER_SLICE_MAX: Final = 25

Replacement = ReplaceQueueArguments | ReplaceExchangeArguments


class PoliciesInEffect:
    """Those of a node's vhosts, as the broker applies them."""

    def __init__(self, context: NodeContext) -> None:
        self._context = context
        # Of each vhost, for as long as the version of the accounts is this.
        self._kept: dict[str, Policies] = {}
        self._version = -1

    def of(self, topology: Topology) -> Policies:
        """The policies of the vhost as they are now."""
        accounts = self._context.accounts
        if self._version != accounts.version:
            self._kept.clear()
            self._version = accounts.version
        policies = self._kept.get(topology.vhost)
        if policies is None:
            policies = self._kept[topology.vhost] = _made(accounts.parameters, topology)
        return policies

    def restore(self, topology: Topology) -> None:
        """Have them hold in a vhost from the catalog, whose queues have no actors yet."""
        policies, table = self.of(topology), topology.table
        found = (_replacement(policies, each) for each in _governed(topology))
        table.apply([each for each in found if each is not None])

    def plan(
        self, changes: Sequence[AccountChange], more_identities: int = 0
    ) -> Generator[None, None, list[tuple[Topology, Replacement]]]:
        """What the queues and exchanges of the vhosts whose policies change will have.

        `more_identities` is what the dedup windows of queues that are made together with this may
        remember. AccountError if all dedup windows together would remember too much.
        """
        planned: list[tuple[Topology, Replacement]] = []
        governed = _vhosts_of_policies(changes)
        parameters = self._context.accounts.parameters.after(changes)
        slices = self._slices(_LOOKED_AT_PER_SLICE_MAX)
        for topology in self._context.vhosts:
            if topology.vhost not in governed:
                continue
            policies = _made(parameters, topology)
            for definition in _governed(topology):
                replacement = _replacement(policies, definition)
                if replacement is not None:
                    planned.append((topology, replacement))
                    more_identities += _more_identities(replacement)
                if slices.is_over():
                    yield
        try:
            self._context.vhosts.check_dedup_identities(more_identities)
        except ValueError as fault:
            raise AccountError(str(fault)) from None
        return planned

    def put_in_effect(
        self, planned: Iterable[tuple[Topology, Replacement]]
    ) -> Generator[None, None, None]:
        """Carry out a plan, and tell the queues that it changes."""
        slices = self._slices(_TOLD_PER_SLICE_MAX)
        for topology, replacement in planned:
            definition = replacement[0]
            is_changed = replacement.arguments != definition.effective
            topology.table.apply((replacement,))
            if is_changed and isinstance(definition, QueueDefinition):
                # A queue that has failed has them when the node starts it anew.
                tell(definition.handle, SetArguments(replacement.arguments))
            if slices.is_over():
                yield

    def _slices(self, steps_max: int) -> _Slices:
        return _Slices(self._context.runtime.scheduler.time, steps_max)


class _Slices:
    """Says when a slice has done enough."""

    def __init__(self, clock: Callable[[], float], steps_max: int) -> None:
        self._clock = clock
        self._steps_max = steps_max
        self._begin()

    def _begin(self) -> None:
        self._steps_left = self._steps_max
        self._ends_at = self._clock() + SLICE_SECONDS

    def is_over(self) -> bool:
        """Count a step; a new slice begins when this one is over."""
        self._steps_left -= 1
        is_over = self._steps_left <= 0 or self._clock() > self._ends_at
        if is_over:
            self._begin()
        return is_over


def _made(parameters: Parameters, topology: Topology) -> Policies:
    return Policies(parameters, topology.vhost, topology.dedup_window_max)


def _governed(topology: Topology) -> list[QueueDefinition | ExchangeDefinition]:
    """Those that policies apply to: not the broker's own."""
    exchanges = (each.definition for each in topology.table.exchanges())
    return [*topology.table.queues(), *exchanges]


def _replacement(
    policies: Policies, definition: QueueDefinition | ExchangeDefinition
) -> Replacement | None:
    """What the policies change for a queue or an exchange; None: nothing."""
    before = definition.effective, definition.policies
    if isinstance(definition, QueueDefinition):
        applied = policies.queue_arguments(definition)
        return None if applied == before else ReplaceQueueArguments(definition, *applied)
    applied = policies.exchange_arguments(definition)
    return None if applied == before else ReplaceExchangeArguments(definition, *applied)


def _more_identities(replacement: Replacement) -> int:
    if isinstance(replacement, ReplaceExchangeArguments):
        return 0
    window = replacement.arguments.get("x-dedup-window")
    after = 0 if window is None else window.value
    assert isinstance(after, int)
    return after - replacement.queue.dedup_window


def _vhosts_of_policies(changes: Iterable[AccountChange]) -> set[str]:
    """The vhosts whose policies the changes concern, and that stay."""
    of_policies = (POLICY, OPERATOR_POLICY)
    vhosts = set()
    for change in changes:
        if isinstance(change, PutParameter) and change.parameter.component in of_policies:
            vhosts.add(change.parameter.vhost)
        elif isinstance(change, RemoveParameter) and change.component in of_policies:
            vhosts.add(change.vhost)
    return vhosts - {change.name for change in changes if isinstance(change, RemoveVhost)}
