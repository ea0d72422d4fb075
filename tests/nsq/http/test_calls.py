"""Every call's answers, by nsqd's table: statuses, words and their order."""

from __future__ import annotations

import socket
import struct
from typing import Any

import leveret
import pytest
from nsq_calls import Called, call, get, post
from nsq_wire import sized

JSON = "application/json; charset=utf-8"
TEXT = "text/plain; charset=utf-8"
Row = tuple[str, str, bytes | None, int, str]


@pytest.fixture
def settings(settings: dict[str, object]) -> dict[str, object]:
    return settings | {"message_size_max_bytes": 100, "nsq_body_bytes_max": 1000}


def refused(called: Called) -> tuple[int, str]:
    """Its status and nsqd's word."""
    assert called.headers["x-nsq-content-type"] == "nsq; version=1.0"
    return called.status, called.json["message"]


def messages(*bodies: bytes) -> bytes:
    return struct.pack(">I", len(bodies)) + b"".join(map(sized, bodies))


def check(broker: leveret.Broker, rows: list[Row]) -> None:
    for method, path, body, status, message in rows:
        called = call(broker, method, path, body)
        shown: Any = refused(called) if status >= 400 else (called.status, called.body.decode())
        assert shown == (status, message), (method, path, body)


PUB: list[Row] = [
    ("POST", "/pub?topic=t", b"hello", 200, "OK"),
    ("POST", "/pub?topic=t%23ephemeral", b"x", 200, "OK"),
    ("POST", "/pub?topic=t", b"m" * 100, 200, "OK"),
    ("POST", "/pub?topic=t", b"m" * 101, 413, "MSG_TOO_BIG"),
    ("POST", "/pub", b"m" * 101, 413, "MSG_TOO_BIG"),
    ("POST", "/pub?topic=t", b"", 400, "MSG_EMPTY"),
    ("POST", "/pub", b"", 400, "MSG_EMPTY"),
    ("POST", "/pub", b"x", 400, "MISSING_ARG_TOPIC"),
    ("POST", "/pub?topic=", b"x", 400, "INVALID_TOPIC"),
    ("POST", "/pub?topic=bad!", b"x", 400, "INVALID_TOPIC"),
    ("POST", "/pub?topic=%zz", b"x", 400, "INVALID_REQUEST"),
    ("POST", "/pub?topic=t;a=b", b"x", 400, "INVALID_REQUEST"),
    ("POST", "/pub?topic=%e4", b"x", 400, "INVALID_TOPIC"),
    ("POST", f"/pub?topic={'t' * 65}", b"x", 400, "INVALID_TOPIC"),
    ("POST", "/pub?topic=amq.t", b"x", 400, "INVALID_TOPIC"),
    ("POST", "/pub?topic=t&topic=bad!", b"x", 200, "OK"),
    ("POST", "/pub?topic=t&defer=5000", b"later", 200, "OK"),
    ("POST", "/pub?topic=t&defer=%2B1", b"later", 200, "OK"),
    ("POST", "/pub?topic=t&defer=3600000", b"later", 200, "OK"),
    ("POST", "/pub?topic=t&defer=3600001", b"later", 400, "INVALID_DEFER"),
    ("POST", f"/pub?topic=t&defer={'9' * 5000}", b"later", 400, "INVALID_DEFER"),
    ("POST", "/pub?topic=t&defer=x", b"later", 400, "INVALID_DEFER"),
    ("POST", "/pub?topic=t&defer=-1", b"later", 400, "INVALID_DEFER"),
    ("POST", "/pub?topic=t&defer=1.5", b"later", 400, "INVALID_DEFER"),
    ("POST", "/pub?topic=t&defer=", b"later", 400, "INVALID_DEFER"),
]


def test_pub(broker: leveret.Broker) -> None:
    check(broker, PUB)
    (topic,) = get(broker, "/stats?format=json&topic=t")["topics"]
    assert (topic["depth"], topic["message_count"]) == (6, 6)


