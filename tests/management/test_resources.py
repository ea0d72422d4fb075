"""The API of a live broker: what clients of RabbitMQ's ask, and what they are answered."""

from __future__ import annotations

import hashlib
import threading
from base64 import b64encode
from collections.abc import Callable
from typing import Any

import leveret
import pytest
from asking_http import HARE, Answer, asked
from gated_files import GatedFiles
from insides import context_of, wait_until
from leveret.amqp_frames.methods import ConnectionClose
from leveret.commands.control_client import ask_broker
from timeouts import TIMEOUT_SECONDS
from wire import PERSISTENT, Client

MISSING = {"error": "Object Not Found", "reason": "Not Found"}
QUEUE, EXCHANGE = "/api/queues/%2F/q", "/api/exchanges/%2F/e"
BINDING = "/api/bindings/%2F/e/e/q/q"


def call(broker: leveret.Broker, line: str, body: object = None, user: str = "guest") -> Answer:
    method, _, path = line.partition(" ")
    password = "guest" if user == "guest" else "hare"
    return asked(broker, method, path, body, user, password)


def add_user(broker: leveret.Broker, name: str, *tags: str) -> None:
    arguments = {"user": name, "password_hash": HARE, "tags": list(tags)}
    ask_broker(broker.configuration.data_dir, "user add", arguments)


# --- Who may what


def test_only_who_may_open_a_vhost_sees_or_changes_it(broker: leveret.Broker) -> None:
    add_user(broker, "ann", "management")
    add_user(broker, "mona", "monitoring")
    refused = {"error": "not_authorised", "reason": "User not authorised to access virtual host"}
    assert call(broker, "PUT " + QUEUE, {}).status == 201
    for line in ("GET " + QUEUE, "PUT " + QUEUE, "GET /api/vhosts/%2F/connections"):
        assert call(broker, line, None, "ann")[:2] == (401, refused)
    assert call(broker, "GET /api/queues", None, "ann").content == []
    # A monitor sees that the vhost is there, and the connections to it.
    assert call(broker, "GET /api/queues", None, "mona").content == []
    assert len(call(broker, "GET /api/vhosts", None, "mona").content) == 1
    assert call(broker, "GET /api/consumers/%2F", None, "ann").content == []
    assert call(broker, "PUT " + QUEUE, {}, "mona")[:2] == (401, refused)
    # Tags let administrators in, AMQP's permissions do not.
    add_user(broker, "admin", "administrator")
    denied = {"error": "not_authorised", "reason": "Access refused."}
    assert call(broker, "PUT /api/queues/%2F/other", {}, "admin")[:2] == (401, denied)


def test_permissions_of_amqp_hold_for_the_api(broker: leveret.Broker) -> None:
    add_user(broker, "ann", "management")
    none = {"configure": "^ann", "write": "", "read": ""}
    assert call(broker, "PUT /api/permissions/%2F/ann", none).status == 201
    assert call(broker, "PUT /api/queues/%2F/ann.q", {}, "ann").status == 201
    answer = call(broker, "PUT " + QUEUE, {}, "ann")
    assert answer[:2] == (401, {"error": "not_authorised", "reason": "Access refused."})
    assert call(broker, "GET " + QUEUE).status == 404


# --- Topology


def test_queues_are_declared_shown_and_deleted(broker: leveret.Broker) -> None:
    given = {"durable": True, "arguments": {"x-max-length": 5}}
    assert call(broker, "PUT " + QUEUE, given).status == 201
    assert call(broker, "PUT " + QUEUE, given).status == 204
    other = call(broker, "PUT " + QUEUE, {"durable": False})
    assert other.status == 400
    assert other.content["reason"].startswith("inequivalent arg 'durable' for queue 'q'")
    row = call(broker, "GET " + QUEUE).content
    shown = ("name", "vhost", "durable", "arguments", "type", "state", "messages", "consumers")
    values = ["q", "/", True, {"x-max-length": 5}, "classic", "running", 0, 0]
    assert [row[name] for name in shown] == values
    assert call(broker, "DELETE " + QUEUE).status == 204
    assert call(broker, "DELETE " + QUEUE)[:2] == (404, MISSING)


