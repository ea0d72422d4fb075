"""Policies, parameters, limits and topic permissions by HTTP; the answers are RabbitMQ 3.10's."""

from __future__ import annotations

from typing import Any

import leveret
import pytest
from asking_http import HARE, Answer, asked
from leveret.commands.control_client import ask_broker

MISSING = {"error": "Object Not Found", "reason": "Not Found"}
LENGTH = {"pattern": "^q", "definition": {"max-length": 5}}
EVERYTHING = dict.fromkeys(("configure", "write", "read"), ".*")
OBJECT, VHOST, ADMIN = (
    "User not authorised to access object",
    "User not authorised to access virtual host",
    "Not administrator user",
)


def call(broker: leveret.Broker, line: str, body: object = None, user: str = "guest") -> Answer:
    method, _, path = line.partition(" ")
    return asked(broker, method, path, body, user, "guest" if user == "guest" else "hare")


def status(broker: leveret.Broker, line: str, body: object = None, user: str = "guest") -> int:
    return call(broker, line, body, user).status


def add_user(broker: leveret.Broker, name: str, tag: str, vhost: str = "") -> None:
    arguments = {"user": name, "password_hash": HARE, "tags": [tag]}
    ask_broker(broker.configuration.data_dir, "user add", arguments)
    if vhost:
        given = {"user": name, "vhost": vhost, **EVERYTHING}
        ask_broker(broker.configuration.data_dir, "permissions set", given)


# --- Policies


@pytest.mark.parametrize("kind", ["policies", "operator-policies"])
def test_a_policy_is_set_changed_listed_and_cleared(kind: str, broker: leveret.Broker) -> None:
    path = f"/api/{kind}/%2F/p"
    assert call(broker, f"PUT {path}", LENGTH)[:2] == (201, None)
    row = {"vhost": "/", "name": "p", "priority": 0, "apply-to": "all", **LENGTH}
    assert call(broker, f"GET {path}").content == row
    # The names of the path count.
    changed = LENGTH | {"priority": 3, "apply-to": "queues", "vhost": "else", "name": "other"}
    assert call(broker, f"PUT {path}", changed)[:2] == (204, None)
    row |= {"priority": 3, "apply-to": "queues"}
    for listing in (f"/api/{kind}", f"/api/{kind}/%2F"):
        assert call(broker, f"GET {listing}").content == [row]
    columns = call(broker, f"GET /api/{kind}/%2F?columns=name,priority").content
    assert columns == [{"name": "p", "priority": 3}]
    assert call(broker, f"DELETE {path}")[:2] == (204, None)
    assert call(broker, f"GET /api/{kind}").content == []
    for method in ("GET", "DELETE"):
        assert call(broker, f"{method} {path}")[:2] == (404, MISSING)
        assert call(broker, f"{method} /api/{kind}/none/p")[:2] == (404, MISSING)
    assert call(broker, f"PUT /api/{kind}/none/p", LENGTH).content["reason"] == "vhost_not_found"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "not_json"),
        (b"[]", "not_json"),
        (b"", "[{key_missing,pattern},{key_missing,definition}]"),
        ({"pattern": "a"}, "[{key_missing,definition}]"),
        ({"pattern": "a", "definition": {}}, "Validation failed\n\nno policy provided\n"),
        (
            {"pattern": "a", "definition": {"max-length": -1}},
            "Validation failed\n\n-1 is not a valid maximum length\n",
        ),
        (
            {"pattern": "a", "definition": {"nope": 1}},
            'Validation failed\n\n[{&lt;&lt;"nope"&gt;&gt;,1}] '
            "are not recognised policy settings\n",
        ),
    ],
)
def test_what_is_no_policy_is_refused(body: object, reason: str, broker: leveret.Broker) -> None:
    answer = call(broker, "PUT /api/policies/%2F/p", body)
    assert answer[:2] == (400, {"error": "bad_request", "reason": reason})
    # Only of policies RabbitMQ writes the reasons as HTML has them.
    answer = call(broker, "PUT /api/operator-policies/%2F/p", body)
    plain = reason.replace("&lt;", "<").replace("&gt;", ">")
    assert answer[:2] == (400, {"error": "bad_request", "reason": plain})