BINARY = "/mpub?topic=b&binary=true"
MPUB: list[Row] = [
    ("POST", "/mpub?topic=t", b"one\ntwo\n\nthree", 200, "OK"),
    ("POST", "/mpub?topic=t", b"cr\r\n", 200, "OK"),
    ("POST", "/mpub?topic=t&binary=false", b"a\nb", 200, "OK"),
    ("POST", "/mpub?topic=t&binary=0", b"a\nb", 200, "OK"),
    ("POST", "/mpub?topic=t", b"", 200, "OK"),
    ("POST", "/mpub?topic=t", b"\n\n", 200, "OK"),
    ("POST", "/mpub", b"x", 400, "MISSING_ARG_TOPIC"),
    ("POST", "/mpub?topic=bad!", b"x", 400, "INVALID_TOPIC"),
    ("POST", "/mpub?topic=t", b"x\n" + b"m" * 101, 413, "MSG_TOO_BIG"),
    ("POST", "/mpub", b"m\n" * 501, 413, "BODY_TOO_BIG"),
    ("POST", BINARY, messages(b"a", b"b\nb"), 200, "OK"),
    ("POST", "/mpub?topic=b&binary=1", messages(b"a"), 200, "OK"),
    ("POST", "/mpub?topic=b&binary=yes", messages(b"a"), 200, "OK"),
    ("POST", BINARY, b"", 413, "BAD_BODY"),
    ("POST", BINARY, b"\0\0", 413, "BAD_BODY"),
    ("POST", BINARY, b"\0\0\0\0", 413, "BAD_BODY"),
    ("POST", BINARY, b"\xff\xff\xff\xff", 413, "BAD_BODY"),
    ("POST", BINARY, b"\0\x10\0\0", 413, "BAD_BODY"),
    ("POST", BINARY, b"\0\0\0\x02" + sized(b"a"), 413, "BAD_MESSAGE"),
    ("POST", BINARY, b"\0\0\0\x01\0\0\0\x02a", 413, "BAD_MESSAGE"),
    ("POST", BINARY, messages(b""), 413, "BAD_MESSAGE"),
    ("POST", BINARY, messages(b"m" * 101), 413, "BAD_MESSAGE"),
    # What stands behind them is no command of the client's.
    ("POST", BINARY, messages(b"a") + b"PUB behind\n" + sized(b"x"), 200, "OK"),
]


def test_mpub(broker: leveret.Broker) -> None:
    check(broker, MPUB)
    counts = {
        row["topic_name"]: row["depth"] for row in get(broker, "/stats?format=json")["topics"]
    }
    assert counts == {"t": 8, "b": 5}


TOPICS: list[Row] = [
    ("POST", "/topic/create", None, 400, "MISSING_ARG_TOPIC"),
    ("POST", "/topic/create?topic=", None, 400, "INVALID_TOPIC"),
    ("POST", "/topic/create?topic=bad!", None, 400, "INVALID_TOPIC"),
    ("POST", "/topic/create?topic=amq.fanout", None, 400, "INVALID_TOPIC"),
    ("POST", "/topic/create?topic=amq.direct", None, 400, "INVALID_TOPIC"),
    ("POST", "/topic/empty", None, 400, "MISSING_ARG_TOPIC"),
    ("POST", "/topic/empty?topic=", None, 400, "INVALID_TOPIC"),
    ("POST", "/topic/empty?topic=bad!", None, 400, "INVALID_TOPIC"),
    ("POST", "/topic/empty?topic=none", None, 404, "TOPIC_NOT_FOUND"),
    *(
        row
        for verb in ("delete", "pause", "unpause")
        for row in [
            ("POST", f"/topic/{verb}", None, 400, "MISSING_ARG_TOPIC"),
            ("POST", f"/topic/{verb}?topic=", None, 404, "TOPIC_NOT_FOUND"),
            ("POST", f"/topic/{verb}?topic=bad!", None, 404, "TOPIC_NOT_FOUND"),
            ("POST", f"/topic/{verb}?topic=none", None, 404, "TOPIC_NOT_FOUND"),
        ]
    ),
    ("POST", "/topic/create?topic=t", None, 200, ""),
    ("POST", "/topic/create?topic=t", None, 200, ""),
    ("POST", "/topic/pause?topic=t", None, 200, ""),
    ("POST", "/topic/pause?topic=t", None, 200, ""),
    ("POST", "/topic/unpause?topic=t", None, 200, ""),
    ("POST", "/topic/unpause?topic=t", None, 200, ""),
    ("POST", "/topic/empty?topic=t", None, 200, ""),
    ("POST", "/topic/delete?topic=t", None, 200, ""),
    ("POST", "/topic/delete?topic=t", None, 404, "TOPIC_NOT_FOUND"),
]