@pytest.mark.parametrize(
    ("line", "body", "status", "reason"),
    [
        ("PUT " + QUEUE, b"{", 400, "not_json"),
        ("PUT " + QUEUE, [], 400, "not_json"),
        ("PUT " + QUEUE, {"durable": "maybe"}, 400, ["not_boolean", "maybe"]),
        ("PUT " + QUEUE, {"arguments": 3}, 400, "arguments must be an object"),
        ("PUT " + EXCHANGE, {"type": "nope"}, 400, "unknown exchange type 'nope'"),
        ("PUT /api/queues/%2F/amq.x", {}, 401, "Access refused."),
        ("DELETE /api/exchanges/%2F/amq.direct", None, 401, "Access refused."),
        ("PUT /api/queues/none/q", {}, 404, "vhost_not_found"),
        ("POST /api/bindings/%2F/e/amq.direct/q/q", {}, 404, "no queue 'q' in vhost '/'"),
        (f"PUT /api/queues/%2F/{'x' * 256}", {}, 400, None),
    ],
)
def test_what_cannot_be_declared_is_refused_in_rabbitmqs_words(
    line: str, body: object, status: int, reason: object, broker: leveret.Broker
) -> None:
    answer = call(broker, line, body)
    assert answer.status == status
    assert reason is None or answer.content["reason"] == reason


def test_bindings_have_names_in_paths(broker: leveret.Broker) -> None:
    call(broker, "PUT " + QUEUE, {})
    call(broker, "PUT " + EXCHANGE, {"type": "topic"})
    locations = []
    bodies = (
        {"routing_key": None},
        {"routing_key": "~"},
        {"routing_key": "a/ü b", "arguments": {"x": 1}},
    )
    for body in bodies:
        made = call(broker, "POST " + BINDING, body)
        assert made.status == 201
        locations.append(made.headers["location"])
    assert locations[:2] == ["q/~", "q/%257E"]
    rows = call(broker, f"GET {BINDING}").content
    assert [row["routing_key"] for row in rows] == ["", "a/ü b", "~"]
    assert rows == call(broker, f"GET {EXCHANGE}/bindings/source").content
    assert call(broker, "GET /api/bindings").content[1:] == rows
    for row, location in zip(rows, sorted(locations, key=len), strict=False):
        path = BINDING.removesuffix("q") + location
        if row["routing_key"] == "":
            assert call(broker, f"GET {path}").content == row
    for location in locations:
        path = BINDING.removesuffix("q") + location
        assert call(broker, f"DELETE {path}").status == 204
        assert call(broker, f"DELETE {path}")[:2] == (404, MISSING)
    assert call(broker, f"GET {BINDING}").content == []


@pytest.mark.parametrize(
    "path",
    [
        "bindings/%2F/e/none/q/q",
        "bindings/%2F/e/e/q/none",
        "bindings/%2F/e/amq.default/q/none",
        "bindings/%2F/e/none/e/e",
        "bindings/%2F/e/e/e/none",
        "queues/%2F/none/bindings",
        "exchanges/%2F/none/bindings/source",
        "exchanges/%2F/none/bindings/destination",
    ],
)
def test_what_is_not_there_has_no_bindings(path: str, broker: leveret.Broker) -> None:
    call(broker, "PUT " + QUEUE, {})
    call(broker, "PUT " + EXCHANGE, {})
    assert call(broker, f"GET /api/{path}")[:2] == (200, [])
    assert call(broker, f"GET /api/{path.replace('%2F', 'none')}").status == 404


def test_exchanges_are_bound_to_each_other(broker: leveret.Broker) -> None:
    call(broker, "PUT " + EXCHANGE, {})
    path = "/api/bindings/%2F/e/e/e/amq.fanout"
    assert call(broker, "POST " + path, {"routing_key": "k"}).status == 201
    [row] = call(broker, "GET /api/exchanges/%2F/amq.fanout/bindings/destination").content
    assert (row["source"], row["destination_type"]) == ("e", "exchange")
    assert call(broker, f"DELETE {EXCHANGE}?if-unused=true").status == 400
    assert call(broker, f"DELETE {path}/k").status == 204
    assert call(broker, f"DELETE {EXCHANGE}?if-unused=true").status == 204


