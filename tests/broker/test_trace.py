"""The trace of a live broker: every hop of a message, in order, with its facts."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

import leveret
import pytest
from insides import wait_until
from leveret.amqp_frames.methods import BasicAck, BasicNack, BasicReturn, QueueBind, QueueBindOk
from leveret.amqp_frames.values.field_table import table_of
from leveret.commands.command_line import main
from traced import client_of, names, trace_of, traced
from wire import PERSISTENT, TRANSIENT, Client, publish


def test_a_mandatory_persistent_publish_is_told_of_hop_by_hop(tmp_path: Path) -> None:
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("testQueue", durable=True)
        bind = QueueBind(queue="testQueue", exchange="amq.direct", routing_key="testQueue")
        assert isinstance(client.ask(1, bind), QueueBindOk)
        client.send(
            publish("testQueue", b"hello", PERSISTENT, exchange="amq.direct", mandatory=True)
        )
        client.expect(1, BasicAck(delivery_tag=1))
    lines = trace_of(tmp_path)
    assert names(lines) == [
        "trace.started",
        "connection.opened",
        "channel.opened",
        "queue.declared",
        "frame.received",
        "command.assembled",
        "permission.granted",
        "message.routed",
        "unconfirmed.inserted",
        "message.enqueued",
        "journal.appended",
        "journal.synced",
        "message.persisted",
        "confirm.queued",
        "confirm.received",
        "confirm.recorded",
        "confirm.sent",
        "connection.closed",
        "channel.closed",
        "trace.stopped",
    ]
    by_name = {line["event"]: line for line in lines}
    assert by_name["command.assembled"]["seq_no"] == [[1, 1]]
    routed = by_name["message.routed"]
    assert (routed["exchange"], routed["routing_key"]) == ("amq.direct", "testQueue")
    assert (routed["mandatory"], routed["queues"]) == (True, ["testQueue"])
    assert (routed["vhost"], by_name["confirm.received"]["queue"]) == ("/", "testQueue")
    inserted = by_name["unconfirmed.inserted"]
    assert (inserted["unconfirmed_before"], inserted["unconfirmed_after"]) == (0, 1)
    assert by_name["message.enqueued"]["waits_for_sync"] == [[0, 0]]
    assert by_name["journal.synced"]["batches"] == [routed["batch"]]
    sent = by_name["confirm.sent"]
    assert (sent["unconfirmed_before"], sent["unconfirmed_after"]) == (1, 0)
    assert (sent["cumulative"], sent["singles"]) == (0, [[1, 1]])
    assert by_name["channel.closed"]["seq_no"] == []
    moments = [line["t_ns"] for line in lines]
    assert moments == sorted(moments)


def test_a_return_a_drop_and_a_transient_message(tmp_path: Path) -> None:
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("queue")
        client.send(
            publish("nowhere", b"1", PERSISTENT, mandatory=True)
            + publish("nowhere", b"2", PERSISTENT)
            + publish("queue", b"3", TRANSIENT)
        )
        assert isinstance(client.read_method(1), BasicReturn)
        client.read_content(1)
        client.expect(1, *(BasicAck(delivery_tag=number) for number in (1, 2, 3)))
    lines = trace_of(tmp_path)
    by_name = {line["event"]: line for line in lines}
    assert by_name["message.returned"]["seq_no"] == [[1, 1]]
    assert by_name["message.dropped"]["seq_no"] == [[2, 2]]
    assert by_name["unconfirmed.inserted"]["seq_no"] == [[3, 3]]
    assert by_name["message.enqueued"]["waits_for_sync"] == []
    # The return has its own ack behind it; the queue's confirm comes a turn later.
    sent = [line["seq_no"] for line in lines if line["event"] == "confirm.sent"]
    assert sent == [[[2, 2]], [[3, 3]]]


def test_why_a_message_became_a_dead_letter(tmp_path: Path) -> None:
    with traced(tmp_path) as broker, client_of(broker) as client:
        to_dead = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
        client.declare("queue", arguments=table_of(to_dead | {"x-max-length": 1}))
        client.declare("dead")
        client.publish_all("queue", b"1", b"2")
        got = client.get("queue")
        assert got is not None
        client.send_methods(1, BasicNack(got.delivery_tag, requeue=False))
        client.wait_for_counts("dead", (2, 0))
    lines = trace_of(tmp_path)
    lettered = [line for line in lines if line["event"] == "message.dead_lettered"]
    assert [(line["messages"], line["reason"], line["queues"]) for line in lettered] == [
        ([[0, 0]], "maxlen", ["dead"]),
        ([[1, 1]], "rejected", ["dead"]),
    ]
    settled = [line for line in lines if line["event"] == "message.settled"]
    assert [(line["messages"], line["reason"]) for line in settled] == [
        ([[0, 0]], "its dead letter is safe"),
        ([[1, 1]], "its dead letter is safe"),
    ]


def test_deliveries_acks_and_what_comes_back(tmp_path: Path) -> None:
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("queue", durable=True)
        client.publish_all("queue", b"1", b"2", properties=PERSISTENT)
        first = client.get("queue")
        assert first is not None
        client.send_methods(1, BasicAck(delivery_tag=1))
        second = client.get("queue")
        assert second is not None
        client.send_methods(1, BasicNack(delivery_tag=2, requeue=True))
        third = client.get("queue")
        assert third is not None
    lines = trace_of(tmp_path)
    delivered = [line for line in lines if line["event"] == "message.delivered"]
    assert [line["attempt"] for line in delivered] == [1, 1, 2]
    assert [line["delivery_tag"] for line in delivered] == [[[1, 1]], [[2, 2]], [[3, 3]]]
    assert [line["queue"] for line in delivered] == ["queue"] * 3
    assert names(lines).count("message.settled") == 1
    requeued = [line["reason"] for line in lines if line["event"] == "message.requeued"]
    assert requeued == ["given back", "its channel ended"]
    # The next start tells what it found.
    with traced(tmp_path):
        pass
    again = [line for line in trace_of(tmp_path) if line["event"] == "message.recovered"]
    assert len(again) == 1
    assert again[0]["batch"] == delivered[1]["batch"]
    assert again[0]["messages"] == delivered[1]["messages"]


@pytest.mark.parametrize("one_of", [3, 10])
def test_a_sampled_message_keeps_all_its_hops_and_another_has_none(
    one_of: int, tmp_path: Path
) -> None:
    reads, messages = 40, 50
    with traced(tmp_path, trace_one_of=one_of) as broker, client_of(broker) as client:
        client.declare("queue", durable=True)
        for _ in range(reads):
            client.publish_all("queue", *[b"x"] * messages, properties=PERSISTENT)
    hops: dict[str, set[tuple[int, int]]] = {}
    for line in trace_of(tmp_path):
        for first, last in line.get("messages", ()):
            places = {(line["batch"], place) for place in range(first, last + 1)}
            hops.setdefault(line["event"], set()).update(places)
    assert set(hops) == {
        "frame.received",
        "command.assembled",
        "permission.granted",
        "message.routed",
        "unconfirmed.inserted",
        "message.enqueued",
        "journal.appended",
        "message.persisted",
        "confirm.queued",
        "confirm.received",
    }
    (chosen, *others) = hops.values()
    assert all(each == chosen for each in others)
    # A read of so few is chosen as a whole.
    assert len(chosen) == pytest.approx(reads * messages / one_of, abs=4 * messages)


def test_a_trace_filtered_by_queue_has_only_messages_of_these_queues(tmp_path: Path) -> None:
    with traced(tmp_path, trace_queues=("this",)) as broker, client_of(broker) as client:
        for queue in ("this", "that"):
            client.declare(queue)
            client.send(publish(queue, b"x", TRANSIENT))
            client.read_method(1)
    queues = [line["queue"] for line in trace_of(tmp_path) if "queue" in line]
    assert set(queues) == {"this"}


def number_of(path: Path) -> int:
    return int(path.name.partition(".")[0].rpartition("-")[2])


def test_files_are_as_long_and_as_many_as_the_settings_say(tmp_path: Path) -> None:
    traces = tmp_path / "data" / "traces"
    limits = {"trace_file_bytes_max": 4_096, "trace_files_max": 2}
    with traced(tmp_path, **limits) as broker, client_of(broker) as client:
        client.declare("queue")
        # Whichever are there to be seen: one that has ended may be gone again.
        while max((number_of(path) for path in traces.glob("trace-*")), default=0) < 7:
            client.publish_all("queue", *[b"x"] * 20)
    ended = list(traces.glob("trace-*.gz"))
    assert 1 <= len(ended) <= 2
    assert names(trace_of(tmp_path))[-1] == "trace.stopped"


def test_a_file_ends_at_the_age_that_the_settings_say(tmp_path: Path) -> None:
    traces = tmp_path / "data" / "traces"
    with traced(tmp_path, trace_file_age_seconds_max=1):
        wait_until(lambda: bool(list(traces.glob("*.jsonl.gz"))))


def test_nothing_is_written_while_it_is_off(
    tmp_path: Path, connect: Callable[..., Client], broker: leveret.Broker
) -> None:
    client = connect()
    client.open_channel(1, confirms=True)
    client.declare("queue")
    client.publish_all("queue", b"x")
    assert not (tmp_path / "data" / "traces").exists()


def test_a_disk_without_room_for_a_trace_keeps_no_broker_from_its_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    whole = os.posix_fallocate
    monkeypatch.setattr(os, "posix_fallocate", refuse)
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("queue", durable=True)
        client.publish_all("queue", b"x", properties=PERSISTENT)
        data_dir = ["--data-dir", str(tmp_path / "data")]
        assert main(["trace", "on", *data_dir]) == 1
        monkeypatch.setattr(os, "posix_fallocate", whole)
        assert main(["trace", "on", *data_dir]) == 0
        client.publish_all("queue", b"y", properties=PERSISTENT)
    failed, refused = capsys.readouterr().err.splitlines()
    assert '"event": "trace.failed", "error": "[Errno 28] No space left on device"' in failed
    assert refused == "leveret: the trace cannot be written: No space left on device"
    assert names(trace_of(tmp_path)).count("message.persisted") == 1


def test_the_trace_is_switched_on_changed_and_off_under_load_without_losing_messages(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data_dir = ["--data-dir", str(tmp_path / "data")]
    with traced(tmp_path, trace_one_of=0) as broker, client_of(broker) as client:
        client.declare("queue", durable=True)
        for command in (["on"], ["on", "--rate", "0.5", "--queue", "queue"], ["status"], ["off"]):
            client.publish_all("queue", *[b"x"] * 100, properties=PERSISTENT)
            assert main(["trace", *command, *data_dir]) == 0
        client.publish_all("queue", *[b"x"] * 100, properties=PERSISTENT)
        assert client.counts("queue") == (500, 0)
    said = capsys.readouterr().out.splitlines()
    assert [line.partition(",")[0] for line in said] == [
        "trace on (every message",
        "trace on (one of 2 messages",
        "trace on (one of 2 messages",
        "trace off",
    ]
    lines = trace_of(tmp_path)
    assert names(lines).count("trace.started") == 2
    assert names(lines).count("trace.stopped") == 1
    enqueued = [line["messages"] for line in lines if line["event"] == "message.enqueued"]
    count = sum(last - first + 1 for spans in enqueued for first, last in spans)
    # All of one hundred, then half of two.
    assert 190 <= count <= 210
    assert main(["trace", "check", *data_dir]) == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["on", "--rate", "2"], "bad trace rate 2.0: it must be above 0 and at most 1"),
        (["on", "--queue", "missing"], "there is no queue 'missing'"),
    ],
)
def test_what_cannot_be_switched_on_is_one_clear_line(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with traced(tmp_path, trace_one_of=0):
        assert main(["trace", *arguments, "--data-dir", str(tmp_path / "data")]) == 1
    assert capsys.readouterr().err == f"leveret: {said}\n"