@pytest.mark.parametrize(
    ("tag", "vhost", "listing", "setting"),
    [
        ("policymaker", "/", None, None),
        ("policymaker", "", VHOST, OBJECT),
        ("management", "/", None, OBJECT),
        ("monitoring", "", VHOST, OBJECT),
        ("administrator", "", None, None),
    ],
)
def test_policymakers_set_policies_of_vhosts_that_they_may_open(
    tag: str, vhost: str, listing: str | None, setting: str | None, broker: leveret.Broker
) -> None:
    add_user(broker, "ann", tag, vhost)

    def refusal(line: str, body: object = None) -> str | None:
        answer = call(broker, line, body, "ann")
        return answer.content["reason"] if answer.status == 401 else None

    assert status(broker, "PUT /api/policies/%2F/p", LENGTH) == 201
    assert refusal("GET /api/policies/%2F") == listing
    shown = [] if listing else ["p"]
    assert [
        each["name"] for each in call(broker, "GET /api/policies", None, "ann").content
    ] == shown
    for line in ("GET", "PUT", "DELETE"):
        assert refusal(f"{line} /api/policies/%2F/p", LENGTH) == setting
        theirs = None if tag == "administrator" else ADMIN
        assert refusal(f"{line} /api/operator-policies/%2F/p", LENGTH) == theirs


def test_rows_name_the_policies_that_apply(broker: leveret.Broker) -> None:
    call(broker, "PUT /api/queues/%2F/q", {"durable": True, "arguments": {"x-max-length": 9}})
    call(broker, "PUT /api/queues/%2F/r", {"durable": True})
    call(broker, "PUT /api/exchanges/%2F/qx", {"type": "fanout"})
    other = {"pattern": "^q", "definition": {"alternate-exchange": "x"}, "apply-to": "exchanges"}
    call(broker, "PUT /api/policies/%2F/x", other | {"priority": 2})
    definition = {"max-length": 5, "overflow": "reject-publish", "ha-mode": "all"}
    call(broker, "PUT /api/policies/%2F/p", LENGTH | {"definition": definition})
    operators = {"pattern": "^q", "definition": {"max-length": 3, "message-ttl": 60000}}
    call(broker, "PUT /api/operator-policies/%2F/op", operators)

    def rows(path: str) -> Any:
        names = "name,policy,operator_policy,effective_policy_definition"
        return call(broker, f"GET {path}?columns={names}").content

    merged = definition | operators["definition"]  # type: ignore[operator]
    row = {"name": "q", "policy": "p", "operator_policy": "op"}
    assert rows("/api/queues/%2F/q") == row | {"effective_policy_definition": merged}
    none = {"policy": None, "operator_policy": None, "effective_policy_definition": {}}
    assert rows("/api/queues")[1] == {"name": "r", **none}
    assert rows("/api/exchanges/%2F/qx") == {"name": "qx", "policy": "x"}
    assert rows("/api/exchanges/%2F/amq.direct") == {"name": "amq.direct"}
    # A policy that changes no argument is named all the same.
    call(broker, "DELETE /api/operator-policies/%2F/op")
    call(broker, "PUT /api/policies/%2F/p", LENGTH | {"definition": {"ha-mode": "all"}})
    assert rows("/api/queues/%2F/q")["effective_policy_definition"] == {"ha-mode": "all"}
    call(broker, "DELETE /api/policies/%2F/p")
    assert rows("/api/queues/%2F/q") == {"name": "q", **none}
    call(broker, "DELETE /api/policies/%2F/x")
    assert rows("/api/exchanges/%2F/qx") == {"name": "qx"}


# --- Parameters