# --- Messages


def published(payload: str = "hi", **more: Any) -> dict[str, Any]:
    return {
        "routing_key": "q",
        "payload": payload,
        "payload_encoding": "string",
        "properties": {"delivery_mode": 2},
        **more,
    }


PUBLISH = "POST /api/exchanges/%2F/amq.default/publish"
GET = f"POST {QUEUE}/get"


def test_messages_are_published_fetched_and_purged(broker: leveret.Broker) -> None:
    call(broker, "PUT " + QUEUE, {"durable": True})
    assert call(broker, PUBLISH, published("häy")).content == {"routed": True}
    assert call(broker, PUBLISH, published(routing_key="none")).content == {"routed": False}
    octets = b64encode(b"\xff\x00").decode()
    assert call(broker, PUBLISH, published(octets, payload_encoding="base64")).status == 200
    get = {"count": 5, "ackmode": "ack_requeue_true", "encoding": "auto"}
    rows = call(broker, GET, get).content
    assert [(row["payload"], row["payload_encoding"]) for row in rows] == [
        ("häy", "string"),
        (octets, "base64"),
    ]
    assert [(row["message_count"], row["redelivered"]) for row in rows] == [(1, False), (0, False)]
    assert rows[0]["properties"] == {"delivery_mode": 2}
    again = call(broker, GET, {**get, "count": 1, "truncate": 1, "encoding": "base64"}).content
    assert again[0]["payload"] == b64encode("häy".encode()[:1]).decode()
    assert again[0]["redelivered"] is True
    assert again[0]["payload_bytes"] == 4
    kept = call(broker, GET, {**get, "count": 1, "ackmode": "ack_requeue_false"})
    assert len(kept.content) == 1
    assert call(broker, "GET " + QUEUE).content["messages"] == 1
    assert call(broker, f"DELETE {QUEUE}?if-empty=true").status == 400
    assert call(broker, f"DELETE {QUEUE}/contents").status == 204
    assert call(broker, GET, get).content == []


class TestBytesOfAGet:
    @pytest.fixture
    def settings(self, settings: dict[str, object]) -> dict[str, object]:
        return settings | {"http_get_bytes_max": 2_000}

    @pytest.mark.parametrize(
        ("size", "properties", "truncate", "count"),
        [
            # The message by which the bytes are reached is the last one.
            (1_500, {}, None, 2),
            (5_000, {}, None, 1),
            (100, {}, None, 10),
            # A part of a payload counts as long as it is.
            (5_000, {}, 10, 10),
            # Properties count, too.
            (1, {"headers": {"h": "x" * 1_500}}, None, 2),
        ],
    )
    def test_a_get_ends_with_the_message_that_reaches_the_bytes(
        self,
        size: int,
        properties: dict[str, object],
        truncate: int | None,
        count: int,
        broker: leveret.Broker,
    ) -> None:
        call(broker, "PUT " + QUEUE, {"durable": True})
        for _ in range(10):
            call(broker, PUBLISH, published("x" * size, properties=properties))
        get = {"count": 20, "ackmode": "ack_requeue_false", "encoding": "auto"}
        if truncate is not None:
            get["truncate"] = truncate
        assert len(call(broker, GET, get).content) == count
        # The others are still there, and are not marked as delivered.
        rest = call(broker, GET, {**get, "count": 1}).content
        assert [row["redelivered"] for row in rest] == [False] * (count < 10)
        left = max(10 - count - 1, 0)
        assert call(broker, "GET " + QUEUE).content["messages"] == left


def test_a_publish_is_answered_when_it_is_on_the_disk(
    broker: leveret.Broker, files: GatedFiles
) -> None:
    """Fsync before confirm, and confirm before the answer."""
    call(broker, "PUT " + QUEUE, {"durable": True})
    files.hold()
    answers: list[Answer] = []
    publishing = threading.Thread(
        target=lambda: answers.append(call(broker, PUBLISH, published())), daemon=True
    )
    publishing.start()
    files.wait_until_syncing()
    assert call(broker, "GET /api/whoami").status == 200
    assert not answers
    files.release()
    publishing.join(TIMEOUT_SECONDS)
    assert [answer.content for answer in answers] == [{"routed": True}]


