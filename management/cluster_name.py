"""The name of the cluster, which the API and the metrics show.

It is RabbitMQ's global parameter of that name. AMQP clients do not see it: two brokers with one
name are no cluster, and clients that take them for one would read the queues of one alone.
"""

from __future__ import annotations

from typing import Final

from ..core.parameters.parameters import NODE_WIDE
from ..core.users.accounts import Accounts
from .about import About

CLUSTER_NAME: Final = "cluster_name"


def cluster_name(accounts: Accounts, about: About) -> str:
    """The name that an operator has set, or the node's."""
    parameter = accounts.parameters.find(NODE_WIDE, NODE_WIDE, CLUSTER_NAME)
    if parameter is None or not isinstance(parameter.value, str):
        return about.node_name
    return parameter.value
