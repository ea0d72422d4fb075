"""Message rates and samples of the API, on a live broker whose ticks the test makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import leveret
import pytest
from asking_http import asked
from certificates import Certificates, TlsClient
from insides import context_of, on_loop, part
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicDeliver,
    BasicQos,
    BasicQosOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionTune,
    ConnectionTuneOk,
)
from leveret.amqp_frames.values.field_table import encode_table
from leveret.core.statistics.sampling import GAUGES, Sampling
from wire import Client, publish

Connect = Callable[..., Client]
TICK_SECONDS = 86_400
RANGES = "lengths_age=864000&lengths_incr=86400&msg_rates_age=864000&msg_rates_incr=86400"


@pytest.fixture
def settings(certificates: Certificates) -> dict[str, object]:
    # No tick but those of the test.
    return certificates.settings() | {
        "http_listener": "on",
        "http_port": 0,
        "password_hash_cost": 10,
        "statistics_interval_ms": TICK_SECONDS * 1000,
    }


def get(broker: leveret.Broker, path: str) -> Any:
    answer = asked(broker, "GET", path, None, "guest", "guest")
    assert answer.status == 200, answer
    return answer.content


def sample(broker: leveret.Broker, tick: int) -> None:
    sampling, context = part(broker.node, Sampling), context_of(broker)
    traffic = [each.traffic for each in context.open_connections.values()]
    steps = sampling.sample(tick, traffic, lambda: range(len(GAUGES)))
    on_loop(broker, lambda: list(steps))


def worked(connect: Connect) -> Client:
    """A channel that publishes 18 messages to "q", gets 10 and acks 4."""
    client = connect()
    client.open_channel(1, confirms=True)
    client.declare("q")
    client.send(*[publish("q")] * 18)
    client.expect_acks(range(1, 19))
    assert client.ask(1, BasicQos(prefetch_count=10)) == BasicQosOk()
    client.consume("q", tag="tag")
    for _ in range(10):
        client.expect_type(1, BasicDeliver)
        client.read_content(1)
    client.send_methods(1, BasicQos(prefetch_count=1), BasicAck(4, True))
    client.expect(1, BasicQosOk())
    for _ in range(4):
        client.expect_type(1, BasicDeliver)
        client.read_content(1)
    return client


def test_counts_rates_and_samples_are_as_in_rabbitmq(
    broker: leveret.Broker, connect: Connect
) -> None:
    sample(broker, 1_000_000)
    client = worked(connect)
    # Not sampled yet: the counts are there, and no rate.
    queue = get(broker, "/api/queues/%2F/q")
    assert queue["message_stats"]["publish"] == 18
    assert queue["message_stats"]["publish_details"] == {"rate": 0.0}
    sample(broker, 1_000_001)
    expected = {"ack": 4, "deliver": 14, "deliver_get": 14, "publish": 18}
    for path in ("/api/queues/%2F/q", "/api/vhosts/%2F", "/api/overview"):
        row = get(broker, f"{path}?{RANGES}")
        stats = row["message_stats"]
        for name, count in expected.items():
            found = stats[f"{name}_details"]
            samples = [each["sample"] for each in found["samples"]]
            assert (stats[name], found["rate"]) == (count, count / TICK_SECONDS), (path, name)
            assert samples == [count, 0], (path, name)
            assert (found["avg"], found["avg_rate"]) == (count / 2, count / TICK_SECONDS)
        lengths = row.get("queue_totals", row)
        names = "messages", "messages_ready", "messages_unacknowledged"
        assert [lengths[name] for name in names] == [14, 4, 10]
        rates = [lengths[f"{name}_details"]["rate"] * TICK_SECONDS for name in names]
        assert rates == pytest.approx([14, 4, 10])
    [channel] = get(broker, "/api/channels")
    assert channel["message_stats"]["confirm_details"] == {"rate": 18 / TICK_SECONDS}
    [connection] = get(broker, "/api/connections")
    octets = connection["recv_oct"]
    assert connection["recv_oct_details"] == {"rate": octets / TICK_SECONDS}
    overview = get(broker, "/api/overview")
    assert overview["sample_retention_policies"]["global"] == [121 * TICK_SECONDS]
    assert overview["churn_rates"]["queue_created"] == 1
    sample(broker, 1_000_002)
    [queue] = get(broker, "/api/queues")
    assert queue["message_stats"]["publish_details"] == {"rate": 0.0}
    client.drop()


def test_a_reset_forgets_samples_and_keeps_counts(broker: leveret.Broker) -> None:
    """As RabbitMQ does."""
    message = {"routing_key": "q", "payload": "x", "payload_encoding": "string", "properties": {}}
    assert asked(broker, "PUT", "/api/queues/%2F/q", {}).status == 201
    sample(broker, 1_000_000)
    for tick in range(1_000_001, 1_000_003):
        asked(broker, "POST", "/api/exchanges/%2F/amq.default/publish", message)
        sample(broker, tick)

    def samples() -> list[int]:
        stats = get(broker, f"/api/queues/%2F/q?{RANGES}")["message_stats"]
        assert stats["publish"] == 2
        return [each["sample"] for each in stats["publish_details"]["samples"]]

    assert samples() == [2, 1, 0]
    node = get(broker, "/api/overview")["node"]
    assert asked(broker, "DELETE", "/api/reset/elsewhere").status == 404
    assert samples() == [2, 1, 0]
    for path in ("/api/reset", f"/api/reset/{node}"):
        assert asked(broker, "DELETE", path)[:2] == (204, None)
        assert samples() == [2]
    sample(broker, 1_000_003)
    assert samples() == [2, 2]


def test_pages_break_messages_down_as_in_rabbitmq(broker: leveret.Broker, connect: Connect) -> None:
    client = worked(connect)
    sample(broker, 1_000_000)
    [listed] = get(broker, "/api/channels")
    channel = get(broker, f"/api/channels/{quote(listed['name'])}")
    queue, exchange = {"name": "q", "vhost": "/"}, {"name": "", "vhost": "/"}
    rate = {"rate": 18 / TICK_SECONDS}
    none = {"rate": 0.0}
    published = {
        "confirm": 18,
        "confirm_details": rate,
        "drop_unroutable": 0,
        "drop_unroutable_details": none,
        "publish": 18,
        "publish_details": rate,
        "return_unroutable": 0,
        "return_unroutable_details": none,
    }
    assert channel["publishes"] == [{"exchange": exchange, "stats": published}]
    [delivered] = channel["deliveries"]
    assert delivered["queue"] == queue
    assert (delivered["stats"]["deliver"], delivered["stats"]["ack"]) == (14, 4)
    page = get(broker, "/api/queues/%2F/q")
    to_queue = {"publish": 18, "publish_details": rate}
    assert page["incoming"] == [{"exchange": exchange, "stats": to_queue}]
    [delivery] = page["deliveries"]
    assert delivery["stats"] == delivered["stats"]
    assert delivery["channel_details"]["name"] == channel["name"]
    page = get(broker, "/api/exchanges/%2F/amq.default")
    assert page["outgoing"] == [{"queue": queue, "stats": to_queue}]
    [incoming] = page["incoming"]
    assert incoming["stats"] == published
    assert incoming["channel_details"]["number"] == 1
    assert page["message_stats"]["publish_in"] == page["message_stats"]["publish_out"] == 18
    client.drop()


@pytest.mark.parametrize("kind", ["queues", "exchanges"])
def test_rows_of_short_lists_have_samples_and_of_long_ones_rates(
    kind: str, broker: leveret.Broker, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    sample(broker, 1_000_000)
    client = worked(connect)
    sample(broker, 1_000_001)
    one = {"queues": "q", "exchanges": "amq.default"}[kind]
    stats = get(broker, f"/api/{kind}/%2F/{one}?{RANGES}")["message_stats"]

    def listed_stats() -> Any:
        rows = get(broker, f"/api/{kind}/%2F?{RANGES}")
        [row] = [row for row in rows if row["name"] in (one, "")]
        return row["message_stats"]

    assert listed_stats() == stats
    assert any("samples" in each for each in stats.values() if isinstance(each, dict))
    monkeypatch.setattr("leveret.management.listing.SNAPSHOT_ROWS_MIN", 0)
    assert listed_stats().keys() == stats.keys()
    assert "samples" not in str(listed_stats())
    client.drop()


def test_ranges_that_cannot_be_are_refused_in_rabbitmqs_words(broker: leveret.Broker) -> None:
    for query in ("lengths_age=60&lengths_incr=0", "lengths_age=9999999&lengths_incr=1"):
        age, increment = (part.partition("=")[2] for part in query.split("&"))
        answer = asked(broker, "GET", f"/api/overview?{query}", None, "guest", "guest")
        reason = f"Invalid range parameters: age {age}, incr {increment}"
        assert answer.content == {"error": "bad_request", "reason": reason}
        assert answer.status == 400
    # As in RabbitMQ: half a range is none.
    totals = get(broker, "/api/overview?lengths_age=60&msg_rates_age=x&msg_rates_incr=5")
    assert totals["queue_totals"]["messages_details"] == {"rate": 0.0}


def test_consumers_and_queues_name_who_is_active(broker: leveret.Broker, connect: Connect) -> None:
    client = connect()
    client.open_channel(1)
    client.declare("single", arguments={"x-single-active-consumer": True})
    client.declare("exclusive")
    client.consume("single", tag="first")
    client.consume("single", tag="second")
    client.consume("exclusive", tag="alone", exclusive=True)
    rows = {row["consumer_tag"]: row for row in get(broker, "/api/consumers")}
    assert {tag: (row["active"], row["activity_status"]) for tag, row in rows.items()} == {
        "alone": (True, "up"),
        "first": (True, "single_active"),
        "second": (False, "waiting"),
    }
    exclusive, single = get(broker, "/api/queues")
    assert exclusive["exclusive_consumer_tag"] == "alone"
    assert exclusive["single_active_consumer_tag"] is None
    assert single["exclusive_consumer_tag"] is None
    assert single["single_active_consumer_tag"] == "first"


def test_queues_and_channels_are_idle_since_the_sample_of_their_last_change(
    broker: leveret.Broker, connect: Connect
) -> None:
    def idle() -> list[str | None]:
        [channel] = get(broker, "/api/channels")
        return [each.get("idle_since") for each in (*get(broker, "/api/queues"), channel)]

    client = connect()
    client.open_channel(1, confirms=True)
    client.declare("q")
    assert idle() == [None, None]
    client.publish_all("q", b"1")
    tick = 1_800_000_000 // TICK_SECONDS
    sample(broker, tick)
    assert idle() == [None, None]
    for later in (1, 2):
        sample(broker, tick + later)
        assert idle() == ["2027-01-15T00:00:00.000+00:00"] * 2
    client.send(publish("q"))
    client.expect_acks(range(2, 3))
    sample(broker, tick + 3)
    assert idle() == [None, None]


def test_a_connection_names_its_mechanism_and_the_brokers_own_end(
    broker: leveret.Broker, client: Client
) -> None:
    [connection] = get(broker, "/api/connections")
    assert connection["auth_mechanism"] == "PLAIN"
    assert (connection["host"], connection["port"]) == (broker.host, broker.port)
    assert connection["ssl"] is False


def test_a_connection_over_tls_names_its_protocol_cipher_and_port(
    broker: leveret.Broker, certificates: Certificates
) -> None:
    assert broker.tls_port is not None
    with TlsClient(broker.host, broker.tls_port, certificates.client()) as client:
        response = encode_table({"LOGIN": "guest", "PASSWORD": "guest"})[4:]
        client.offer(mechanism="AMQPLAIN", response=response)
        tune = client.expect_type(0, ConnectionTune)
        answer = ConnectionTuneOk(tune.channel_max, tune.frame_max, 0)
        client.send_methods(0, answer, ConnectionOpen(virtual_host="/"))
        client.expect_type(0, ConnectionOpenOk)
        [connection] = get(broker, "/api/connections")
        assert connection["auth_mechanism"] == "AMQPLAIN"
        assert connection["port"] == broker.tls_port
        assert connection["ssl"] is True
        assert connection["ssl_protocol"] == "tlsv1.3"
        assert connection["ssl_cipher"].startswith("TLS_")
