"""No list, sum, export or report shows the hidden queue of an NSQ topic."""

from __future__ import annotations

import json

import leveret
import pytest
from asking_http import asked
from leveret.commands.control_client import ask_broker
from topic_commands import TopicCommands
from wire import PERSISTENT, Client, publish

HIDDEN = "amq.leveret.nsq.t"


@pytest.fixture(autouse=True)
def topic(broker: leveret.Broker, client: Client) -> TopicCommands:
    """One that has kept a message."""
    topic = TopicCommands(broker)
    topic.do("ENSURE_TOPIC")
    client.send(publish("", b"kept", PERSISTENT, exchange="t", mandatory=True))
    client.expect_acks(range(1, 2))
    return topic


@pytest.mark.parametrize(
    "path",
    [
        "/api/queues",
        "/api/queues/%2F",
        "/api/bindings",
        "/api/bindings/%2F",
        f"/api/bindings/%2F/e/t/q/{HIDDEN}",
        f"/api/queues/%2F/{HIDDEN}/bindings",
        "/api/exchanges/%2F/t",
        "/api/exchanges/%2F/t/bindings/source",
        "/api/exchanges/%2F/amq.default/bindings/source",
        "/api/consumers",
        "/api/definitions",
        "/api/definitions/%2F",
        "/metrics/per-object",
    ],
)
def test_it_is_in_no_list(broker: leveret.Broker, path: str) -> None:
    answer = asked(broker, path=path)
    assert answer.status == 200
    assert HIDDEN not in json.dumps(answer.content)


def test_it_is_in_no_sum(broker: leveret.Broker) -> None:
    overview = asked(broker, path="/api/overview").content
    assert overview["object_totals"]["queues"] == 0
    assert overview["queue_totals"].get("messages", 0) == 0


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", f"/api/queues/%2F/{HIDDEN}"),
        ("DELETE", f"/api/queues/%2F/{HIDDEN}"),
        ("DELETE", f"/api/queues/%2F/{HIDDEN}/contents"),
    ],
)
def test_nobody_reaches_it_by_its_name(broker: leveret.Broker, method: str, path: str) -> None:
    assert asked(broker, method, path).status == 404


@pytest.mark.parametrize("report", ["queues", "bindings"])
def test_it_is_in_no_report_of_the_command_line(broker: leveret.Broker, report: str) -> None:
    assert ask_broker(broker.configuration.data_dir, report, {}) == []


def test_a_definitions_file_cannot_have_one(broker: leveret.Broker) -> None:
    file = {"queues": [{"name": HIDDEN, "vhost": "/", "durable": True, "arguments": {}}]}
    answer = asked(broker, "POST", "/api/definitions", file)
    assert answer.status == 400
    assert "are the broker's own" in answer.content["reason"]


def test_what_was_hidden_is_listed_as_the_channel(
    broker: leveret.Broker, topic: TopicCommands
) -> None:
    assert asked(broker, path="/api/queues").content == []
    topic.do("ENSURE_CHANNEL", "c")
    assert [row["name"] for row in asked(broker, path="/api/queues").content] == ["t:c"]
    [binding] = asked(broker, path="/api/exchanges/%2F/t/bindings/source").content
    assert binding["destination"] == "t:c"
