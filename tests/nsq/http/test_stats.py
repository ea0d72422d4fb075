"""/stats: what queues and connections count, and nsqd's forms of it."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import leveret
from client_frames import publish
from insides import wait_until
from nsq_calls import call, get, lengths, post, topic_stats
from nsq_wire import NsqClient, dpub, identify, mpub, pub
from wire import Client

Nsq = Callable[[], NsqClient]
TOPIC_FIELDS = [
    "topic_name",
    "channels",
    "depth",
    "backend_depth",
    "message_count",
    "message_bytes",
    "paused",
    "e2e_processing_latency",
]
CHANNEL_FIELDS = [
    "channel_name",
    "depth",
    "backend_depth",
    "in_flight_count",
    "deferred_count",
    "message_count",
    "requeue_count",
    "timeout_count",
    "client_count",
    "clients",
    "paused",
    "e2e_processing_latency",
]
CLIENT_FIELDS = [
    "client_id",
    "hostname",
    "version",
    "remote_address",
    "state",
    "ready_count",
    "in_flight_count",
    "message_count",
    "finish_count",
    "requeue_count",
    "connect_ts",
    "sample_rate",
    "deflate",
    "snappy",
    "user_agent",
    "tls",
    "tls_cipher_suite",
    "tls_version",
    "tls_negotiated_protocol",
    "tls_negotiated_protocol_is_mutual",
]


def channel_stats(broker: leveret.Broker, topic: str = "t") -> Any:
    (row,) = topic_stats(broker, topic)["channels"]
    return row


def test_a_topic_has_what_no_channel_has(broker: leveret.Broker, nsq: Nsq) -> None:
    nsq().send(pub("t", b"abc"), mpub("t", b"de", b"f" * 200_000), dpub("t", 60_000, b"g")).ok(3)
    row = topic_stats(broker, "t")
    assert list(row) == TOPIC_FIELDS
    assert lengths(row) == {"depth": 4, "message_count": 4, "message_bytes": 200_006}
    assert row["channels"] == []
    post(broker, "/channel/create?topic=t&channel=c")
    assert lengths(topic_stats(broker, "t")) == {"message_count": 4, "message_bytes": 200_006}
    assert lengths(channel_stats(broker)) == {"depth": 3, "deferred_count": 1, "message_count": 4}
    nsq().send(pub("t", b"x"), pub("u", b"yz"), pub("t", b"x")).ok(3)
    assert topic_stats(broker, "u")["message_bytes"] == 2
    assert topic_stats(broker, "t")["message_bytes"] == 200_008


def test_a_channel_counts_what_its_clients_do(broker: leveret.Broker, nsq: Nsq) -> None:
    client = nsq().send(identify(client_id="me", hostname="here", user_agent="ua/1")).ok()
    client.subscribe("t", "c", 2)
    nsq().send(pub("t", b"x") * 4).ok(4)
    first, second = client.messages(2)
    client.send(b"FIN " + first.id + b"\nREQ " + second.id + b" 60000\n")
    client.messages(2)
    client.nothing()
    row = channel_stats(broker)
    assert list(row) == CHANNEL_FIELDS
    expected = {
        "in_flight_count": 2,
        "deferred_count": 1,
        "message_count": 4,
        "requeue_count": 1,
        "client_count": 1,
    }
    assert lengths(row) == expected
    (shown,) = row["clients"]
    assert list(shown) == CLIENT_FIELDS
    names = ("client_id", "hostname", "user_agent", "version")
    assert [shown[name] for name in names] == ["me", "here", "ua/1", "V2"]
    host, _, port = shown["remote_address"].partition(":")
    assert (host, int(port)) == client.socket.getsockname()
    counts = lengths(shown)
    del counts["connect_ts"]
    assert counts == {
        "state": 3,
        "ready_count": 2,
        "in_flight_count": 2,
        "message_count": 4,
        "finish_count": 1,
        "requeue_count": 1,
    }
    client.send(b"CLS\n")
    assert client.receive() == (0, b"CLOSE_WAIT")
    (shown,) = channel_stats(broker)["clients"]
    assert (shown["state"], shown["ready_count"]) == (4, 0)


def test_time_outs_are_counted_and_emptying_is_none(broker: leveret.Broker, nsq: Nsq) -> None:
    client = nsq().send(identify(msg_timeout=1000)).ok().subscribe("t", "c", 1)
    nsq().send(pub("t", b"x")).ok()
    client.message()
    assert client.message().attempts == 2
    assert channel_stats(broker)["timeout_count"] == 1
    post(broker, "/channel/empty?topic=t&channel=c")
    row = channel_stats(broker)
    assert lengths(row) == {"message_count": 1, "timeout_count": 1, "client_count": 1}
    assert row["clients"][0]["in_flight_count"] == 0


def test_producers_are_those_that_publish(broker: leveret.Broker, nsq: Nsq) -> None:
    both = nsq().subscribe("t", "c").send(pub("t", b"x"), pub("u", b"y")).ok(2)
    nsq().subscribe("t", "c").nothing()
    stats = get(broker, "/stats?format=json&include_mem=false")
    assert list(stats) == ["version", "health", "start_time", "topics", "producers"]
    (producer,) = stats["producers"]
    counts = [{"topic": "t", "count": 1}, {"topic": "u", "count": 1}]
    assert producer["pub_counts"] == counts
    assert len(stats["topics"][0]["channels"][0]["clients"]) == 2
    # Those of another topic are shown without what they have published there.
    stats = get(broker, "/stats?format=json&topic=u")
    assert stats["producers"][0]["pub_counts"] == counts[1:]
    post(broker, "/topic/create?topic=v")
    stats = get(broker, "/stats?format=json&topic=v")
    assert "pub_counts" not in stats["producers"][0]
    both.socket.close()
    wait_until(lambda: not get(broker, "/stats?format=json")["producers"])
    assert topic_stats(broker, "t")["message_count"] == 1


def test_parameters_choose(broker: leveret.Broker, nsq: Nsq) -> None:
    nsq().subscribe("t", "c").send(pub("t", b"x")).ok()
    post(broker, "/channel/create?topic=t&channel=d")
    post(broker, "/topic/create?topic=u")

    def shown(query: str) -> dict[str, Any]:
        stats: dict[str, Any] = get(broker, f"/stats?format=json&{query}")
        return stats

    assert [each["topic_name"] for each in shown("")["topics"]] == ["t", "u"]
    assert set(shown("")["memory"]) > {"heap_objects", "gc_total_runs"}
    (topic,) = shown("topic=t&channel=d")["topics"]
    assert [each["channel_name"] for each in topic["channels"]] == ["d"]
    none = shown("topic=t&channel=none")
    assert (none["topics"], len(none["producers"])) == ([], 1)
    none = shown("topic=none")
    assert (none["topics"], none["producers"]) == (None, None)
    without = shown("topic=t&include_clients=false&include_mem=0")
    assert without["topics"][0]["channels"][0]["clients"] is None
    assert without["topics"][0]["channels"][0]["client_count"] == 1
    assert without["producers"] is None
    assert "memory" not in without
    assert shown("include_clients=maybe&include_mem=")["memory"]


def test_pauses_are_shown(broker: leveret.Broker) -> None:
    post(broker, "/topic/create?topic=t")
    post(broker, "/channel/create?topic=t&channel=c")
    for verb, expected in (("pause", True), ("unpause", False)):
        post(broker, f"/topic/{verb}?topic=t")
        post(broker, f"/channel/{verb}?topic=t&channel=c")
        assert topic_stats(broker, "t")["paused"] is expected
        assert channel_stats(broker)["paused"] is expected


def test_amqp_counts_in_topics_and_channels(
    broker: leveret.Broker, connect: Callable[..., Client]
) -> None:
    post(broker, "/topic/create?topic=t")
    post(broker, "/channel/create?topic=t&channel=c")
    client = connect()
    client.open_channel(1, confirms=True)
    client.send(publish("", b"from amqp", exchange="t"))
    client.expect_acks(range(1, 2))
    assert lengths(topic_stats(broker, "t")) == {"message_count": 1}
    assert lengths(channel_stats(broker)) == {"depth": 1, "message_count": 1}
    client.consume("t:c")
    row = channel_stats(broker)
    assert (row["client_count"], row["clients"]) == (1, [])


TIMES = re.compile(r"(start_time \S+|uptime \S+|connected: \S+|hn:\d+|\(built w/.*\))")
TEXT = (
    "nsqd v1.3.0 <>\n<>\n<>\n\nHealth: OK\n\nTopics:\n"
    "*P [topic          ] depth: 0     be-depth: 0     msgs: 2        e2e%: \n"
    "   *P [c                        ] depth: 1     be-depth: 0     inflt: 1    def: 0    "
    "re-q: 0     timeout: 0     msgs: 2        e2e%: \n"
    "        [V2 <> ua/1        ] state: 3 inflt: 1    rdy: 1    fin: 0        re-q: 0        "
    "msgs: 1        <>\n"
    "\n"
    "   [u              ] depth: 1     be-depth: 0     msgs: 1        e2e%: \n"
    "\nProducers:\n"
    "   [V2 <> ua/2        ] msgs: 3        topics: topic=2,u=1 <>\n"
)


def test_the_text_is_nsqds_to_the_column(broker: leveret.Broker, nsq: Nsq) -> None:
    assert (
        call(broker, "GET", "/stats?include_mem=0")
        .body.decode()
        .endswith("\n\nHealth: OK\n\nTopics: None\n\nProducers: None\n")
    )
    client = nsq().send(identify(hostname="hn", user_agent="ua/1")).ok().subscribe("topic", "c", 1)
    other = nsq().send(identify(hostname="hn", user_agent="ua/2")).ok()
    other.send(pub("topic", b"x") * 2, pub("u", b"y")).ok(3)
    client.message()
    post(broker, "/topic/pause?topic=topic")
    post(broker, "/channel/pause?topic=topic&channel=c")
    shown = call(broker, "GET", "/stats?include_mem=0")
    assert shown.headers["content-type"] == "text/plain; charset=utf-8"
    # Ports have four or five digits.
    text = re.sub(r" +\]", "        ]", TIMES.sub("<>", shown.body.decode()))
    assert text == re.sub(r" +\]", "        ]", TEXT)
    memory = call(broker, "GET", "/stats").body.decode()
    assert "\nHealth: OK\n\nMemory:\n   heap_objects             \t" in memory
    assert "\n\nTopics:\n" in memory