@pytest.mark.parametrize(
    ("line", "body", "reason"),
    [
        (
            PUBLISH,
            {},
            "[{key_missing,routing_key},{key_missing,payload},"
            "{key_missing,payload_encoding},{key_missing,properties}]",
        ),
        (PUBLISH, published(payload_encoding="foo"), ["unsupported_encoding", "foo"]),
        (PUBLISH, published("!", payload_encoding="base64"), "payload is no base64"),
        (PUBLISH, published(properties={"delivery_mode": "x"}), ["not_int", "delivery_mode"]),
        (
            "POST /api/exchanges/%2F/none/publish",
            published(),
            "404 NOT_FOUND - no exchange 'none' in vhost '/'",
        ),
        (GET, {"count": 1, "encoding": "auto"}, "[{key_missing,ackmode}]"),
        (
            GET,
            {"count": 1, "encoding": "foo", "ackmode": "ack_requeue_true"},
            "Unsupported encoding. Please use auto or base64.",
        ),
    ],
)
def test_what_cannot_be_published_or_fetched_is_refused(
    line: str, body: object, reason: object, broker: leveret.Broker
) -> None:
    answer = call(broker, line, body)
    expected = {"error": "bad_request", "reason": reason}
    assert (answer.status, answer.content) == (400, expected)


# --- Clients


def test_connections_channels_and_consumers_are_shown_and_closed(
    broker: leveret.Broker, client: Client
) -> None:
    client.declare("q")
    [row] = call(broker, "GET /api/connections").content
    assert (row["user"], row["vhost"], row["state"]) == ("guest", "/", "running")
    name = row["name"].replace(" ", "%20").replace(">", "%3E")
    [channel] = call(broker, f"GET /api/connections/{name}/channels").content
    assert channel == call(broker, "GET /api/channels").content[0]
    shown = call(broker, f"GET /api/channels/{name}%20(1)").content
    assert shown["consumer_details"] == []
    assert call(broker, "GET /api/consumers").content == []
    path = f"/api/connections/{name}"
    add_user(broker, "ann", "management")
    assert call(broker, f"DELETE {path}", None, "ann").status == 401
    assert call(broker, f"DELETE {path}").status == 204
    close = client.expect_type(0, ConnectionClose)
    assert (close.reply_code, close.reply_text) == (
        320,
        "CONNECTION_FORCED - Closed via management plugin",
    )


def test_all_connections_of_a_user_are_shown_and_closed(
    broker: leveret.Broker, connect: Callable[..., Client]
) -> None:
    """RabbitMQ shows and closes them for monitors and administrators; others get a fault of it."""
    clients = [connect(), connect()]
    path = "/api/connections/username/guest"
    rows = call(broker, f"GET {path}").content
    all_rows = call(broker, "GET /api/connections").content
    names = ("name", "vhost", "user", "node")
    assert rows == [{name: row[name] for name in names} for row in all_rows]
    assert len(rows) == 2
    for tag in ("management", "monitoring"):
        add_user(broker, tag, tag)
    assert call(broker, f"GET {path}", None, "monitoring").content == rows
    assert call(broker, f"GET {path}", None, "management").status == 401
    for user in ("management", "monitoring"):
        assert call(broker, f"DELETE {path}", None, user).status == 401
        own = f"/api/connections/username/{user}"
        assert call(broker, f"GET {own}", None, user).content == []
        assert call(broker, f"DELETE {own}", None, user).status == 204
    assert call(broker, "GET /api/connections/username/none").content == []
    assert call(broker, "DELETE /api/connections/username/none").status == 204
    answer = asked(broker, "DELETE", path, headers={"x-reason": "tidying up"})
    assert answer.status == 204
    for client in clients:
        close = client.expect_type(0, ConnectionClose)
        assert (close.reply_code, close.reply_text) == (320, "CONNECTION_FORCED - tidying up")


