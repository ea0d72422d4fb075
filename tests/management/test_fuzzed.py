"""The API asked what its own OpenAPI document allows, and what it does not, by Schemathesis.

Half of the cases have names of things that are there. Run by `make fuzz`. LEVERET_API_CASES=25: so
many per operation, and as many wrong ones, take a minute for each user. Most of it is the drawing
of cases: at the lowest priority beside busy processes a run takes many times as long.
"""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from typing import Any

import leveret
import pytest
from asking_http import asked, port
from hypothesis import HealthCheck, Phase, given
from hypothesis import seed as seeded
from hypothesis import settings as drawn
from insides import context_of
from table_calls import EVERYTHING, add_user, make_things, state
from timeouts import TIMEOUT_SECONDS
from wire import PERSISTENT, Client

schemathesis = pytest.importorskip(
    "schemathesis", reason="schemathesis is not installed: pip install 'leveret[management]'"
)
requests = pytest.importorskip("requests")
Mode = schemathesis.GenerationMode
pytestmark = pytest.mark.soak

CASES = int(os.environ.get("LEVERET_API_CASES", "10"))
NEITHER_SHRUNK_NOR_KEPT = [Phase.generate]


def asked_with(operation: Any, seed: int, ask: Callable[[Any, Any], None], mode: Any) -> None:
    """Ask with the cases that Schemathesis draws for the operation, right or wrong ones."""

    @seeded(seed)
    @drawn(
        max_examples=CASES,
        deadline=None,
        database=None,
        phases=NEITHER_SHRUNK_NOR_KEPT,
        suppress_health_check=list(HealthCheck),
    )
    @given(operation.as_strategy(mode))
    def each(case: Any) -> None:
        ask(operation, case)

    each()


def may_be_wrong(operation: Any) -> bool:
    """Whether it has more than names in its path, for which every text is right.

    For the others no draw of a wrong request succeeds, and hundreds would be tried.
    """
    return bool(operation.query or operation.headers or operation.body)


@pytest.fixture
def fuzz(broker: leveret.Broker, seed: int) -> Callable[[str, str], set[int]]:
    """Asks every operation as a user; gives the status codes that came."""
    document = asked(broker, "GET", "/api/openapi.json").content
    # Else most wrong requests would be wrong logins.
    del document["security"], document["components"]["securitySchemes"]
    schema = schemathesis.openapi.from_dict(document)
    address = f"http://127.0.0.1:{port(broker)}"
    operations = [each.ok() for each in schema.get_all_operations()]

    def run(user: str, password: str) -> set[int]:
        things = make_things(broker)
        found: set[int] = set()
        chosen = random.Random(seed)
        with requests.Session() as session:
            session.auth = (user, password)

            def ask(operation: Any, case: Any) -> None:
                if chosen.random() < 0.5:
                    case.path_parameters = things.names(operation.method.upper(), operation.path)
                answer = case.call(base_url=address, session=session, timeout=TIMEOUT_SECONDS)
                found.add(answer.status_code)
                is_check = operation.path.startswith("/api/health")
                is_known = answer.status_code == 503 and is_check
                shown = f"{case.as_curl_command()}: {answer.status_code} {answer.text[:500]}"
                assert answer.status_code < 500 or is_known, shown

            for operation in operations:
                asked_with(operation, seed, ask, Mode.POSITIVE)
                if may_be_wrong(operation):
                    asked_with(operation, seed, ask, Mode.NEGATIVE)
        return found

    return run


def test_no_request_of_an_administrator_is_a_fault_of_the_broker(
    broker: leveret.Broker, fuzz: Callable[[str, str], set[int]]
) -> None:
    """It may delete what others use; the broker goes on confirming."""
    found = fuzz("guest", "guest")
    assert {200, 201, 204, 400, 404} <= found
    assert context_of(broker).journal.is_alive()
    asked(broker, "PUT", "/api/permissions/%2F/guest", EVERYTHING)
    with Client(broker.host, broker.port) as client:
        client.log_in().open_channel(1, confirms=True)
        client.declare("still here", durable=True)
        client.publish_all("still here", b"x", properties=PERSISTENT)


@pytest.mark.parametrize("tag", ["", "management", "policymaker", "monitoring"])
def test_requests_without_permission_change_nothing(
    tag: str, broker: leveret.Broker, fuzz: Callable[[str, str], set[int]]
) -> None:
    """But for global parameters, which belong to no vhost: a policymaker may set them."""
    add_user(broker, "ann", *([tag] if tag else []))
    make_things(broker)
    before = state(broker)
    assert {200, 401} <= fuzz("ann", "hare")
    after = state(broker)
    if tag == "policymaker":
        before.pop("/api/global-parameters")
        after.pop("/api/global-parameters")
    assert after == before
