"""The metrics of a live broker, as Prometheus reads them."""

from __future__ import annotations

import shutil
import subprocess
import time
from functools import partial
from typing import Any

import leveret
import pytest
from asking_http import HARE
from insides import context_of, on_loop, wait_until
from leveret.amqp_frames.compiled import FORM
from leveret.amqp_frames.methods import BasicDeliver
from leveret.commands.control_client import ask_broker
from leveret.configuration import Configuration
from leveret.core.alarms import Resource
from leveret.listening.http import METRICS_PORTS_ABOVE, port_of
from leveret.management.prometheus.asked import DETAILED, RABBITMQ
from scraping import scraped
from wire import PERSISTENT, Client

PATHS = ("/metrics", "/metrics/per-object", "/metrics/detailed?family=queue_metrics")

needs_promtool = pytest.mark.skipif(
    shutil.which("promtool") is None, reason="promtool is not installed (apt: prometheus)"
)


PORT_ALONE = {"prometheus_listener": "on", "prometheus_port": 0}


@pytest.fixture
def settings(request: pytest.FixtureRequest) -> dict[str, object]:
    """A test's own come from `has`."""
    own: dict[str, object] = getattr(request, "param", {})
    return {"http_listener": "on", "http_port": 0} | own


def has(**settings: object) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("settings", [settings], indirect=True)


@needs_promtool
@pytest.mark.parametrize("path", ["/metrics", "/metrics/per-object"])
def test_promtool_finds_no_fault(path: str, broker: leveret.Broker) -> None:
    with Client(broker.host, broker.port) as client:
        client.log_in()
        client.open_channel()
        client.declare("q", durable=True)
        answer = scraped(broker, path)
    command = ["promtool", "check", "metrics"]
    checked = subprocess.run(command, input=answer.text, text=True, capture_output=True)
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"


# --- Who may ask


