"""What the API says of the node as a whole, and what an operator sets for it."""

from __future__ import annotations

from typing import Any

import leveret
import pytest
from asking_http import asked
from leveret.version import VERSION
from scraping import scraped
from wire import PERSISTENT, Client


def get(broker: leveret.Broker, path: str) -> Any:
    answer = asked(broker, "GET", path)
    assert answer.status == 200, answer
    return answer.content


def test_a_cluster_has_the_name_that_an_operator_sets(broker: leveret.Broker) -> None:
    path, node = "/api/cluster-name", get(broker, "/api/overview")["node"]

    def names() -> set[str]:
        return {get(broker, path)["name"], get(broker, "/api/overview")["cluster_name"]}

    assert names() == {node}
    assert asked(broker, "PUT", path, {"name": "hares é"})[:2] == (204, None)
    assert names() == {"hares é"}
    assert scraped(broker).labels("rabbitmq_identity_info")["rabbitmq_cluster"] == "hares é"
    parameter = {"name": "cluster_name", "value": "hares é"}
    assert get(broker, "/api/global-parameters") == [parameter]
    for body, reason in (({}, "[{key_missing,name}]"), ([], "not_json")):
        answer = asked(broker, "PUT", path, body)
        assert answer[:2] == (400, {"error": "bad_request", "reason": reason})
    assert asked(broker, "PUT", path, {"name": 1}).status == 400
    # Only who sets the parameter can give it a value that is no name.
    parameter_path = "/api/global-parameters/cluster_name"
    assert asked(broker, "PUT", parameter_path, {"value": 5}).status == 204
    assert names() == {node}
    assert asked(broker, "DELETE", parameter_path).status == 204
    assert names() == {node}


def test_a_cluster_keeps_its_name_when_the_broker_starts_again(
    broker: leveret.Broker,
) -> None:
    asked(broker, "PUT", "/api/cluster-name", {"name": "hares"})
    broker.stop()
    broker.start()
    assert get(broker, "/api/cluster-name") == {"name": "hares"}


def test_memory_is_shown_by_purpose(broker: leveret.Broker, client: Client) -> None:
    path = f"/api/nodes/{get(broker, '/api/overview')['node']}/memory"
    client.declare("q", durable=True)
    client.publish_all("q", *[b"x" * 100_000] * 10, properties=PERSISTENT)
    memory = get(broker, path)["memory"]
    total, strategy = memory.pop("total"), memory.pop("strategy")
    assert (strategy, set(total)) == ("rss", {"erlang", "rss", "allocated"})
    assert memory["queue_procs"] >= 1_000_000
    assert min(memory.values()) >= 0
    assert sum(memory.values()) == total["rss"]
    relative = get(broker, f"{path}/relative")["memory"]
    assert relative.pop("total") == 100
    assert relative.keys() == memory.keys()
    assert {name for name, share in relative.items() if share} == {
        name for name, part_bytes in memory.items() if part_bytes
    }
    assert sum(relative.values()) == pytest.approx(100, abs=len(memory) / 2)
    for missing in ("/api/nodes/elsewhere/memory", "/api/nodes/elsewhere/memory/relative"):
        assert asked(broker, "GET", missing).status == 404


def test_all_feature_flags_can_be_enabled(broker: leveret.Broker) -> None:
    flags = [row["name"] for row in get(broker, "/api/feature-flags")]
    assert "quorum_queue" in flags
    for name in flags:
        assert asked(broker, "PUT", f"/api/feature-flags/{name}/enable", {}).status == 204
    answer = asked(broker, "PUT", "/api/feature-flags/none/enable", {})
    assert answer[:2] == (400, {"error": "bad_request", "reason": "unsupported"})


def test_versions_are_rabbitmqs_but_where_leveret_is_named(broker: leveret.Broker) -> None:
    told = broker.configuration.server_version
    overview = get(broker, "/api/overview")
    names = ("rabbitmq_version", "product_version", "management_version")
    assert {overview[name] for name in names} == {told}
    assert overview["leveret_version"] == VERSION
    [node] = get(broker, "/api/nodes")
    versions = {each["name"]: each["version"] for each in node["applications"]}
    assert versions == {"rabbit": told, "leveret": VERSION}
    file = get(broker, "/api/definitions")
    names = ("rabbitmq_version", "product_version", "rabbit_version")
    assert {file[name] for name in names} == {told}
    assert file["leveret_version"] == VERSION


@pytest.mark.parametrize("settings", [{"http_listener": "on", "node_name": "rabbit@burrow"}])
def test_a_setting_names_the_node(broker: leveret.Broker) -> None:
    """As RabbitMQ's are named, for monitors that know no other names."""
    overview = get(broker, "/api/overview")
    assert (overview["node"], overview["cluster_name"]) == ("rabbit@burrow", "rabbit@burrow")
    assert get(broker, "/api/nodes/rabbit@burrow")["name"] == "rabbit@burrow"
    assert asked(broker, path="/api/nodes/leveret@burrow").status == 404
    asked(broker, "PUT", "/api/queues/%2F/q", {})
    assert get(broker, "/api/queues/%2F/q")["node"] == "rabbit@burrow"


def test_the_overview_has_texts_for_versions_of_erlang(broker: leveret.Broker) -> None:
    """As clients expect that read them, and empty: there is no Erlang."""
    overview = get(broker, "/api/overview")
    assert (overview["erlang_version"], overview["erlang_full_version"]) == ("", "")
