"""Runtime parameters: JSON values by component, vhost and name, as RabbitMQ has them.

A component is what heeds the values: "policy", "operator_policy", "vhost-limits". A global
parameter belongs to the node, not to a vhost; its component and vhost are empty here, which no
others' are. Nothing heeds a global parameter but the tools that set it.

A change goes in the three steps of core/users/accounts.py. `apply` is called by the accounts, with
whose vhosts the parameters go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

Json = Mapping[str, "Json"] | Sequence["Json"] | str | int | float | bool | None

POLICY: Final = "policy"
OPERATOR_POLICY: Final = "operator_policy"
VHOST_LIMITS: Final = "vhost-limits"
# The component and the vhost of a global parameter.
NODE_WIDE: Final = ""


class Parameter(NamedTuple):
    """A value that is set. It is not changed: a new one takes its place."""

    component: str
    vhost: str
    name: str
    value: Json


class PutParameter(NamedTuple):
    """The parameter is new, or has changed."""

    parameter: Parameter


class RemoveParameter(NamedTuple):
    """The parameter goes."""

    component: str
    vhost: str
    name: str


ParameterChange = PutParameter | RemoveParameter


class Parameters:
    """All of a node's, in the order in which they were first set."""

    def __init__(self, parameters: Sequence[Parameter] = ()) -> None:
        self._values: dict[tuple[str, str, str], Parameter] = {
            parameter[:3]: parameter for parameter in parameters
        }

    def __iter__(self) -> Iterator[Parameter]:
        return iter(self._values.values())

    def find(self, component: str, vhost: str, name: str) -> Parameter | None:
        """The parameter, or None."""
        return self._values.get((component, vhost, name))

    def of(self, component: str, vhost: str | None = None) -> list[Parameter]:
        """Those of a component, in every vhost or in one."""
        return [
            each
            for each in self._values.values()
            if each.component == component and vhost in (None, each.vhost)
        ]

    def after(self, changes: Iterable[object]) -> Parameters:
        """A copy with those of the changes that concern parameters."""
        copied = Parameters(tuple(self))
        for change in changes:
            if isinstance(change, PutParameter | RemoveParameter):
                copied.apply(change)
        return copied

    def apply(self, change: ParameterChange) -> None:
        """Make a change that is committed."""
        match change:
            case PutParameter(parameter):
                self._values[parameter[:3]] = parameter
            case RemoveParameter(component, vhost, name):
                del self._values[component, vhost, name]

    def remove_vhost(self, vhost: str) -> None:
        """The vhost goes, and its parameters."""
        self._values = {key: each for key, each in self._values.items() if each.vhost != vhost}