def test_topics(broker: leveret.Broker) -> None:
    check(broker, TOPICS)


VERBS = ("create", "empty", "pause", "unpause", "delete")
CHANNELS: list[Row] = [
    *(
        row
        for verb in VERBS
        for row in [
            ("POST", f"/channel/{verb}", None, 400, "MISSING_ARG_TOPIC"),
            ("POST", f"/channel/{verb}?topic=t", None, 400, "MISSING_ARG_CHANNEL"),
            ("POST", f"/channel/{verb}?channel=c", None, 400, "MISSING_ARG_TOPIC"),
            ("POST", f"/channel/{verb}?topic=t&channel=c", None, 404, "TOPIC_NOT_FOUND"),
            ("POST", f"/channel/{verb}?topic=bad!&channel=c", None, 400, "INVALID_ARG_TOPIC"),
            ("POST", f"/channel/{verb}?topic=t&channel=bad!", None, 400, "INVALID_ARG_CHANNEL"),
            ("POST", f"/channel/{verb}?topic=t&channel=", None, 400, "INVALID_ARG_CHANNEL"),
        ]
    ),
    ("POST", "/topic/create?topic=t", None, 200, ""),
    *(
        ("POST", f"/channel/{verb}?topic=t&channel=c", None, 404, "CHANNEL_NOT_FOUND")
        for verb in VERBS[1:]
    ),
    ("POST", "/channel/create?topic=t&channel=c", None, 200, ""),
    *(("POST", f"/channel/{verb}?topic=t&channel=c", None, 200, "") for verb in VERBS),
]


def test_channels(broker: leveret.Broker) -> None:
    check(broker, CHANNELS)
    assert get(broker, "/channels?topic=t") == {"channels": []}


LOOKUPS: list[Row] = [
    ("GET", "/lookup", None, 400, "MISSING_ARG_TOPIC"),
    ("GET", "/lookup?topic=t", None, 404, "TOPIC_NOT_FOUND"),
    ("GET", "/lookup?topic=bad!", None, 404, "TOPIC_NOT_FOUND"),
    ("GET", "/lookup?topic=amq.fanout", None, 404, "TOPIC_NOT_FOUND"),
    ("GET", "/channels", None, 400, "MISSING_ARG_TOPIC"),
    ("GET", "/channels?topic=t", None, 200, '{"channels":[]}'),
    ("GET", "/topics", None, 200, '{"topics":[]}'),
    ("POST", "/topic/create?topic=t", None, 200, ""),
    ("POST", "/topic/create?topic=s", None, 200, ""),
    ("POST", "/channel/create?topic=t&channel=d", None, 200, ""),
    ("POST", "/channel/create?topic=t&channel=c", None, 200, ""),
    ("GET", "/channels?topic=t", None, 200, '{"channels":["c","d"]}'),
    ("GET", "/topics", None, 200, '{"topics":["s","t"]}'),
]