def test_parameters_are_set_shown_and_cleared(broker: leveret.Broker) -> None:
    path = "/api/parameters/vhost-limits/%2F/limits"
    assert status(broker, f"PUT {path}", {"value": {"max-queues": 3}}) == 201
    row = {"component": "vhost-limits", "name": "limits", "vhost": "/", "value": {"max-queues": 3}}
    assert call(broker, f"GET {path}").content == row
    # Without policies, but with operator policies.
    call(broker, "PUT /api/policies/%2F/p", LENGTH)
    call(broker, "PUT /api/operator-policies/%2F/o", LENGTH)
    found = call(broker, "GET /api/parameters").content
    assert [each["component"] for each in found] == ["operator_policy", "vhost-limits"]
    value = {**LENGTH, "priority": 0, "apply-to": "all"}
    of_policy = {"component": "policy", "name": "p", "vhost": "/", "value": value}
    assert call(broker, "GET /api/parameters/policy").content == [of_policy]
    assert call(broker, "GET /api/parameters/policy/%2F/p").content == of_policy
    assert call(broker, "GET /api/parameters/nope/%2F").content == []
    assert status(broker, f"PUT {path}", {"value": []}) == 204
    assert call(broker, f"GET {path}").content["value"] == []
    assert status(broker, f"DELETE {path}") == 204
    assert call(broker, f"DELETE {path}")[:2] == (404, MISSING)
    # Who may set parameters, a policymaker, must not get at an administrator's policies.
    for component, name in (("policy", "p"), ("operator_policy", "o")):
        line = f"/api/parameters/{component}/%2F/{name}"
        reason = call(broker, f"PUT {line}", {"value": value}).content["reason"]
        assert reason == "policies may not be set using this method"
        reason = call(broker, f"DELETE {line}").content["reason"]
        assert reason == "policies may not be cleared using this method"


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"{", "not_json"),
        ({}, "[{key_missing,value}]"),
        ({"value": 5}, "Validation failed\n\nlimits not a list 5\n"),
        (
            {"value": {"max-queues": "x"}},
            "Validation failed\n\nmax-queues should be a number, actually was "
            '&lt;&lt;"x"&gt;&gt;\n',
        ),
    ],
)
def test_what_is_no_parameter_is_refused(body: object, reason: str, broker: leveret.Broker) -> None:
    answer = call(broker, "PUT /api/parameters/vhost-limits/%2F/limits", body)
    assert answer[:2] == (400, {"error": "bad_request", "reason": reason})


def test_global_parameters_are_of_the_node(broker: leveret.Broker) -> None:
    path = "/api/global-parameters/g"
    assert call(broker, f"PUT {path}", {}).content["reason"] == "[{key_missing,value}]"
    assert status(broker, f"PUT {path}", {"value": 5}) == 201
    value = {"a": [1, None, "x", True]}
    assert status(broker, f"PUT {path}", {"value": value, "name": "else"}) == 204
    assert call(broker, f"GET {path}").content == {"name": "g", "value": value}
    assert call(broker, "GET /api/global-parameters").content == [{"name": "g", "value": value}]
    assert call(broker, "GET /api/parameters").content == []
    assert status(broker, f"DELETE {path}") == 204
    for method in ("GET", "DELETE"):
        assert call(broker, f"{method} {path}")[:2] == (404, MISSING)


