"""The trace beside the hops of messages: connections, channels, consumers, queues, flow, alarms."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import leveret
import pytest
from gated_files import GatedFiles
from insides import context_of, listener_of, wait_until
from leveret.actors.disk.disk_watch import DISK_REASON
from leveret.actors.messages import AlarmCleared
from leveret.actors.runtime.runtime import tell
from leveret.amqp_frames.methods import (
    BasicCancel,
    BasicNack,
    ChannelClose,
    ChannelFlow,
    ConnectionBlocked,
    ConnectionUnblocked,
    QueueDeclare,
    QueueDelete,
    TxCommit,
    TxRollback,
    TxSelect,
)
from leveret.amqp_frames.values.field_table import table_of
from leveret.commands.control_client import ask_broker
from leveret.open_accounts import new_password_hash
from traced import client_of, names, trace_of, traced
from wire import PERSISTENT, TRANSIENT, Client, publish

Line = dict[str, Any]


def of(lines: list[Line], *events: str) -> list[Line]:
    return [line for line in lines if line["event"] in events]


def told(line: Line, *fields: str) -> tuple[Any, ...]:
    return tuple(line[field] for field in fields)


def test_the_life_of_a_connection_a_channel_a_queue_and_its_consumers(tmp_path: Path) -> None:
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("queue", durable=True)
        client.declare("other")
        client.consume("queue", "one")
        client.consume("queue", "two", no_ack=True)
        client.consume("other", "three")
        client.ask(1, BasicCancel("one"))
        client.ask(1, ChannelFlow(True))
        client.ask(1, QueueDelete(queue="other"))
        client.open_channel(2)
        client.close()
    lines = trace_of(tmp_path)
    opened, closed = of(lines, "connection.opened", "connection.closed")
    assert told(opened, "user", "vhost") == ("guest", "/")
    assert opened["connection"] == closed["connection"]
    assert [line["channel"] for line in of(lines, "channel.opened")] == [1, 2]
    assert [line["channel"] for line in of(lines, "channel.closed")] == [1, 2]
    declared = [told(line, "queue", "vhost", "durable") for line in of(lines, "queue.declared")]
    assert declared == [("queue", "/", True), ("other", "/", False)]
    added = [
        told(line, "queue", "consumer_tag", "no_ack", "prefetch")
        for line in of(lines, "consumer.added")
    ]
    assert added == [
        ("queue", "one", False, 0),
        ("queue", "two", True, 0),
        ("other", "three", False, 0),
    ]
    removed = [told(line, "consumer_tag", "reason") for line in of(lines, "consumer.removed")]
    assert removed == [
        ("one", "cancelled by the client"),
        ("three", "its queue is gone"),
        ("two", "its channel ended"),
    ]
    [flow] = of(lines, "channel.flow")
    assert told(flow, "channel", "active") == (1, True)


def test_what_is_refused_before_it_is_open_and_what_is_closed_for_a_mistake(
    tmp_path: Path,
) -> None:
    with traced(tmp_path) as broker:
        with Client(broker.host, broker.port) as client:
            client.send(b"GET / HTTP/1.1\r\n\r\n")
            client.read_bytes(8)
            client.expect_closed()
        with client_of(broker) as client:
            client.send_methods(3, ChannelFlow(True))
            client.read_method(0)
    lines = trace_of(tmp_path)
    [refused] = of(lines, "connection.refused")
    assert refused["user"] == ""
    assert refused["reason"]
    [error] = of(lines, "connection.error")
    assert told(error, "user", "reason") == (
        "guest",
        "504 CHANNEL_ERROR - expected 'channel.open'",
    )


def test_a_permission_is_told_of_with_what_it_was_for(tmp_path: Path) -> None:
    with traced(tmp_path) as broker:
        directory = broker.configuration.data_dir
        secret = {"user": "ann", "password_hash": new_password_hash("hare", 10), "tags": []}
        ask_broker(directory, "user add", secret)
        may = {"configure": "^mine$", "write": "^amq.default$", "read": "^mine$"}
        ask_broker(directory, "permissions set", {"user": "ann", "vhost": "/"} | may)
        with Client(broker.host, broker.port) as client:
            client.log_in(user="ann", password="hare")
            client.open_channel(1, confirms=True)
            client.declare("mine")
            client.publish_all("mine", b"1")
            client.send(publish("mine", b"2") + publish("mine", b"3", exchange="amq.fanout"))
            assert isinstance(client.read_method(1), ChannelClose)
            client.open_channel(2)
            client.send_methods(2, QueueDeclare(queue="yours"))
            assert isinstance(client.read_method(2), ChannelClose)
    lines = trace_of(tmp_path)
    granted = [told(line, "user", "messages") for line in of(lines, "permission.granted")]
    assert granted == [("ann", [[0, 0]]), ("ann", [[0, 0]])]
    refused = [
        told(line, "channel", "user", "reply_code") for line in of(lines, "permission.refused")
    ]
    assert refused == [(1, "ann", 403), (2, "ann", 403)]
    text = (
        "ACCESS_REFUSED - write access to exchange 'amq.fanout' in vhost '/' refused for user 'ann'"
    )
    [message] = of(lines, "message.refused")
    assert told(message, "messages", "seq_no", "reply_code", "reason") == (
        [[1, 1]],
        [[3, 3]],
        403,
        text,
    )


def test_another_mistake_of_a_publish_is_no_matter_of_permissions(tmp_path: Path) -> None:
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.send(publish("x", b"1", exchange="missing"))
        assert isinstance(client.read_method(1), ChannelClose)
    lines = trace_of(tmp_path)
    [message] = of(lines, "message.refused")
    assert told(message, "seq_no", "reply_code") == ([[1, 1]], 404)
    assert not of(lines, "permission.refused")


def test_a_nack_says_why(tmp_path: Path) -> None:
    full = table_of({"x-max-length": 1, "x-overflow": "reject-publish"})
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("queue", arguments=full)
        client.publish_all("queue", b"1")
        client.send(publish("queue", b"2"))
        assert isinstance(client.read_method(1), BasicNack)
    [nacked] = of(trace_of(tmp_path), "confirm.nacked")
    assert told(nacked, "seq_no", "reason") == ([[2, 2]], "queue 'queue': the queue is full")


def test_transactions(tmp_path: Path) -> None:
    with traced(tmp_path) as broker, Client(broker.host, broker.port) as client:
        client.log_in()
        client.open_channel(1)
        client.declare("queue", durable=True)
        client.ask(1, TxSelect())
        client.send(publish("queue", b"1", PERSISTENT) + publish("queue", b"2", TRANSIENT))
        client.ask(1, TxCommit())
        assert client.get("queue") is not None
        client.send(publish("queue", b"3", PERSISTENT))
        client.ask(1, TxRollback())
        full = table_of({"x-max-length": 1, "x-overflow": "reject-publish"})
        client.declare("full", arguments=full)
        client.send(publish("full", b"4") + publish("full", b"5"))
        client.send_methods(1, TxCommit())
        assert isinstance(client.read_method(1), ChannelClose)
    lines = trace_of(tmp_path)
    events = [
        told(line, "event", "publishes", "acks", "reason")
        for line in lines
        if line["event"].startswith("transaction.")
    ]
    assert events == [
        ("transaction.committed", 2, 0, ""),
        ("transaction.rolled_back", 1, 0, ""),
        ("transaction.failed", 2, 0, "partial tx completion"),
    ]


def blocked(broker: leveret.Broker, alarm: str) -> None:
    context_of(broker).alarms.reason = alarm
    if not alarm:
        tell(listener_of(broker), AlarmCleared())


def test_a_publisher_that_is_blocked_by_an_alarm(tmp_path: Path) -> None:
    with traced(tmp_path) as broker, Client(broker.host, broker.port) as client:
        client.log_in(capabilities=("connection.blocked",))
        client.open_channel(1, confirms=True)
        client.declare("queue")
        blocked(broker, DISK_REASON)
        client.send(publish("queue", b"1"))
        client.expect(0, ConnectionBlocked(DISK_REASON))
        blocked(broker, "")
        client.expect(0, ConnectionUnblocked())
        client.expect_acks(range(1, 2))
    lines = trace_of(tmp_path)
    flow = [
        told(line, "event", "reason")
        for line in lines
        if line["event"].startswith(("flow.", "connection.blocked", "connection.unblocked"))
    ]
    assert flow == [
        ("connection.blocked", DISK_REASON),
        ("flow.paused", "there is an alarm"),
        ("connection.unblocked", "the alarm is over"),
        ("flow.resumed", ""),
    ]


def test_the_alarm_itself(tmp_path: Path) -> None:
    free = [10**9]

    class Disk(GatedFiles):
        def free_bytes(self, path: str) -> int:
            return free[0]

    settings = {"files": Disk(), "disk_free_bytes_min": 1000, "disk_check_interval_ms": 10}
    with traced(tmp_path, **settings) as broker:
        free[0] = 999
        wait_until(lambda: bool(context_of(broker).alarms.reason))
        free[0] = 1000
        wait_until(lambda: not context_of(broker).alarms.reason)
    alarms = [
        told(line, "event", "actor", "reason", "free_bytes", "free_bytes_min")
        for line in of(trace_of(tmp_path), "alarm.raised", "alarm.cleared")
    ]
    assert alarms == [
        ("alarm.raised", "disk watch", DISK_REASON, 999, 1000),
        ("alarm.cleared", "disk watch", DISK_REASON, 1000, 1000),
    ]


def test_a_publisher_that_is_not_read_because_its_publishes_wait(tmp_path: Path) -> None:
    files = GatedFiles()
    settings: dict[str, object] = {"files": files, "publish_window_bytes_max": 65_536}
    with traced(tmp_path, **settings) as broker, client_of(broker) as client:
        client.declare("queue", durable=True)
        files.hold()
        client.send(publish("queue", b"x" * 70_000, PERSISTENT))
        files.wait_until_syncing()
        files.release()
        client.expect_acks(range(1, 2))
        client.ask(1, ChannelFlow(True))
    paused, resumed = of(trace_of(tmp_path), "flow.paused", "flow.resumed")
    assert told(paused, "event", "reason") == (
        "flow.paused",
        "its publishes wait inside the broker",
    )
    assert paused["held_bytes"] > 65_536
    assert told(resumed, "event", "reason") == ("flow.resumed", "")
    assert resumed["held_bytes"] <= 32_768


@pytest.mark.parametrize(
    ("filter_of", "kept"),
    [
        ({"queues": ["this"]}, {"queue": {"this"}, "user": {"guest"}}),
        ({"users": ["ann"]}, {"queue": {"this", "that"}, "user": set()}),
        ({"connections": ["1.2.3.4:5"]}, {"queue": {"this", "that"}, "user": set()}),
    ],
)
def test_a_filter_leaves_out_the_lives_of_others(
    filter_of: dict[str, list[str]], kept: dict[str, set[str]], tmp_path: Path
) -> None:
    with traced(tmp_path, trace_one_of=0) as broker:
        with client_of(broker) as client:
            client.declare("this")
        ask_broker(broker.configuration.data_dir, "trace on", {"rate": 1.0, **filter_of})
        with client_of(broker) as client:
            client.ask(1, QueueDelete(queue="this"))
            client.declare("this")
            client.declare("that")
            for queue in ("this", "that"):
                client.consume(queue, f"of {queue}")
    lines = trace_of(tmp_path)
    for field, values in kept.items():
        assert {line[field] for line in lines if field in line} == values


def test_nothing_of_it_is_written_while_the_trace_is_off(tmp_path: Path) -> None:
    with traced(tmp_path) as broker:
        ask_broker(broker.configuration.data_dir, "trace off", {})
        with client_of(broker) as client:
            client.declare("queue")
            client.consume("queue")
    assert names(trace_of(tmp_path)) == ["trace.started", "trace.stopped"]
