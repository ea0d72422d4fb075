"""A broker that answers HTTP."""

from __future__ import annotations

import pytest


@pytest.fixture
def settings() -> dict[str, object]:
    return {"http_listener": "on", "http_port": 0, "password_hash_cost": 10}
