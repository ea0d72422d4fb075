"""Requests that were faults of ours once."""

from __future__ import annotations

from urllib.parse import quote

import leveret
from asking_http import asked


def test_users_to_delete_are_names(broker: leveret.Broker) -> None:
    for users in ([[]], [{}], [1], [None], "guest", None):
        answer = asked(broker, "POST", "/api/users/bulk-delete", {"users": users})
        assert answer.status == 400, users
    assert len(asked(broker, "GET", "/api/users").content) == 1


def test_names_may_have_braces(broker: leveret.Broker) -> None:
    for name in ("{tenant}", "a{", "}b", "{}", "{a:b}"):
        path = f"/api/queues/%2F/{quote(name, safe='')}"
        assert asked(broker, "PUT", path, {}).status == 201, name
        assert asked(broker, "GET", f"{path}?columns=name").content == {"name": name}
        assert asked(broker, "DELETE", path).status == 204, name
