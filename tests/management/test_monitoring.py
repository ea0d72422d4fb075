"""The dashboard and the alert rules of docs/monitoring, and a real Prometheus beside a broker."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import leveret
import pytest
from insides import wait_until
from real_prometheus import OBJECTS, SUMS, running_prometheus
from scraping import scraped
from wire import PERSISTENT, Client

DIRECTORY = Path(__file__).resolve().parents[2] / "docs" / "monitoring"
DESCRIPTION = DIRECTORY.parent / "MONITORING.md"
NAME = re.compile(r"\b(?:rabbitmq|leveret|process)_[a-z_]+\b")
# Longer than a busy machine may take for two scrapes.
RATE_INTERVAL = "60s"
# The event loop's lag is looked at as often.
OFTEN = {"http_listener": "on", "http_port": 0, "statistics_interval_ms": 100}
# What RabbitMQ's dashboard RabbitMQ-Overview reads, as of 3.10 and of 4: counters by their events.
EVENTS_OF_THE_OVERVIEW = (
    "global_messages_acknowledged",
    "global_messages_confirmed",
    "global_messages_delivered",
    "global_messages_delivered_consume_auto_ack",
    "global_messages_delivered_consume_manual_ack",
    "global_messages_delivered_get_auto_ack",
    "global_messages_delivered_get_manual_ack",
    "global_messages_get_empty",
    "global_messages_received",
    "global_messages_received_confirm",
    "global_messages_redelivered",
    "global_messages_routed",
    "global_messages_unroutable_dropped",
    "global_messages_unroutable_returned",
    "channels_closed",
    "channels_opened",
    "connections_closed",
    "connections_opened",
    "queues_created",
    "queues_declared",
    "queues_deleted",
)
BOUNDS_OF_THE_OVERVIEW = (
    *("100.0", "1000.0", "10000.0", "100000.0", "1e+06", "1e+07", "5e+07", "1e+08", "+Inf"),
)
GAUGES_OF_THE_OVERVIEW = (
    "build_info",
    "channel_consumers",
    "channels",
    "connections",
    "consumers",
    "disk_space_available_bytes",
    "disk_space_available_limit_bytes",
    "erlang_uptime_seconds",
    "global_consumers",
    "global_publishers",
    "process_max_fds",
    "process_max_tcp_sockets",
    "process_open_fds",
    "process_open_tcp_sockets",
    "process_resident_memory_bytes",
    "queue_messages_ready",
    "queue_messages_unacked",
    "queues",
    "resident_memory_limit_bytes",
)


def needs(program: str) -> pytest.MarkDecorator:
    reason = f"{program} is not installed (apt: prometheus)"
    return pytest.mark.skipif(shutil.which(program) is None, reason=reason)


def expressions() -> list[str]:
    dashboard = json.loads((DIRECTORY / "dashboard.json").read_text())
    shown = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked = [each["query"] for each in dashboard["templating"]["list"]]
    rules = re.findall(r"^ +expr: (.*)$", (DIRECTORY / "alerts.yml").read_text(), re.MULTILINE)
    assert len(rules) > 5
    return [*shown, *asked, *rules]


def test_every_metric_that_dashboard_and_rules_name_is_there(broker: leveret.Broker) -> None:
    named = {name for each in expressions() for name in NAME.findall(each)}
    scrape = scraped(broker)
    assert len(named) > 20
    assert {name for name in named if not scrape.samples(name)} == set()


def test_every_metric_is_described(broker: leveret.Broker) -> None:
    # The first cells of the tables.
    cells = [line.split(" | ")[0] for line in DESCRIPTION.read_text().splitlines()]
    described = {name for cell in cells if cell.startswith("| `") for name in NAME.findall(cell)}
    shown = set(scraped(broker).types) | set(scraped(broker, "/metrics/per-object").types)
    assert {name for name in shown if not name.startswith("process_")} == described


@needs("promtool")
@pytest.mark.parametrize("arguments", [("check", "alerts.yml"), ("test", "alerts_test.yml")])
def test_the_rules_pass(arguments: tuple[str, str]) -> None:
    kind, name = arguments
    command = ["promtool", kind, "rules", str(DIRECTORY / name)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_seen_to_fire() -> None:
    rules, seen = ((DIRECTORY / name).read_text() for name in ("alerts.yml", "alerts_test.yml"))
    named = re.findall(r"- alert: (\w+)", rules)
    firing_as_alert = r"alertname: (\w+)\n +exp_alerts:\n +- exp_labels"
    found = {*re.findall(r'samples: .*alertname="(\w+)".*value: 1', seen)}
    assert named
    assert set(named) == found | {*re.findall(firing_as_alert, seen)}


# --- A real Prometheus


@needs("prometheus")
@pytest.mark.parametrize("settings", [OFTEN], indirect=True)
def test_prometheus_has_data_for_every_panel(broker: leveret.Broker, tmp_path: Path) -> None:
    with (
        running_prometheus(broker, DIRECTORY / "alerts.yml", tmp_path) as prometheus,
        Client(broker.host, broker.port) as client,
    ):
        client.log_in()
        client.open_channel(confirms=True)
        client.declare("q", durable=True)
        client.declare("another")
        identities: list[dict[str, str]] = []

        def is_known() -> bool:
            identities[:] = prometheus.labels(f'rabbitmq_identity_info{{job="{SUMS}"}}')
            return bool(identities)

        wait_until(is_known)
        [identity] = identities
        cluster = identity["rabbitmq_cluster"]
        sums = panels(job=SUMS, instance=identity["instance"])
        objects = panels(job=OBJECTS, instance=OBJECTS)
        of_overview = [*overview(cluster, "aggregated"), *overview(cluster, "per-object")]
        asked = [*sums, *objects, *of_overview]

        def silent() -> list[str]:
            client.publish_all("q", b"1", properties=PERSISTENT)
            return [each for each in asked if not prometheus.found(each)]

        def uneven() -> list[str]:
            """A line for each instance, not for each of its queues, is what is wanted."""
            return [
                other
                for one, other in zip(sums, objects, strict=True)
                if len(prometheus.found(one)) != len(prometheus.found(other))
            ]

        def unwell() -> list[Any]:
            return [each for each in prometheus.rules() if each["health"] != "ok"]

        for faults in (silent, uneven, unwell):
            assert left_of(faults) == []
        wait_until(lambda: prometheus.found("up") == [1.0, 1.0])
        wait_until(lambda: prometheus.found("rabbitmq_queues") == [2.0, 2.0])


def left_of(faults: Callable[[], list[Any]]) -> list[Any]:
    """Look until there are none; those of the last look, to be seen.

    A scrape that a busy machine does not answer in time leaves all values out until the next one.
    """
    found: list[Any] = []

    def are_none() -> bool:
        found[:] = faults()
        return not found

    with suppress(AssertionError):
        wait_until(are_none)
    return found


def panels(**variables: str) -> list[str]:
    """The queries of our dashboard, as Grafana asks them."""
    dashboard = json.loads((DIRECTORY / "dashboard.json").read_text())
    known = {"__rate_interval": RATE_INTERVAL, **variables}
    queries = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    return [re.sub(r"\$(\w+)", lambda found: known[found[1]], each) for each in queries]


def overview(cluster: str, endpoint: str) -> list[str]:
    """Queries of the form that RabbitMQ's dashboard has."""
    of = f'rabbitmq_identity_info{{rabbitmq_cluster="{cluster}", namespace=""'
    of_3 = f"on(instance) group_left(rabbitmq_cluster, rabbitmq_node) {of}}}"
    of_4 = f"on(instance, job) group_left(rabbitmq_cluster) {of}, rabbitmq_endpoint='{endpoint}'}}"
    values = [f"rabbitmq_{name}" for name in GAUGES_OF_THE_OVERVIEW]
    values += [f"rate(rabbitmq_{name}_total[{RATE_INTERVAL}])" for name in EVENTS_OF_THE_OVERVIEW]
    asked = [
        f"sum({value} * {each}) by(rabbitmq_node)" for value in values for each in (of_3, of_4)
    ]
    received, confirmed = (
        f"rate(rabbitmq_global_messages_{name}_total[{RATE_INTERVAL}]) * {of_3}"
        for name in ("received_confirm", "confirmed")
    )
    asked.append(f"sum({received} - {confirmed}) by(rabbitmq_node)")
    sizes = "rabbitmq_message_size_bytes"
    counted = ["sum", "count", *(f'bucket{{le="{bound}"}}' for bound in BOUNDS_OF_THE_OVERVIEW)]
    return asked + [f"sum(increase({sizes}_{name}[{RATE_INTERVAL}]) * {of_4})" for name in counted]
