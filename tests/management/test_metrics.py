"""The metrics of a live broker, as Prometheus reads them."""

from __future__ import annotations

import shutil
import subprocess
import time
from functools import partial
from pathlib import Path
from typing import Any

import leveret
import pytest
from asking_http import HARE, asked
from gated_files import GatedFiles
from insides import context_of, listener_of, on_loop, wait_until
from leveret.actors.messages import AlarmCleared
from leveret.actors.runtime.runtime import tell
from leveret.amqp_frames.compiled import FORM
from leveret.amqp_frames.methods import BasicDeliver, TxCommit, TxSelect
from leveret.commands.control_client import ask_broker
from leveret.configuration import MEMORY_BUDGET_BYTES_MIN, Configuration
from leveret.core.alarms import Resource
from leveret.listening.http import METRICS_PORTS_ABOVE, port_of
from leveret.management.prometheus.asked import DETAILED, RABBITMQ
from scraping import scraped
from wire import PERSISTENT, Client, publish

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


# --- One text for all


@has(list_age_ms=3_600_000)
def test_about_many_queues_one_text_serves_all_but_not_one_that_failed(
    broker: leveret.Broker, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("leveret.management.prometheus.texts.SNAPSHOT_ROWS_MIN", 0)
    monkeypatch.setattr("leveret.management.snapshots.UNUSED_SECONDS_MAX", 3600.0)
    with monkeypatch.context() as failing:
        failing.setattr("leveret.management.prometheus.node.of_process", lambda: 1 // 0)
        assert scraped(broker).status == 500
    before = scraped(broker)
    assert before.value("rabbitmq_queues") == 0
    client.declare("a")
    assert scraped(broker).text == before.text
    # Another form is another text.
    assert scraped(broker, "/metrics/per-object").value("rabbitmq_queues") == 1


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
        unknown = scraped(broker, "/metrics/detailed?family=nosuch")
        coarse = scraped(broker, "/metrics/detailed?family=queue_coarse_metrics")
        two = scraped(broker, "/metrics/detailed?family=queue_consumer_count&family=node_metrics")
        elsewhere = scraped(
            broker, "/metrics/detailed?family=queue_coarse_metrics&vhost=other&vhost=none"
        )
    for each in (nothing, unknown):
        # As in RabbitMQ.
        assert each.status == 200
        assert set(each.types) == {"rabbitmq_build_info", "rabbitmq_identity_info"}
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


def test_free_bytes_of_the_disk_are_those_that_the_disk_watch_has_seen(tmp_path: Path) -> None:
    free = [10**9 + 7]

    class Disk(GatedFiles):
        def free_bytes(self, path: str) -> int:
            return free[0]

    settings: dict[str, Any] = {"http_listener": "on", "http_port": 0, "disk_check_interval_ms": 10}
    with leveret.Broker(data_dir=tmp_path / "data", port=0, files=Disk(), **settings) as broker:
        for value in (free[0], 10**9 + 8):
            free[0] = value

            def is_shown(value: int = value) -> bool:
                [node] = asked(broker, path="/api/nodes").content
                metric = scraped(broker).value("rabbitmq_disk_space_available_bytes")
                return node["disk_free"] == metric == value

            wait_until(is_shown)


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
        client.publish_all("nowhere", b"4" * 150)
        assert client.get("a", no_ack=True) is not None
        assert client.get("a") is not None
        client.consume("a", no_ack=True)
        client.expect_type(1, BasicDeliver)
        client.read_content(1)
        scrape = scraped(broker)
    counted = {
        "received": 4,
        "received_confirm": 4,
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
    sizes = "rabbitmq_message_size_bytes"
    buckets = scrape.samples(f"{sizes}_bucket")
    of = [buckets[bound, "amqp091"] for bound in ("100.0", "1000.0", "1e+06", "+Inf")]
    assert (of, scrape.samples(f"{sizes}_sum")) == ([3, 4, 4, 4], {("amqp091",): 153})
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
    # Under RabbitMQ's names, too. The declare's change is named in the journal as well.
    for name in ("io_sync_ops", "io_write_ops"):
        counts = [each.value(f"rabbitmq_{name}_total") for each in (before, one)]
        assert counts[1] - counts[0] == 1
    written = [each.value("rabbitmq_io_write_bytes_total") for each in (before, one)]
    assert 50 < written[1] - written[0] < 5000
    assert one.value("rabbitmq_io_sync_time_seconds_total") == seconds[1]
    assert one.value("rabbitmq_io_write_time_seconds_total") > 0
    [node] = asked(broker, path="/api/nodes").content
    assert node["io_sync_count"] == transient.value("rabbitmq_io_sync_ops_total")
    assert node["io_write_count"] == transient.value("rabbitmq_io_write_ops_total")
    assert node["io_write_bytes"] == transient.value("rabbitmq_io_write_bytes_total")
    mean_ms = 1000 * seconds[3] / node["io_sync_count"]
    assert node["io_sync_avg_time"] == pytest.approx(mean_ms)
    assert node["io_write_avg_time"] > 0
    buckets = more.samples("leveret_journal_commit_messages_bucket")
    assert (buckets[("1.0",)] >= 1, buckets[("+Inf",)]) == (True, commits[2])
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


@has(memory_budget_bytes=MEMORY_BUDGET_BYTES_MIN)
def test_messages_that_are_written_to_the_disk_and_read_back_are_counted(
    broker: leveret.Broker,
) -> None:
    def messages() -> tuple[float, float]:
        scrape = scraped(broker)
        read, written = (
            scrape.value(f"rabbitmq_msg_store_{name}_total") for name in ("read", "write")
        )
        return read, written

    count, body = 30, bytes(MEMORY_BUDGET_BYTES_MIN // 10)
    with Client(broker.host, broker.port) as client:
        client.log_in()
        client.open_channel(confirms=True)
        client.declare("a", durable=True)
        client.publish_all("a", *[body] * count, properties=PERSISTENT)
        assert messages()[1] == count
        for _ in range(count):
            assert client.get("a", no_ack=True) is not None
        read = messages()[0]
        # Some perhaps more than once.
        assert read > 0
        client.publish_all("a", *[body] * count)
        for _ in range(count):
            assert client.get("a", no_ack=True) is not None
        # Transient ones that had no room were spilled and read back.
        after = messages()
    spilled = after[1] - count
    assert 0 < spilled <= count
    assert after[0] > read
    [node] = asked(broker, path="/api/nodes").content
    assert (node["msg_store_read_count"], node["msg_store_write_count"]) == after
    stats = asked(broker, path="/api/overview").content["message_stats"]
    assert (stats["disk_reads"], stats["disk_writes"]) == after
    assert stats["disk_reads_details"].keys() == {"rate"}


@has(segment_bytes_max=1024 * 1024)
def test_the_background_check_says_how_far_it_is(broker: leveret.Broker) -> None:
    def check(name: str) -> float:
        return scraped(broker).value(f"leveret_journal_check_{name}")

    assert (check("bytes"), check("finished_timestamp_seconds")) == (0, 0)
    begin = time.time()
    with Client(broker.host, broker.port) as client:
        client.log_in()
        client.open_channel(confirms=True)
        client.declare("a", durable=True)
        client.publish_all("a", *[bytes(600_000)] * 3, properties=PERSISTENT)
        # A segment is looked for once a second, and gets its index.
        wait_until(lambda: check("finished_timestamp_seconds") > 0)
        scrape = scraped(broker)
    assert begin - 1 < scrape.value("leveret_journal_check_finished_timestamp_seconds")
    counted = scrape.samples("leveret_journal_check_bytes")
    assert counted[("checked",)] > 600_000
    assert counted[("left",)] == 0
    assert scrape.value("leveret_journal_damaged_segments") == 0


def test_damage_that_the_start_finds_is_counted(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"data_dir": tmp_path / "data", "port": 0, "http_port": 0}
    with leveret.Broker(**settings, http_listener="on") as broker:
        assert scraped(broker).value("leveret_journal_damaged_segments") == 0
        with Client(broker.host, broker.port) as client:
            client.log_in()
            client.open_channel(confirms=True)
            client.declare("a", durable=True)
            client.publish_all("a", *[b"body" * 100] * 3, properties=PERSISTENT)
    [segment] = (tmp_path / "data").rglob("*.journal")
    data = bytearray(segment.read_bytes())
    data[data.index(b"body") + 50] ^= 1
    segment.write_bytes(data)
    with leveret.Broker(**settings, http_listener="on") as broker:
        assert scraped(broker).value("leveret_journal_damaged_segments") == 1


# --- Connections


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"publish_window_bytes_max": 65_536}, "publish_window"),
        ({"node_publish_window_bytes_max": 65_536}, "node_window"),
    ],
    indirect=["settings"],
)
def test_connections_that_are_not_read_are_counted_by_the_reason(
    reason: str, broker: leveret.Broker, files: GatedFiles
) -> None:
    def paused() -> dict[str, float]:
        samples = scraped(broker).samples("leveret_connections_paused")
        return {name: count for (name,), count in samples.items() if count}

    with Client(broker.host, broker.port) as client:
        client.log_in()
        client.open_channel(confirms=True)
        client.declare("a", durable=True)
        assert paused() == {}
        files.hold()
        with client.sending(publish("a", bytes(10_000), PERSISTENT) * 100):
            files.wait_until_syncing()
            wait_until(lambda: paused() == {reason: 1})
            [connection] = asked(broker, path="/api/connections").content
            assert connection["state"] == "flow"
            files.release()
        client.expect_acks(range(1, 101))
        wait_until(lambda: paused() == {})


