"""Events and explanations show the message's own facts, and its connection and user."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pika
import pytest
from gated_files import GatedFiles
from leveret.amqp_frames.methods import BasicAck, BasicDeliver, BasicNack
from leveret.commands.command_line import main
from leveret.commands.control_client import ask_broker
from leveret.core.connection.handshake import CONNECTION_NAME_CHARACTERS_MAX
from leveret.logs.reading.tail import TraceTail
from traced import client_of, explained, explanation, trace_of, traced, wait_for_events
from wire import PERSISTENT, Client, publish

Line = dict[str, Any]


def of(lines: list[Line], event: str) -> list[Line]:
    return [line for line in lines if line["event"] == event]


def test_each_message_of_a_batch_is_explained_with_its_own_queue_and_its_own_sync(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = GatedFiles()
    with traced(tmp_path, files=files) as broker, client_of(broker) as client:
        for queue in ("one", "two"):
            client.declare(queue, durable=True)
        client.declare("memory")
        files.hold()
        # What the other queues append goes into a later commit than this one.
        client.send(publish("one", b"0", PERSISTENT))
        files.wait_until_syncing()
        client.send(
            publish("one", b"1", PERSISTENT) + publish("two", b"2", PERSISTENT) + publish("memory")
        )
        files.release()
        client.expect_acks(range(1, 5))
    inserted = of(trace_of(tmp_path), "unconfirmed.inserted")
    assert [line["queues"] for line in inserted] == [["one"], ["one"], ["two"], ["memory"]]
    said = explanation(tmp_path, capsys, 4)
    assert not any("journal.synced" in line or "one" in line.split("queues=")[-1] for line in said)
    assert any("batch_messages=3 batch_bytes=" in line for line in said)
    for number in (1, 2, 3):
        story = explanation(tmp_path, capsys, number)
        assert sum("journal.synced" in line for line in story) == 1
        # No sync stands behind its confirm.
        assert "confirm.sent" in story[-2]


def test_deliveries_and_acks_say_whose_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with traced(tmp_path) as broker, client_of(broker) as publisher:
        publisher.declare("queue")
        publisher.publish_all("queue", b"1", b"2", b"3")
        parameters = pika.ConnectionParameters(
            broker.host, broker.port, client_properties={"connection_name": "billing"}
        )
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel(7)
            for number, body in enumerate((b"1", b"2", b"3"), 1):
                method, _properties, got = channel.basic_get("queue")
                assert (method.delivery_tag, got) == (number, body)
            channel.basic_ack(1)
            channel.basic_nack(2, requeue=True)
            channel.basic_reject(3, requeue=False)
            publisher.wait_for_counts("queue", (1, 0))
    said = [explanation(tmp_path, capsys, number) for number in (1, 2, 3)]
    lines = trace_of(tmp_path)
    consumer = of(lines, "message.delivered")[0]["connection"]
    assert consumer != of(lines, "command.assembled")[0]["connection"]
    for line in of(lines, "message.delivered"):
        assert (line["connection"], line["channel"], line["client"]) == (consumer, 7, "billing")
    acks = of(lines, "ack.received")
    assert [(line["delivery_tag"], line["reason"]) for line in acks] == [
        ([[1, 1]], "acked"),
        ([[2, 2]], "given back"),
        ([[3, 3]], "rejected"),
    ]
    assert {(line["connection"], line["channel"]) for line in acks} == {(consumer, 7)}
    # The ack came in before the queue settled what it speaks of.
    assert lines.index(acks[0]) < lines.index(of(lines, "message.settled")[0])
    for story in said:
        [delivered] = [line for line in story if "message.delivered" in line]
        assert f"connection='{consumer}' channel=7 client='billing'" in delivered


def test_an_explanation_names_the_consumer_that_has_the_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("queue")
        client.publish_all("queue", b"1")
        tail = TraceTail(tmp_path / "data" / "traces", from_begin=True)
        with client_of(broker) as other:
            other.consume("queue", "worker")
            other.expect_type(1, BasicDeliver)
            other.read_content(1)
            wait_for_events(tail, "message.delivered")
            said = explanation(tmp_path, capsys)[-1]
    [delivered] = of(trace_of(tmp_path), "message.delivered")
    who = f"consumer 'worker' of {delivered['connection']} channel 1"
    assert said.endswith(f"In queue 'queue' it is with {who} after 1 delivery.")


def test_a_client_is_called_as_it_calls_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "orders-\x1b[2J" + "x" * 200
    with traced(tmp_path) as broker:
        parameters = pika.ConnectionParameters(
            broker.host, broker.port, client_properties={"connection_name": name}
        )
        with pika.BlockingConnection(parameters) as connection:
            channel = connection.channel()
            channel.confirm_delivery()
            channel.basic_publish("", "nowhere", b"x")
    cut = name[:CONNECTION_NAME_CHARACTERS_MAX]
    lines = trace_of(tmp_path)
    for event in ("connection.opened", "channel.opened", "command.assembled"):
        [line] = of(lines, event)
        assert (line["client"], line["vhost"]) == (cut, "/")
    head = explanation(tmp_path, capsys)[0]
    assert "orders-\\x1b[2J" in head
    assert "\x1b" not in head


def test_queues_of_one_name_in_two_virtual_hosts_are_two(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("duckdb")
    with traced(tmp_path) as broker:
        data = tmp_path / "data"
        ask_broker(data, "vhost add", {"vhost": "other"})
        rights = {"configure": ".*", "write": ".*", "read": ".*"}
        ask_broker(data, "permissions set", {"user": "guest", "vhost": "other", **rights})
        for vhost, count in (("/", 2), ("other", 3)):
            with Client(broker.host, broker.port) as client:
                client.log_in(vhost=vhost)
                client.open_channel(1, confirms=True)
                client.declare("orders", durable=True)
                client.publish_all("orders", *[b"x"] * count, properties=PERSISTENT)
    lines = trace_of(tmp_path)
    assert {line["vhost"] for line in lines if "queue" in line} == {"/", "other"}
    assert main(["trace", "report", "--json", "--data-dir", str(data)]) == 0
    queues = json.loads(capsys.readouterr().out)["queues"]
    assert [(each["vhost"], each["queue"], each["traced"]["confirmed"]) for each in queues] == [
        ("/", "orders", 2),
        ("other", "orders", 3),
    ]
    assert main(["trace", "report", "--data-dir", str(data)]) == 0
    table = capsys.readouterr().out
    assert "orders (/)" in table
    assert "orders (other)" in table
    assert main(["trace", "check", "--data-dir", str(data)]) == 0


def test_a_confirm_waits_recorded_until_it_can_be_sent_with_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with traced(tmp_path) as broker, client_of(broker) as client:
        for queue in ("one", "two"):
            client.declare(queue)
        client.send(publish("one", b"1") + publish("two", b"2"))
        client.expect_acks(range(1, 3))
        client.send(publish("nowhere", b"3", mandatory=False))
        client.expect(1, BasicAck(3))
    lines = trace_of(tmp_path)
    for number in (1, 2):
        story = explanation(tmp_path, capsys, number)
        hops = [line.split()[5] for line in story[1:-1]]
        assert hops[-4:] == [
            "confirm.queued",
            "confirm.received",
            "confirm.recorded",
            "confirm.sent",
        ]
    recorded = [line["seq_no"] for line in of(lines, "confirm.recorded")]
    assert recorded == [[[1, 1]], [[2, 2]]]


def test_each_message_is_explained_with_the_reason_of_the_queue_that_refused_it(
    tmp_path: Path,
) -> None:
    from leveret.amqp_frames.values.field_table import table_of

    full = table_of({"x-max-length": 0, "x-overflow": "reject-publish"})
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("full", arguments=full)
        client.declare("other", arguments=full)
        client.send(publish("full", b"1") + publish("other", b"2"))
        client.expect_type(1, BasicNack)
        client.nothing_more()
    rejections = of(trace_of(tmp_path), "rejection.received")
    assert [(line["queue"], line["seq_no"]) for line in rejections] == [
        ("full", [[1, 1]]),
        ("other", [[2, 2]]),
    ]
    for nacked in of(trace_of(tmp_path), "confirm.nacked"):
        reason = nacked.get("reason", "")
        assert nacked["seq_no"] != [[1, 2]] or reason == ""


def test_an_id_of_an_earlier_form_is_explained_without_what_it_does_not_say(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As a broker of version 1 wrote it: no vhost, no client, no ack, no confirm's way."""
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("queue", durable=True)
        client.publish_all("queue", b"x", properties=PERSISTENT)
        got = client.get("queue")
        assert got is not None
        client.send_methods(1, BasicAck(got.delivery_tag))
        client.wait_for_counts("queue", (0, 0))
    newer = ("vhost", "client", "batch_messages", "format", "users", "connections")
    events = ("ack.received", "confirm.received", "confirm.recorded")
    old = [
        {name: value for name, value in line.items() if name not in newer}
        for line in trace_of(tmp_path)
        if line["event"] not in events
    ]
    traces = tmp_path / "data" / "traces"
    [path] = traces.iterdir()
    path.write_text("".join(json.dumps(line) + "\n" for line in old))
    message_id = f"{old[0]['boot']}-1-0"
    said = explained(tmp_path, capsys, message_id)
    assert said[0].endswith("channel 1, publish 1")
    assert said[-1] == (
        "Confirmed because queue 'queue' has it after its fsync. In queue 'queue' it is done "
        "(acked) after 1 delivery."
    )
    assert main(["trace", "check", "--data-dir", str(tmp_path / "data")]) == 0
    assert "1 publish answered, 0 open at the end, 0 faults" in capsys.readouterr().out
