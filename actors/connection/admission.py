"""May one more connection of a user be opened in a vhost? AMQP's and NSQ's connections ask here."""

from __future__ import annotations

from ...amqp_frames.constants import NOT_ALLOWED
from ...amqp_frames.errors import HardError
from ...amqp_frames.methods import ConnectionOpen
from ...core.parameters.limits import user_limits, vhost_limits
from ..node_context import NodeContext


def check_admission(context: NodeContext, user: str, vhost: str, *, is_internal: bool) -> None:
    """HardError if limits or permissions forbid it: those of the node, the vhost and the user.

    A connection that serves a request within the process does not count for the node's limit.
    """
    limit = context.connections_max
    if limit and len(context.open_connections) >= limit and not is_internal:
        # In the words of RabbitMQ 4; 3.10 has no such limit.
        raise _refusal(f"connection refused: node connection limit ({limit}) is reached")
    # The limits come before permissions, as in RabbitMQ.
    _check_limits(context, user, vhost)
    context.accounts.check_open(user, vhost)


def _check_limits(context: NodeContext, user: str, vhost: str) -> None:
    accounts, entered = context.accounts, context.vhost_users
    limit = vhost_limits(accounts.parameters, vhost).connections_max
    if limit is not None and entered.connections_to(context.vhosts[vhost]) >= limit:
        raise _refusal(
            f"access to vhost '{vhost}' refused for user '{user}': "
            f"connection limit ({limit}) is reached"
        )
    known = accounts.users.get(user)
    if known is None:
        return
    limit = user_limits(known.limits).connections_max
    if limit is not None and entered.connections_of(user) >= limit:
        raise _refusal(
            f"connection refused for user '{user}': user connection limit ({limit}) is reached"
        )


def _refusal(text: str) -> HardError:
    return HardError(NOT_ALLOWED, text, ConnectionOpen.class_id, ConnectionOpen.method_id)
