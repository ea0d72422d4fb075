"""How many connections, queues and channels a vhost or a user may have.

A limit is a whole number; a negative one limits nothing, and 0 forbids all, as in RabbitMQ. A
vhost's limits are the parameter "limits" of the component "vhost-limits"; a user's are its own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, NamedTuple

from ..erlang_terms import json_term
from .parameters import VHOST_LIMITS, Json, Parameters

# The one name that RabbitMQ looks up in the component.
LIMITS: Final = "limits"
MAX_CONNECTIONS: Final = "max-connections"
MAX_QUEUES: Final = "max-queues"
MAX_CHANNELS: Final = "max-channels"
_OF_VHOSTS: Final = (MAX_CONNECTIONS, MAX_QUEUES)
_OF_USERS: Final = (MAX_CONNECTIONS, MAX_CHANNELS)


class LimitsError(Exception):
    """These are no limits; says why in RabbitMQ's words."""


class VhostLimits(NamedTuple):
    """Of one vhost; None: no limit."""

    connections_max: int | None = None
    queues_max: int | None = None


class UserLimits(NamedTuple):
    """Of one user, on the node as a whole; None: no limit."""

    connections_max: int | None = None
    channels_max: int | None = None


def check_vhost_limits(value: Json) -> dict[str, int]:
    """The limits in a value that somebody sets, or LimitsError."""
    return _checked(value, _OF_VHOSTS, "limits")


def check_user_limits(value: Json) -> dict[str, int]:
    """The limits in a value that somebody sets, or LimitsError."""
    return _checked(value, _OF_USERS, "user-limits")


def vhost_limits(parameters: Parameters, vhost: str) -> VhostLimits:
    """Those that hold in the vhost."""
    parameter = parameters.find(VHOST_LIMITS, vhost, LIMITS)
    value = parameter.value if parameter is not None else None
    if not isinstance(value, Mapping):
        return VhostLimits()
    return VhostLimits(*(_limit(value.get(name)) for name in _OF_VHOSTS))


def user_limits(limits: Mapping[str, int]) -> UserLimits:
    """Those of a user that has these."""
    return UserLimits(*(_limit(limits.get(name)) for name in _OF_USERS))


def _limit(value: Json) -> int | None:
    return value if isinstance(value, int) and value >= 0 else None


def _checked(value: Json, names: tuple[str, ...], where: str) -> dict[str, int]:
    if not isinstance(value, Mapping):
        if value == []:
            # Erlang's empty object.
            return {}
        raise LimitsError(f"{where} not a list {json_term(value)}")
    limits: dict[str, int] = {}
    unknown = [f"{{{json_term(name)},{json_term(value[name])}}}" for name in value.keys() - names]
    if unknown:
        raise LimitsError(f"Unrecognised terms [{','.join(sorted(unknown))}] in {where}")
    for name, limit in value.items():
        if isinstance(limit, bool) or not isinstance(limit, int | float) or not _is_whole(limit):
            raise LimitsError(f"{name} should be a number, actually was {json_term(limit)}")
        limits[name] = int(limit)
    return limits


def _is_whole(number: float) -> bool:
    return math.isfinite(number) and number == int(number)