# --- Accounts


def test_vhosts_users_and_permissions_are_changed(broker: leveret.Broker) -> None:
    assert call(broker, "PUT /api/vhosts/shop").status == 201
    assert call(broker, "PUT /api/vhosts/shop", {"description": "d"}).status == 204
    row = call(broker, "GET /api/vhosts/shop").content
    assert (row["name"], row["description"], row["messages"]) == ("shop", "d", 0)
    assert call(broker, "PUT /api/users/ann", {"password": "hare"}).status == 400
    user = {"password": "hare", "tags": "management,monitoring"}
    assert call(broker, "PUT /api/users/ann", user).status == 201
    assert call(broker, "GET /api/users/ann").content["tags"] == ["management", "monitoring"]
    [without] = call(broker, "GET /api/users/without-permissions").content
    assert without["name"] == "ann"
    permission = {"configure": "a", "write": "b", "read": "c"}
    path = "/api/permissions/shop/ann"
    assert call(broker, f"PUT {path}", permission).status == 201
    assert call(broker, f"PUT {path}", permission).status == 204
    expected = {"user": "ann", "vhost": "shop", **permission}
    assert call(broker, f"GET {path}").content == expected
    assert call(broker, "GET /api/users/ann/permissions").content == [expected]
    assert expected in call(broker, "GET /api/vhosts/shop/permissions").content
    assert call(broker, "GET /api/whoami", None, "ann").content["name"] == "ann"
    for tags in ("my own, monitoring,,", ["my own", " monitoring ", ""]):
        assert call(broker, "PUT /api/users/ann", {"tags": tags}).status == 204
        assert call(broker, "GET /api/users/ann").content["tags"] == ["my own", "monitoring"]
    assert call(broker, "PUT /api/users/ann", {"tags": ""}).status == 204
    assert call(broker, "GET /api/whoami", None, "ann").status == 401
    assert call(broker, f"DELETE {path}").status == 204
    assert call(broker, f"DELETE {path}")[:2] == (404, MISSING)
    assert call(broker, "DELETE /api/users/ann").status == 204
    assert call(broker, "DELETE /api/vhosts/shop").status == 204
    assert call(broker, "DELETE /api/vhosts/shop")[:2] == (404, MISSING)


def test_no_hash_of_a_password_that_leveret_hashed_is_shown(broker: leveret.Broker) -> None:
    assert "hash" not in str(call(broker, "GET /api/users").content)


@pytest.mark.parametrize("algorithm", ["sha256", "sha512", "md5"])
def test_a_user_logs_in_with_the_hash_of_rabbitmqs_that_it_was_given(
    broker: leveret.Broker, algorithm: str
) -> None:
    digest = hashlib.new(algorithm, b"saltsecret").digest()
    given = {
        "tags": "management",
        "password_hash": b64encode(b"salt" + digest).decode(),
        "hashing_algorithm": f"rabbit_password_hashing_{algorithm}",
    }
    if algorithm == "sha256":
        del given["hashing_algorithm"]
    assert call(broker, "PUT /api/users/bea", given).status == 201
    assert asked(broker, "GET", "/api/whoami", None, "bea", "secret").status == 200
    shown = call(broker, "GET /api/users/bea").content
    assert shown["password_hash"] == given["password_hash"]
    assert shown["hashing_algorithm"] == f"rabbit_password_hashing_{algorithm}"
    # What it answers may be sent back.
    assert call(broker, "PUT /api/users/bea", shown).status == 204
    assert asked(broker, "GET", "/api/whoami", None, "bea", "secret").status == 200
    refused = call(broker, "PUT /api/users/bea", {"tags": "", "password_hash": "bad"})
    assert refused[:2] == (400, {"error": "bad_request", "reason": "not a password hash"})


# --- The node