def test_policymakers_see_parameters_of_vhosts_that_they_may_open(broker: leveret.Broker) -> None:
    add_user(broker, "inside", "policymaker", "/")
    add_user(broker, "outside", "policymaker")
    add_user(broker, "manager", "management", "/")
    path = "/api/parameters/vhost-limits/%2F/limits"
    assert status(broker, f"PUT {path}", {"value": {"max-queues": 3}}, "inside") == 201
    for listing in ("/api/parameters", "/api/parameters/vhost-limits"):
        assert len(call(broker, f"GET {listing}", None, "inside").content) == 1
        assert call(broker, f"GET {listing}", None, "outside").content == []
        assert call(broker, f"GET {listing}", None, "manager").content["reason"] == OBJECT
    for line in (f"GET {path}", f"PUT {path}", f"DELETE {path}", "GET /api/parameters/policy/%2F"):
        answer = call(broker, line, {"value": {}}, "outside")
        assert (answer.status, answer.content["reason"]) == (401, OBJECT)
    assert status(broker, "PUT /api/global-parameters/g", {"value": 1}, "outside") == 201
    assert status(broker, "PUT /api/global-parameters/g", {"value": 1}, "manager") == 401


# --- Limits


@pytest.mark.parametrize(
    ("path", "of", "names", "failed"),
    [
        ("/api/vhost-limits/%2F", {"vhost": "/"}, ("max-queues", "max-connections"), "limits"),
        ("/api/user-limits/ann", {"user": "ann"}, ("max-channels", "max-connections"), "user"),
    ],
)
def test_limits_are_set_one_by_one(
    path: str, of: dict[str, str], names: tuple[str, str], failed: str, broker: leveret.Broker
) -> None:
    add_user(broker, "ann", "management", "/")
    first, second = names
    for value in (-1, 0, 5):
        assert status(broker, f"PUT {path}/{first}", {"value": value}) == 204
    assert status(broker, f"PUT {path}/{second}", {"value": 7}) == 204
    listing = path.rpartition("/")[0]
    both = {**of, "value": {first: 5, second: 7}}
    for line in (f"GET {path}", f"GET {listing}"):
        assert call(broker, line, None, "ann").content == [both]
    for body, reason in (
        ({}, "[{key_missing,value}]"),
        ({"value": 1.5}, f"{first} should be a number, actually was 1.5"),
        ({"value": None}, f"{first} should be a number, actually was null"),
        ({"value": "x"}, f'{first} should be a number, actually was <<"x">>'),
    ):
        answer = call(broker, f"PUT {path}/{first}", body)
        assert answer.status == 400
        assert reason in answer.content["reason"]
    unknown = call(broker, f"PUT {path}/nope", {"value": 1}).content["reason"]
    assert f'Unrecognised terms [{{<<"nope">>,1}}] in {failed}' in unknown
    assert status(broker, f"PUT {path}/{first}", {"value": 1}, "ann") == 401
    assert status(broker, f"DELETE {path}/nope") == 204
    assert status(broker, f"DELETE {path}/{first}") == 204
    assert call(broker, f"GET {path}").content == [{**of, "value": {second: 7}}]
    assert status(broker, f"DELETE {path}/{second}") == 204
    assert call(broker, f"GET {path}").content == []
    assert status(broker, f"GET {listing}/none") == 404
    assert status(broker, f"GET {path}/{first}") == 405


def test_a_limit_of_a_user_that_is_not_there(broker: leveret.Broker) -> None:
    answer = call(broker, "PUT /api/user-limits/ann/max-channels", {"value": 5})
    expected = {"error": "bad_request", "reason": ["no_such_user", "ann"]}
    assert answer[:2] == (400, expected)
    assert status(broker, "DELETE /api/user-limits/ann/max-channels") == 404


# --- Topic permissions