def test_lookups_name_this_broker(broker: leveret.Broker) -> None:
    check(broker, LOOKUPS)
    producer = {
        "remote_address": f"127.0.0.1:{broker.nsq_port}",
        "broadcast_address": "127.0.0.1",
        "tcp_port": broker.nsq_port,
        "http_port": broker.nsq_http_port,
        "version": "1.3.0",
    }
    found = get(broker, "/lookup?topic=t")
    assert found["channels"] == ["c", "d"]
    assert [producer] == [
        {key: value for key, value in each.items() if key != "hostname"}
        for each in found["producers"]
    ]
    (node,) = get(broker, "/nodes")["producers"]
    assert node == found["producers"][0] | {"tombstones": [False] * 2, "topics": ["s", "t"]}
    assert list(node)[-2:] == ["tombstones", "topics"]


class TestAnyAddress:
    """A listener on all addresses."""

    @pytest.fixture
    def settings(self) -> dict[str, object]:
        return {"nsq_host": "0.0.0.0", "nsq_port": 0, "nsq_http_port": 0}

    def test_clients_are_sent_to_the_name_of_the_host(self, broker: leveret.Broker) -> None:
        (node,) = get(broker, "/nodes")["producers"]
        assert node["broadcast_address"] == node["hostname"] == socket.gethostname()


def test_what_is_no_call(broker: leveret.Broker) -> None:
    check(
        broker,
        [
            ("GET", "/", None, 404, "NOT_FOUND"),
            ("GET", "/nowhere", None, 404, "NOT_FOUND"),
            ("GET", "/pub/", None, 404, "NOT_FOUND"),
            ("PUT", "/pub?topic=t", b"x", 405, "METHOD_NOT_ALLOWED"),
            ("GET", "/topic/create?topic=t", None, 405, "METHOD_NOT_ALLOWED"),
            ("POST", "/lookup?topic=t", b"", 405, "METHOD_NOT_ALLOWED"),
            ("POST", "/ping", b"", 405, "METHOD_NOT_ALLOWED"),
            ("GET", "/stats?%zz", None, 400, "INVALID_REQUEST"),
        ],
    )
    assert call(broker, "POST", "/ping").headers["allow"] == "GET, OPTIONS"
    assert call(broker, "GET", "/pub").headers["allow"] == "OPTIONS, POST"
    head = call(broker, "HEAD", "/ping")
    assert (head.status, head.body) == (405, b"")
    options = call(broker, "OPTIONS", "/pub")
    assert (options.status, options.body, options.headers["allow"]) == (200, b"", "OPTIONS, POST")
    moved = call(broker, "GET", "/ping/?a=b")
    assert (moved.status, moved.headers["location"]) == (301, "/ping?a=b")
    assert moved.body == b'<a href="/ping?a=b">Moved Permanently</a>.\n\n'


def test_forms_of_success(broker: leveret.Broker) -> None:
    ping = call(broker, "GET", "/ping")
    assert (ping.status, ping.body, ping.headers["content-type"]) == (200, b"OK", TEXT)
    assert "x-nsq-content-type" not in ping.headers
    published = call(broker, "POST", "/pub?topic=t", b"x")
    assert published.headers["content-type"] == TEXT
    created = call(broker, "POST", "/topic/create?topic=t")
    assert "content-type" not in created.headers
    for each in (published, created, call(broker, "GET", "/info")):
        assert each.headers["x-nsq-content-type"] == "nsq; version=1.0"
    assert list(get(broker, "/info")) == [
        "version",
        "broadcast_address",
        "hostname",
        "http_port",
        "tcp_port",
        "start_time",
        "max_heartbeat_interval",
        "max_output_buffer_size",
        "max_output_buffer_timeout",
        "max_deflate_level",
    ]


def test_a_topic_is_made_by_its_first_message(broker: leveret.Broker) -> None:
    post(broker, "/pub?topic=t", b"x")
    assert get(broker, "/topics") == {"topics": ["t"]}