def test_the_overview_counts(broker: leveret.Broker, client: Client) -> None:
    client.declare("q", durable=True)
    client.publish_all("q", b"1", b"2", properties=PERSISTENT)
    found = call(broker, "GET /api/overview?columns=queue_totals.messages,object_totals").content
    assert found["queue_totals"] == {"messages": 2}
    assert found["object_totals"]["queues"] == 1
    assert found["object_totals"]["connections"] == 1
    types = call(broker, "GET /api/overview").content["exchange_types"]
    assert {"topic", "x-delayed-message", "x-random"} < {each["name"] for each in types}
    [node] = call(broker, "GET /api/nodes").content
    assert node["running"] is True
    assert call(broker, f"GET /api/nodes/{node['name']}").content["name"] == node["name"]
    assert call(broker, "GET /api/nodes/other")[:2] == (404, MISSING)


@pytest.mark.parametrize(
    "check",
    [
        "alarms",
        "local-alarms",
        "protocol-listener/amqp",
        "protocol-listener/http",
        "virtual-hosts",
        "certificate-expiration/1/weeks",
        "node-is-mirror-sync-critical",
        "node-is-quorum-critical",
    ],
)
def test_a_well_node_passes_the_check(check: str, broker: leveret.Broker) -> None:
    answer = call(broker, f"GET /api/health/checks/{check}")
    assert (answer.status, answer.content["status"]) == (200, "ok")


def test_checks_fail_with_503_and_the_reason(broker: leveret.Broker) -> None:
    checks = "GET /api/health/checks/"
    assert call(broker, f"{checks}port-listener/{broker.port}").status == 200
    assert call(broker, f"{checks}port-listener/1").content["reason"] == "No active listener"
    assert call(broker, f"{checks}port-listener/x").status == 400
    assert call(broker, f"{checks}protocol-listener/mqtt").status == 503
    assert call(broker, f"{checks}certificate-expiration/1/eons").status == 400
    assert call(broker, "GET /api/aliveness-test/%2F").content == {"status": "ok"}
    context_of(broker).alarms.reason = "low on disk"
    for check in ("alarms", "local-alarms"):
        answer = call(broker, checks + check)
        assert (answer.status, answer.content["status"]) == (503, "failed")
    context_of(broker).alarms.reason = ""


# --- Lists


def test_lists_are_paged_sorted_and_cut_to_columns(broker: leveret.Broker) -> None:
    for number in range(5):
        call(broker, f"PUT /api/queues/%2F/q{number}", {"durable": number == 2})
    path = "GET /api/queues?columns=name"
    names = [row["name"] for row in call(broker, f"{path}&sort=name&sort_reverse=true").content]
    assert names == ["q4", "q3", "q2", "q1", "q0"]
    assert call(broker, f"{path}&sort=durable").content[-1] == {"name": "q2"}
    page = call(broker, f"{path}&page=2&page_size=2").content
    assert page == {
        "filtered_count": 5,
        "item_count": 2,
        "items": [{"name": "q2"}, {"name": "q3"}],
        "page": 2,
        "page_count": 3,
        "page_size": 2,
        "total_count": 5,
    }
    found = call(broker, f"{path}&page=1&name=%5Eq[12]&use_regex=true").content
    assert [row["name"] for row in found["items"]] == ["q1", "q2"]


@pytest.mark.parametrize(
    ("query", "error"),
    [
        ("page=0", "invalid_pagination_parameters"),
        ("page=1&page_size=501", "invalid_pagination_parameters"),
        ("page=1&page_size=0", "invalid_pagination_parameters"),
        ("page=2", "page_out_of_range"),
        ("page=x", "bad_request"),
        ("page=1&name=(&use_regex=true", "bad_request"),
        # Its states would cost the event loop milliseconds for each name.
        (f"page=1&name={'((x%3F){30}){30}' * 8}&use_regex=true", "bad_request"),
    ],
)
def test_a_page_that_cannot_be_is_refused(query: str, error: str, broker: leveret.Broker) -> None:
    answer = call(broker, f"GET /api/queues?{query}")
    assert (answer.status, answer.content["error"]) == (400, error)