def test_topic_permissions_are_set_shown_and_cleared(broker: leveret.Broker) -> None:
    add_user(broker, "ann", "management")
    path = "/api/topic-permissions/%2F/ann"
    given = {"exchange": "amq.topic", "write": "^a", "read": ".*"}
    assert call(broker, f"GET {path}")[:2] == (404, MISSING)
    reason = "[{key_missing,exchange},{key_missing,write},{key_missing,read}]"
    assert call(broker, f"PUT {path}", {}).content["reason"] == reason
    assert status(broker, f"PUT {path}", given | {"write": "("}) == 400
    assert status(broker, f"PUT {path}", given) == 201
    assert status(broker, f"PUT {path}", given | {"exchange": "t", "user": "u"}) == 204
    row = {"user": "ann", "vhost": "/", **given}
    rows = [row, row | {"exchange": "t"}]
    for line in (
        "topic-permissions",
        "users/ann/topic-permissions",
        "vhosts/%2F/topic-permissions",
    ):
        assert call(broker, f"GET /api/{line}").content == rows
        assert call(broker, f"GET /api/{line}", None, "ann").content["reason"] == ADMIN
    assert call(broker, f"GET {path}").content == rows
    assert call(broker, "GET /api/users/guest/topic-permissions").content == []
    for line in ("users/none/topic-permissions", "topic-permissions/%2F/none"):
        assert call(broker, f"GET /api/{line}")[:2] == (404, MISSING)
    for missing in ("topic-permissions/none/ann", "topic-permissions/%2F/none"):
        answer = call(broker, f"PUT /api/{missing}", given)
        assert (answer.status, answer.content["reason"]) == (400, "vhost_or_user_not_found")
    assert status(broker, f"DELETE {path}") == 204
    assert status(broker, f"DELETE {path}") == 404


def test_topic_permissions_of_one_exchange_are_cleared_alone(broker: leveret.Broker) -> None:
    """As in RabbitMQ, the exchange in the path counts for this only."""
    add_user(broker, "ann", "management")
    path = "/api/topic-permissions/%2F/ann"
    assert call(broker, f"GET {path}/amq.topic")[:2] == (404, MISSING)
    row = {"user": "ann", "vhost": "/", "write": "a", "read": "b"}
    rows = [row | {"exchange": name} for name in ("amq.topic", "other", "third")]
    for each in rows:
        call(broker, f"PUT {path}/elsewhere", each)
    for shown in (path, f"{path}/amq.topic", f"{path}/none"):
        assert call(broker, f"GET {shown}").content == rows
    reason = "[{key_missing,exchange}]"
    answer = call(broker, f"PUT {path}/amq.topic", {"write": "a", "read": "b"})
    assert (answer.status, answer.content["reason"]) == (400, reason)
    assert status(broker, f"DELETE {path}/none") == 204
    assert status(broker, f"DELETE {path}/other") == 204
    assert call(broker, f"GET {path}").content == [rows[0], rows[2]]
    for missing in ("topic-permissions/none/ann/x", "topic-permissions/%2F/none/x"):
        assert call(broker, f"DELETE /api/{missing}")[:2] == (404, MISSING)
    for name in ("amq.topic", "third"):
        assert status(broker, f"DELETE {path}/{name}") == 204
    assert status(broker, f"DELETE {path}/third") == 404


# --- Vhosts


def test_a_vhost_has_metadata(broker: leveret.Broker) -> None:
    path = "/api/vhosts/shop"
    names = ("description", "tags", "default_queue_type", "tracing")

    def shown() -> list[Any]:
        row = call(broker, f"GET {path}").content
        assert row["metadata"] == {"description": row["description"], "tags": row["tags"]}
        return [row[name] for name in names]

    given = {"description": "first", "tags": "a, b", "tracing": "true"}
    assert status(broker, f"PUT {path}", given) == 201
    assert shown() == ["first", ["a", "b"], "undefined", True]
    # Description and tags are replaced, the others stay until they are named.
    assert status(broker, f"PUT {path}", {"default_queue_type": "quorum"}) == 204
    assert shown() == ["", [], "quorum", True]
    assert status(broker, f"PUT {path}", {"tags": ["c"], "tracing": False}) == 204
    assert shown() == ["", ["c"], "quorum", False]
    for wrong in ({"tracing": 5}, {"tags": 5}, {"description": 5}, {"default_queue_type": "x"}):
        assert status(broker, f"PUT {path}", wrong) == 400
    assert shown() == ["", ["c"], "quorum", False]
    assert call(broker, f"PUT {path}", {"tracing": 5}).content["reason"] == ["not_boolean", 5]
