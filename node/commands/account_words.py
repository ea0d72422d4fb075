"""Words for changes of accounts: the question before a dangerous change, the report after each.

Pure: the accounts before the change come in as the lists that a broker gives.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from ..core.users.accounts import ADMINISTRATOR, DEFAULT_VHOST

Arguments = Mapping[str, Any]
_PATTERNS = ("configure", "write", "read")


# Changes whose words depend on the accounts before them.
COMPARED = {"user tags", "user delete", "permissions set", "permissions clear"}


class Before(NamedTuple):
    """The accounts before a change: the rows of `user list` and of `permissions list`."""

    users: Sequence[Mapping[str, Any]] = ()
    permissions: Sequence[Mapping[str, Any]] = ()

    def tags(self, user: str) -> list[str]:
        """The user's tags; none if there is no such user."""
        return next((row["tags"] for row in self.users if row["user"] == user), [])

    def patterns(self, user: str, vhost: str) -> tuple[str, ...] | None:
        """The user's patterns in the vhost, in the order of a permission."""
        for row in self.permissions:
            if (row["user"], row["vhost"]) == (user, vhost):
                return tuple(row[name] for name in _PATTERNS)
        return None

    def is_last_administrator(self, user: str) -> bool:
        """Has this user, and no other, the tag administrator?"""
        return [row["user"] for row in self.users if ADMINISTRATOR in row["tags"]] == [user]


def warning(request: str, given: Arguments, before: Before) -> str:
    """Say why a person is asked before this change; empty if nobody need be."""
    if request == "vhost delete" and given["vhost"] == DEFAULT_VHOST:
        return (
            f"vhost '{DEFAULT_VHOST}' is the one of clients that name none, and all that is in it "
            "is deleted with it"
        )
    goes = request == "user delete" or (
        request == "user tags" and ADMINISTRATOR not in given["tags"]
    )
    if goes and before.is_last_administrator(given["user"]):
        return f"user '{given['user']}' is the last administrator"
    return ""


def done(request: str, given: Arguments, before: Before) -> str:
    """Report a change, with the values before it and after it."""
    match request:
        case "user tags":
            return _tags(given["user"], given["tags"], before.tags(given["user"]))
        case "permissions set":
            return _permissions(given, before.patterns(given["user"], given["vhost"]))
        case "permissions clear" if before.patterns(given["user"], given["vhost"]) is None:
            user, vhost = given["user"], given["vhost"]
            return f"user '{user}' had no permissions in vhost '{vhost}': nothing has changed"
    return DONE[request].format_map(given)


# Reports of the other changes; the names are those of their arguments.
DONE = {
    "user add": "user '{user}' is added",
    "user passwd": "user '{user}' has another password",
    "user delete": "user '{user}' is deleted",
    "vhost add": "vhost '{vhost}' is added; nobody has permissions there yet",
    "vhost delete": "vhost '{vhost}' is deleted, with all that was in it",
    "permissions clear": "user '{user}' may not use vhost '{vhost}' any more",
}


def _tags(user: str, tags: Sequence[str], before: Sequence[str]) -> str:
    now = list(dict.fromkeys(tags))
    if now == list(before):
        return f"user '{user}' had {_listed(now)} already: nothing has changed"
    return f"user '{user}' has {_listed(now)} now, and had {_listed(before)}"


def _listed(tags: Sequence[str]) -> str:
    if not tags:
        return "no tags"
    return f"the tag{'s' if len(tags) > 1 else ''} {', '.join(tags)}"


def _permissions(given: Arguments, before: tuple[str, ...] | None) -> str:
    user, vhost = given["user"], given["vhost"]
    now = tuple(given[name] for name in _PATTERNS)
    if now == before:
        return f"user '{user}' had these permissions in vhost '{vhost}': nothing has changed"
    was = "had no permissions there" if before is None else f"had {_patterns(before)}"
    return f"user '{user}' has in vhost '{vhost}' now {_patterns(now)}, and {was}"


def _patterns(patterns: Sequence[str]) -> str:
    pairs = zip(_PATTERNS, patterns, strict=True)
    return ", ".join(f"{name} '{pattern}'" for name, pattern in pairs)