@pytest.mark.parametrize(
    ("settings", "from_here", "from_elsewhere"),
    [
        ({}, 200, 401),
        ({"prometheus_without_password": "everywhere"}, 200, 200),
        ({"prometheus_without_password": "never"}, 401, 401),
    ],
    indirect=["settings"],
)
def test_the_setting_says_who_needs_no_password(
    from_here: int,
    from_elsewhere: int,
    broker: leveret.Broker,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert [scraped(broker, path).status for path in PATHS] == [from_here] * len(PATHS)
    monkeypatch.setattr("leveret.management.api.is_loopback", lambda _host: False)
    assert [scraped(broker, path).status for path in PATHS] == [from_elsewhere] * len(PATHS)


@has(prometheus_without_password="never")
def test_with_a_password_it_needs_the_tag_of_a_monitor(broker: leveret.Broker) -> None:
    for user, tag in (("ann", "management"), ("mona", "monitoring")):
        arguments = {"user": user, "password_hash": HARE, "tags": [tag]}
        ask_broker(broker.configuration.data_dir, "user add", arguments)
    for path in PATHS:
        assert scraped(broker, path, "ann:hare").status == 401
        assert scraped(broker, path, "mona:wrong").status == 401
        assert scraped(broker, path, "mona:hare").status == 200


@has(**PORT_ALONE, prometheus_without_password="never")
def test_the_listener_of_its_own_answers_metrics_to_all_and_nothing_else(
    broker: leveret.Broker,
) -> None:
    assert broker.node is not None
    port = broker.node.http.metrics_port
    assert port is not None
    assert port != broker.http_port
    for path in PATHS:
        assert scraped(broker, path, port=port).status == 200
    for path in ("/api/overview", "/api/health/live", "/"):
        assert scraped(broker, path, "guest:guest", port).status == 404


@has(**PORT_ALONE, http_listener="off")
def test_the_listener_of_its_own_needs_no_other(broker: leveret.Broker) -> None:
    assert broker.node is not None
    port = broker.node.http.metrics_port
    assert scraped(broker, port=port).value("rabbitmq_queues") == 0


@pytest.mark.parametrize(
    ("settings_of", "port_wanted"),
    [({}, 15_692), ({"port": 5673}, 15_693), ({"port": 0}, 0), ({"prometheus_port": 80}, 80)],
)
def test_by_default_it_is_at_rabbitmq_s_port(settings_of: dict[str, Any], port_wanted: int) -> None:
    configuration = Configuration(**settings_of)
    port = port_of(configuration.port, configuration.prometheus_port, METRICS_PORTS_ABOVE)
    assert port == port_wanted


# --- Sums and objects


def test_messages_and_consumers_are_counted_as_sums_or_for_each_queue(
    broker: leveret.Broker,
) -> None:
    with Client(broker.host, broker.port) as client:
        client.log_in()
        client.open_channel(confirms=True)
        client.declare("a", durable=True)
        client.declare("b")
        client.publish_all("a", b"1", b"2", b"3", properties=PERSISTENT)
        client.publish_all("b", b"4")
        client.consume("b")
        client.expect_type(1, BasicDeliver)
        client.read_content(1)
        client.wait_for_counts("a", (3, 0))
        whole, each = scraped(broker), scraped(broker, "/metrics/per-object")
    queue = f"{RABBITMQ}queue_"
    assert whole.samples(f"{queue}messages_ready") == {(): 3}
    assert whole.samples(f"{queue}messages_unacked") == {(): 1}
    assert whole.samples(f"{queue}messages") == {(): 4}
    assert whole.samples(f"{queue}consumers") == {(): 1}
    assert whole.value(f"{RABBITMQ}queue_process_memory_bytes") > 0
    assert each.samples(f"{queue}messages_ready") == {("a", "/"): 3, ("b", "/"): 0}
    assert each.samples(f"{queue}messages_unacked") == {("a", "/"): 0, ("b", "/"): 1}
    for scrape in (whole, each):
        counted = {"connections": 1, "channels": 1, "queues": 2, "consumers": 1}
        for name, count in counted.items():
            assert scrape.samples(RABBITMQ + name) == {(): count}
        assert scrape.samples("rabbitmq_global_consumers") == {("amqp091",): 1}
    assert whole.samples("rabbitmq_channel_messages_unacked") == {(): 1}
    [(name, unacked)] = each.samples("rabbitmq_channel_messages_unacked").items()
    assert name[0].endswith(f":{broker.port} (1)")
    assert unacked == 1


def test_detailed_metrics_are_those_of_the_families_and_vhosts_that_are_asked_for(
    broker: leveret.Broker,
) -> None:
    ask_broker(broker.configuration.data_dir, "vhost add", {"vhost": "other"})
    with Client(broker.host, broker.port) as client:
        client.log_in()
        client.open_channel()
        client.declare("a")
        nothing = scraped(broker, "/metrics/detailed")
        coarse = scraped(broker, "/metrics/detailed?family=queue_coarse_metrics")
        two = scraped(broker, "/metrics/detailed?family=queue_consumer_count&family=node_metrics")
        elsewhere = scraped(
            broker, "/metrics/detailed?family=queue_coarse_metrics&vhost=other&vhost=none"
        )
    assert set(nothing.types) == {"rabbitmq_build_info", "rabbitmq_identity_info"}
    assert coarse.samples(f"{DETAILED}queue_messages") == {("a", "/"): 0}
    assert f"{DETAILED}queue_consumers" not in coarse.types
    assert two.samples(f"{DETAILED}queue_consumers") == {("a", "/"): 0}
    assert f"{DETAILED}erlang_uptime_seconds" in two.types
    assert f"{DETAILED}queue_messages" not in two.types
    assert f"{DETAILED}queue_messages" not in elsewhere.types


@has(prometheus_per_object="on")
def test_a_setting_has_objects_by_default(broker: leveret.Broker) -> None:
    with Client(broker.host, broker.port) as client:
        client.log_in()
        client.open_channel()
        client.declare("a")
        scrape = scraped(broker)
    assert scrape.samples("rabbitmq_queue_messages") == {("a", "/"): 0}
    assert scrape.labels("rabbitmq_identity_info")["rabbitmq_endpoint"] == "per-object"


def test_names_that_are_no_words_arrive_as_they_are(broker: leveret.Broker) -> None:
    name = 'a"b\\c {} \u00e9'
    with Client(broker.host, broker.port) as client:
        client.log_in()
        client.open_channel()
        client.declare(name)
        scrape = scraped(broker, "/metrics/per-object")
    assert scrape.samples("rabbitmq_queue_messages") == {(name, "/"): 0}


# --- The node


def test_the_node_says_who_it_is_and_what_it_may_use(broker: leveret.Broker) -> None:
    scrape = scraped(broker)
    identity = scrape.labels("rabbitmq_identity_info")
    assert identity["rabbitmq_node"] == identity["rabbitmq_cluster"]
    assert identity["rabbitmq_node"].startswith("leveret@")
    assert len(identity["rabbitmq_cluster_permanent_id"]) == 32
    assert identity["rabbitmq_endpoint"] == "aggregated"
    build = scrape.labels("rabbitmq_build_info")
    assert build["rabbitmq_version"] == broker.configuration.server_version
    assert scrape.labels("leveret_build_info")["codec"] == FORM
    assert scrape.value("rabbitmq_disk_space_available_bytes") > 0
    limit = broker.configuration.disk_free_bytes_min
    assert scrape.value("rabbitmq_disk_space_available_limit_bytes") == limit
    for name in ("rabbitmq_process_open_fds", "process_resident_memory_bytes"):
        assert scrape.value(name) > 0
    assert scrape.value("rabbitmq_erlang_uptime_seconds") >= 0
    for alarm in ("memory_used", "free_disk_space"):
        assert scrape.value(f"rabbitmq_alarms_{alarm}_watermark") == 0


def test_an_alarm_is_shown(broker: leveret.Broker) -> None:
    alarms = context_of(broker).alarms
    alarms.change(Resource.DISK, is_low=True)
    scrape = scraped(broker)
    alarms.change(Resource.DISK, is_low=False)
    assert scrape.value("rabbitmq_alarms_free_disk_space_watermark") == 1
    assert scrape.value("rabbitmq_alarms_memory_used_watermark") == 0


def test_messages_are_counted_as_they_come_and_go(broker: leveret.Broker) -> None:
    with Client(broker.host, broker.port) as client:
        client.log_in()
        client.open_channel(confirms=True)
        client.declare("a")
        client.publish_all("a", b"1", b"2", b"3")
        client.publish_all("nowhere", b"4")
        assert client.get("a", no_ack=True) is not None
        assert client.get("a") is not None
        client.consume("a", no_ack=True)
        client.expect_type(1, BasicDeliver)
        client.read_content(1)
        scrape = scraped(broker)
    counted = {
        "received": 4,
        "confirmed": 4,
        "routed": 3,
        "unroutable_dropped": 1,
        "unroutable_returned": 0,
        "delivered": 3,
        "delivered_get_auto_ack": 1,
        "delivered_get_manual_ack": 1,
        "delivered_consume_auto_ack": 1,
        "delivered_consume_manual_ack": 0,
        "get_empty": 0,
        "redelivered": 0,
        "acknowledged": 0,
    }
    for name, count in counted.items():
        assert scrape.samples(f"rabbitmq_global_messages_{name}_total") == {("amqp091",): count}
    assert scrape.samples("rabbitmq_global_publishers") == {("amqp091",): 1}
    for name, count in (("queues_created", 1), ("connections_opened", 1), ("channels_opened", 1)):
        assert scrape.value(f"rabbitmq_{name}_total") == count
    assert scrape.samples("rabbitmq_auth_attempts_succeeded_total")[("amqp091",)] == 1


@has(statistics_interval_ms=100)
def test_a_timer_that_comes_late_is_counted(broker: leveret.Broker) -> None:
    count, total = "leveret_event_loop_lag_seconds_count", "leveret_event_loop_lag_seconds_sum"
    wait_until(lambda: scraped(broker).value(count) > 0)
    before = scraped(broker).value(total)
    # A timer is due meanwhile, at the latest when a third of it has passed.
    on_loop(broker, partial(time.sleep, 0.3))
    wait_until(lambda: scraped(broker).value(total) >= before + 0.19)


# --- The journal


def test_syncs_and_messages_of_the_journal_s_commits_are_counted(broker: leveret.Broker) -> None:
    with Client(broker.host, broker.port) as client:
        client.log_in()
        client.open_channel(confirms=True)
        client.declare("a", durable=True)
        before = scraped(broker)
        client.publish_all("a", b"1", properties=PERSISTENT)
        one = scraped(broker)
        client.publish_all("a", *[b"n"] * 20, properties=PERSISTENT)
        more = scraped(broker)
        client.publish_all("a", b"transient")
        transient = scraped(broker)
    syncs, seconds, commits, messages = (
        [scrape.value(f"leveret_journal_{name}") for scrape in (before, one, more, transient)]
        for name in (
            "sync_seconds_count",
            "sync_seconds_sum",
            "commit_messages_count",
            "commit_messages_sum",
        )
    )
    assert messages == [0, 1, 21, 21]
    assert commits[:2] == [0, 1]
    assert 2 <= commits[2] == commits[3] <= 21
    # Each of them was synced; the transient message needed none.
    assert [count - syncs[0] for count in syncs] == commits
    assert seconds[0] < seconds[1] < seconds[2] == seconds[3]
    buckets = more.samples("leveret_journal_commit_messages_bucket")
    assert (buckets[("1",)] >= 1, buckets[("+Inf",)]) == (True, commits[2])
    for name in ("commit_messages", "sync_seconds"):
        assert more.types[f"leveret_journal_{name}"] == "histogram"


@has(disk_check_interval_ms=10)
def test_bytes_of_the_journal_are_dead_once_their_messages_are_acknowledged(
    broker: leveret.Broker,
) -> None:
    def bytes_now() -> tuple[float, float]:
        samples = scraped(broker).samples("leveret_journal_bytes")
        return samples[("live",)], samples[("dead",)]

    with Client(broker.host, broker.port) as client:
        client.log_in()
        client.open_channel(confirms=True)
        client.declare("a", durable=True)
        # The header of the first segment is nobody's message.
        wait_until(lambda: bytes_now()[1] > 0)
        assert bytes_now()[0] == 0
        client.publish_all("a", *[bytes(1_000)] * 20, properties=PERSISTENT)
        wait_until(lambda: bytes_now()[0] > 20_000)
        assert bytes_now()[1] == 0
        for _ in range(10):
            client.get("a", no_ack=True)
        wait_until(lambda: bytes_now()[1] > 10_000)
        assert bytes_now()[0] > 10_000
        for _ in range(10):
            client.get("a", no_ack=True)
        wait_until(lambda: bytes_now()[1] > 20_000)
        wait_until(lambda: bytes_now()[0] == 0)
        scrape = scraped(broker)
    assert scrape.value("leveret_journal_segments") == 1
    assert scrape.value("leveret_journal_compactions_total") == 0
