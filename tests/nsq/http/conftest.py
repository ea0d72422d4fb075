"""A broker that listens for NSQ and for its HTTP calls."""

from __future__ import annotations

import pytest


@pytest.fixture
def settings() -> dict[str, object]:
    return {"nsq_port": 0, "nsq_http_port": 0}
