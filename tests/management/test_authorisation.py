"""Every row of the table with every tag, with and without access to the vhost."""

from __future__ import annotations

from collections.abc import Callable

import leveret
import pytest
from asking_http import asked
from insides import wait_until
from leveret.amqp_frames.methods import ConnectionClose, ConnectionCloseOk
from leveret.management.request import TAGS, Action, Tag, VhostRule
from leveret.management.resources.table import ACTIONS
from table_calls import BODIES, add_user, call, make_things, state
from wire import Client

USERS = ("", "management", "policymaker", "monitoring", "administrator")
# No access to the vhost, and access to it with permission to do nothing there.
ACCESSES = ("no vhost", "no permission")
NOTHING = {"configure": "", "write": "", "read": ""}
CHANGES = tuple(action for action in ACTIONS if action.method != "GET")
# Which of RabbitMQ's tags include which, and what is said of a user that has none that is enough.
INCLUDES = {
    Tag.MANAGEMENT: USERS[1:],
    Tag.POLICYMAKER: ("policymaker", "administrator"),
    Tag.MONITORING: ("monitoring", "administrator"),
    Tag.ADMINISTRATOR: ("administrator",),
}
ROWS = {f"{action.method} {action.path}" for action in ACTIONS}
# What is there to be deleted.
DELETES = {
    "DELETE /api/queues/{vhost}/{queue}",
    "DELETE /api/queues/{vhost}/{queue}/contents",
    "DELETE /api/exchanges/{vhost}/{exchange}",
    "DELETE /api/bindings/{vhost}/e/{exchange}/q/{destination}/{properties_key}",
    "DELETE /api/bindings/{vhost}/e/{exchange}/e/{destination}/{properties_key}",
    "DELETE /api/vhosts/{vhost}",
    "DELETE /api/users/{user}",
    "DELETE /api/permissions/{vhost}/{user}",
    "DELETE /api/connections/{connection}",
    "DELETE /api/connections/username/{username}",
    "DELETE /api/topic-permissions/{vhost}/{user}",
    "DELETE /api/topic-permissions/{vhost}/{user}/{exchange}",
}
# It has a meaning in clusters only.
CHANGE_NOTHING = ("/api/queues/{vhost}/{queue}/actions",)


@pytest.fixture
def as_user(broker: leveret.Broker) -> Callable[[str, str], str]:
    def made(tag: str, access: str) -> str:
        add_user(broker, "ann", *([tag] if tag else []))
        if access == "no permission":
            asked(broker, "PUT", "/api/permissions/%2F/ann", NOTHING)
        return "ann"

    return made


@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("tag", USERS)
def test_every_row_asks_for_its_tag_and_for_access_to_its_vhost(
    tag: str, access: str, broker: leveret.Broker, as_user: Callable[[str, str], str]
) -> None:
    user, things = as_user(tag, access), make_things(broker)
    for action in ACTIONS:
        is_administration = action.tag is Tag.ADMINISTRATOR and action.method != "GET"
        if is_administration and tag == "administrator":
            continue
        if action.tag is Tag.NONE_FOR_METRICS:
            # Open to this machine; test_metrics.py has the settings that say otherwise.
            assert call(broker, action, things, None).status == 200, action.path
            continue
        answer = call(broker, action, things, user)
        shown = f"{action.method} {action.path}: {answer.status} {answer.content}"
        assert answer.status < 500 or answer.content["status"] == "failed", shown
        assert call(broker, action, things, None).status == (
            200 if action.tag in (Tag.NONE, Tag.NONE_FOR_HEALTH) else 401
        )
        if action.tag not in TAGS:
            assert answer.status == 200, shown
        elif not tag:
            assert answer.status == 401, shown
            assert answer.content["reason"] == "Not management user", shown
        elif tag not in INCLUDES[action.tag]:
            assert answer.status == 401, shown
        elif "{vhost}" in action.path and action.vhost is VhostRule.VISIBLE:
            reason = answer.content["reason"] if answer.status == 401 else ""
            is_refused = "not authorised to access" in reason
            expected = access == "no vhost" and tag != "administrator"
            assert is_refused is expected, shown
        elif action.tag in (Tag.MONITORING, Tag.ADMINISTRATOR):
            assert answer.status != 401, shown


@pytest.mark.parametrize("access", ACCESSES)
@pytest.mark.parametrize("tag", USERS[:-1])
def test_without_permission_no_row_changes_anything(
    tag: str,
    access: str,
    broker: leveret.Broker,
    client: Client,
    as_user: Callable[[str, str], str],
) -> None:
    """A policymaker with access may set policies, and nothing else."""
    user, things = as_user(tag, access), make_things(broker)
    before = state(broker)
    for action in CHANGES:
        may = tag == "policymaker" and access != "no vhost" and is_for_policymakers(action)
        if not may:
            call(broker, action, things, user)
    assert state(broker) == before


def is_for_policymakers(action: Action) -> bool:
    return action.tag is Tag.POLICYMAKER


def test_the_same_calls_change_something_where_they_are_allowed(
    broker: leveret.Broker, connect: Callable[..., Client]
) -> None:
    """Else the test above would not say anything."""
    changed = set()
    things, before = make_things(broker), state(broker)
    for action in CHANGES:
        client = None
        if "connection" in action.path:
            client = connect()
            things, before = make_things(broker), state(broker)
        answer = call(broker, action, things, "guest")
        row = f"{action.method} {action.path}"
        assert answer.status < 500, (row, answer.content)
        if row in BODIES:
            assert answer.status in (200, 201, 204), (row, answer.content)
        if client is not None:
            client.expect_type(0, ConnectionClose)
            client.send_methods(0, ConnectionCloseOk())
            wait_until(lambda: not asked(broker, "GET", "/api/connections").content)
        if state(broker) != before:
            changed.add(row)
            things = make_things(broker)
            before = state(broker)
    expected = {row for row in BODIES if row in ROWS} | DELETES
    unchanged = {row for row in expected if row.partition(" ")[2].startswith(CHANGE_NOTHING)}
    assert changed >= expected - unchanged