@pytest.mark.parametrize(
    "query",
    [
        "",
        "?sort=messages&sort_reverse=true",
        "?columns=name,messages",
        "?columns=name,messages&sort=name&sort_reverse=true",
        "?page=2&page_size=3",
        "?page=1&name=1&sort=messages",
        "?page=1&name=%5Eq[1-3]&use_regex=true",
    ],
)
@pytest.mark.parametrize("kind", ["queues", "exchanges", "bindings"])
def test_a_long_list_is_as_a_short_one(
    kind: str, query: str, broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in (3, 1, 2, 10):
        call(broker, f"PUT /api/queues/%2F/q{number}", {})
        call(broker, f"PUT /api/exchanges/%2F/e{number}", {"type": "topic"})
        path = f"POST /api/bindings/%2F/e/e{number % 3 + 1}/q/q{number}"
        call(broker, path, {"routing_key": str(-number)})
    sent = {"properties": {}, "routing_key": "q10", "payload": "x", "payload_encoding": "string"}
    call(broker, "POST /api/exchanges/%2F/amq.default/publish", sent)

    def listed(rows_min: int) -> Answer:
        monkeypatch.setattr("leveret.management.listing.SNAPSHOT_ROWS_MIN", rows_min)
        answer = call(broker, f"GET /api/{kind}{query}")
        # It may be a second later.
        del answer.headers["date"]
        return answer

    # A sample of the rates may come between the two.
    wait_until(lambda: listed(10_000) == listed(0))
    assert listed(0).status == 200


class TestEachListAnew:
    @pytest.fixture
    def settings(self, settings: dict[str, object]) -> dict[str, object]:
        return settings | {"list_age_ms": 0}

    def test_a_long_list_shows_what_has_changed(
        self, broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Each change is one that the state of a row must have."""
        monkeypatch.setattr("leveret.management.listing.SNAPSHOT_ROWS_MIN", 0)
        monkeypatch.setattr("leveret.management.resources.topology.SNAPSHOT_ROWS_MIN", 0)
        sent = {"properties": {}, "routing_key": "q", "payload": "x", "payload_encoding": "string"}
        got = {"count": 1, "ackmode": "ack_requeue_false", "encoding": "auto"}
        policy = {"pattern": "", "definition": {"max-length": 5}, "apply-to": "all"}
        changes: list[tuple[str, object]] = [
            (f"PUT {QUEUE}", {"durable": True}),
            ("POST /api/exchanges/%2F/amq.default/publish", sent),
            ("PUT /api/queues/%2F/q/pause", None),
            ("PUT /api/queues/%2F/q/resume", None),
            ("PUT /api/policies/%2F/p", policy),
            ("DELETE /api/policies/%2F/p", None),
            (f"POST {QUEUE}/get", got),
            (f"DELETE {QUEUE}", None),
            (f"PUT {QUEUE}", {"arguments": {"x-max-length": 3}}),
        ]
        before: object = None
        for line, body in changes:
            assert call(broker, line, body).status < 300, line
            queues = call(broker, "GET /api/queues").content
            totals = call(broker, "GET /api/overview").content["queue_totals"]
            for row in queues:
                one = call(broker, f"GET {QUEUE}").content
                assert row == {name: one[name] for name in row}, line
                assert totals["messages"] == row["messages"]
            assert queues != before, line
            before = queues


class TestOldLists:
    @pytest.fixture
    def settings(self, settings: dict[str, object]) -> dict[str, object]:
        return settings | {"list_age_ms": 3_600_000}

    def test_a_long_list_is_as_old_as_the_setting_allows_and_a_page_is_not(
        self, broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr("leveret.management.listing.SNAPSHOT_ROWS_MIN", 0)
        monkeypatch.setattr("leveret.management.snapshots.UNUSED_SECONDS_MAX", 3600.0)
        call(broker, f"PUT {QUEUE}", {"durable": True})
        before = call(broker, "GET /api/queues").content
        sent = {"properties": {}, "routing_key": "q", "payload": "x", "payload_encoding": "string"}
        assert call(broker, "POST /api/exchanges/%2F/amq.default/publish", sent).status == 200
        assert call(broker, "GET /api/queues").content == before
        page = call(broker, "GET /api/queues?page=1").content["items"]
        assert [before[0]["messages"], page[0]["messages"]] == [0, 1]
