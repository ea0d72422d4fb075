"""Requests that were faults of ours once."""

from __future__ import annotations

import leveret
from asking_http import asked


def test_users_to_delete_are_names(broker: leveret.Broker) -> None:
    for users in ([[]], [{}], [1], [None], "guest", None):
        answer = asked(broker, "POST", "/api/users/bulk-delete", {"users": users})
        assert answer.status == 400, users
    assert len(asked(broker, "GET", "/api/users").content) == 1
