"""A change of accounts on a running broker, step by step: the broker's actor takes the steps.

Check, commit to the catalog, change the shared accounts, then put the change into effect: routes
are looked up anew, and the connections of a user or vhost that has gone are closed with 320, in
RabbitMQ's words. A vhost goes with its queues, which nack what they owe.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from ...core.users.account_requests import prepare_request
from ...core.users.accounts import AccountChange, AccountError, AddVhost, RemoveUser, RemoveVhost
from ..messages import AccountAnswer, AccountRequest, Commit, Committed, Ref, Refused, Shutdown
from ..node_context import NodeContext
from ..runtime.runtime import tell
from .account_rows import account_rows


def account_steps(
    context: NodeContext, request: AccountRequest, broker: Ref
) -> Generator[tuple[Ref, object], Any, tuple[AccountAnswer, list[str]]]:
    """Yields what must be waited for; gives the answer, and the vhosts that are to be emptied."""
    try:
        changes = prepare_request(context.accounts, request.name, request.arguments)
    except AccountError as error:
        return AccountAnswer(request.token, str(error)), []
    if changes:
        committed = yield context.catalog, Commit(broker, account_rows(changes))
        if isinstance(committed, Refused):
            return AccountAnswer(request.token, committed.error.reply_text), []
        assert isinstance(committed, Committed), committed
        context.accounts.apply(changes)
        for topology in context.vhosts:
            topology.table.forget_routes()
        for change in changes:
            _follow(context, change)
    gone = [change.name for change in changes if isinstance(change, RemoveVhost)]
    return AccountAnswer(request.token), gone


def _follow(context: NodeContext, change: AccountChange) -> None:
    match change:
        case AddVhost(name):
            context.vhosts.add(name)
        case RemoveVhost(name):
            reason = f"vhost '{name}' is deleted"
            for reader, opened in context.open_connections.items():
                if opened.access.topology.vhost == name:
                    tell(reader, Shutdown(reason))
        case RemoveUser(name):
            reason = f"user '{name}' is deleted"
            for reader, opened in context.open_connections.items():
                if opened.access.user == name:
                    tell(reader, Shutdown(reason))