def test_a_publisher_that_waits_for_the_end_of_an_alarm_is_counted(broker: leveret.Broker) -> None:
    def paused() -> float:
        return scraped(broker).samples("leveret_connections_paused")[("alarm",)]

    def states() -> list[str]:
        return [each["state"] for each in asked(broker, path="/api/connections").content]

    def alarm(is_low: bool) -> None:
        context_of(broker).alarms.change(Resource.MEMORY, is_low=is_low)
        if not is_low:
            tell(listener_of(broker), AlarmCleared())

    with Client(broker.host, broker.port) as client:
        client.log_in()
        client.open_channel(confirms=True)
        client.declare("a")
        on_loop(broker, partial(alarm, is_low=True))
        assert paused() == 0
        assert states() == ["blocking"]
        client.send(publish("a", b"1"))
        wait_until(lambda: paused() == 1)
        assert states() == ["blocked"]
        on_loop(broker, partial(alarm, is_low=False))
        client.expect_acks(range(1, 2))
        assert paused() == 0
        assert states() == ["running"]


# --- Confirms


def test_confirms_are_timed_by_whether_they_wait_for_the_disk(broker: leveret.Broker) -> None:
    with Client(broker.host, broker.port) as client:
        client.log_in()
        client.open_channel(confirms=True)
        client.declare("a", durable=True)
        syncs = scraped(broker).value("leveret_journal_sync_seconds_sum")
        begin = time.monotonic()
        client.publish_all("a", b"1", properties=PERSISTENT)
        client.publish_all("a", b"2", properties=PERSISTENT)
        client.publish_all("a", b"transient")
        # No queue gets it: nobody is waited for.
        client.publish_all("nowhere", b"3")
        took_seconds = time.monotonic() - begin
        scrape = scraped(broker)
    assert scrape.types["leveret_confirm_seconds"] == "histogram"
    counted = {("persistent",): 2, ("transient",): 1}
    assert scrape.samples("leveret_confirm_seconds_count") == counted
    seconds = scrape.samples("leveret_confirm_seconds_sum")
    assert 0 < sum(seconds.values()) <= took_seconds
    # Each of the persistent ones waited for its sync.
    sync_seconds = scrape.value("leveret_journal_sync_seconds_sum") - syncs
    assert seconds[("persistent",)] >= sync_seconds


def test_publishes_without_confirms_and_transactions_are_not_timed(broker: leveret.Broker) -> None:
    with Client(broker.host, broker.port) as client:
        client.log_in()
        client.open_channel()
        client.declare("a")
        client.send(publish("a", b"unconfirmed"))
        client.open_channel(2)
        client.ask(2, TxSelect())
        client.send(publish("a", b"in a transaction", channel=2))
        client.ask(2, TxCommit())
        client.wait_for_counts("a", (2, 0))
        scrape = scraped(broker)
    assert scrape.value("leveret_confirm_seconds_count") == 0
