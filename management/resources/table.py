"""All resources, in one table: the API goes by it, and what it publishes of itself."""

from __future__ import annotations

from typing import Final

from ..openapi import described
from ..request import Action
from . import (
    accounts,
    clients,
    definitions,
    health,
    logins,
    memory,
    messages,
    metrics,
    node,
    own,
    parameters,
    policies,
    topology,
)

_ROWS: Final[tuple[Action, ...]] = (
    *own.ACTIONS,
    *topology.ACTIONS,
    *clients.ACTIONS,
    *messages.ACTIONS,
    *accounts.ACTIONS,
    *policies.ACTIONS,
    *parameters.ACTIONS,
    *logins.ACTIONS,
    *node.ACTIONS,
    *memory.ACTIONS,
    *definitions.ACTIONS,
    *health.ACTIONS,
    *metrics.ACTIONS,
)

ACTIONS: Final[tuple[Action, ...]] = (*_ROWS, described(_ROWS))
