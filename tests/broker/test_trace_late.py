"""Messages with which something went wrong are traced from there on, whatever the sample is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gated_files import GatedFiles
from insides import context_of, wait_until
from leveret.amqp_frames.methods import BasicAck, BasicNack, BasicReturn
from leveret.amqp_frames.values.field_table import table_of
from leveret.commands.command_line import main
from traced import client_of, explained, names, trace_of, traced
from wire import PERSISTENT, Client, publish

Line = dict[str, Any]
# So few that none of a test's messages is chosen.
SAMPLE = {"trace_one_of": 1_000_000}
TO_DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}
FULL = {"x-max-length": 0, "x-overflow": "reject-publish"}
NOT_CHOSEN = "It is not among the messages that were chosen to be traced, and is traced only since "


def returned(client: Client) -> None:
    client.send(publish("nowhere", b"x", mandatory=True))
    client.expect_type(1, BasicReturn)
    client.read_content(1)
    client.expect(1, BasicAck(1))


def nacked(client: Client) -> None:
    client.declare("queue", arguments=table_of(FULL))
    client.send(publish("queue", b"x"))
    client.expect_type(1, BasicNack)


def expired(client: Client) -> None:
    client.declare("queue", arguments=table_of({"x-message-ttl": 1}))
    client.publish_all("queue", b"x")
    client.wait_for_counts("queue", (0, 0))


def dead_lettered(client: Client) -> None:
    client.declare("queue", arguments=table_of(TO_DEAD))
    client.declare("dead")
    client.publish_all("queue", b"x")
    got = client.get("queue")
    assert got is not None
    client.send_methods(1, BasicNack(got.delivery_tag, requeue=False))
    client.wait_for_counts("dead", (1, 0))


def redelivered(client: Client) -> None:
    client.declare("queue", durable=True)
    client.publish_all("queue", b"x", properties=PERSISTENT)
    got = client.get("queue")
    assert got is not None
    client.send_methods(1, BasicNack(got.delivery_tag, requeue=True))
    again = client.get("queue")
    assert again is not None
    client.send_methods(1, BasicAck(again.delivery_tag))
    client.wait_for_counts("queue", (0, 0))


@pytest.mark.parametrize(
    ("go_wrong", "hops", "said"),
    [
        (
            returned,
            ["message.returned"],
            "message.returned (NO_ROUTE): its earlier hops are not in the trace. Returned because "
            "no queue is bound for it and it was mandatory, and its own ack was written directly "
            "behind the return.",
        ),
        (
            nacked,
            ["confirm.rejected", "rejection.received", "confirm.recorded", "confirm.nacked"],
            "confirm.rejected (the queue is full): its earlier hops are not in the trace. Nacked "
            "because a queue will not have it (queue 'queue': the queue is full).",
        ),
        (
            expired,
            ["message.expired", "message.settled"],
            "message.expired (expired): its earlier hops are not in the trace. In queue 'queue' it "
            "is done (expired).",
        ),
        (
            dead_lettered,
            [
                *("message.rejected", "message.dead_lettered", "message.enqueued"),
                *("confirm.queued", "message.settled"),
            ],
            "message.rejected (rejected): its earlier hops are not in the trace. In queue 'queue' "
            "it is done (its dead letter is safe).",
        ),
        (
            redelivered,
            ["message.requeued", "message.delivered", "ack.received", "message.settled"],
            "message.requeued (given back): its earlier hops are not in the trace. In queue "
            "'queue' it is done (acked) after 2 deliveries.",
        ),
    ],
)
def test_a_message_is_traced_from_the_event_on_that_went_wrong(
    go_wrong: Callable[[Client], None],
    hops: list[str],
    said: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with traced(tmp_path, **SAMPLE) as broker, client_of(broker) as client:
        go_wrong(client)
    lines = trace_of(tmp_path)
    begin = next(at for at, line in enumerate(lines) if line.get("late"))
    of_messages = [
        line["event"]
        for line in lines
        if "messages" in line or line["event"] in ("confirm.recorded", "confirm.nacked")
    ]
    assert of_messages == hops
    first = lines[begin]
    assert first["event"] == hops[0]
    message_id = f"{first['boot']}-{first['batch']}-{first['messages'][0][0]}"
    explanation = explained(tmp_path, capsys, message_id)
    assert explanation[-1].startswith(f"{NOT_CHOSEN}{said}")
    assert any("one of 1000000 messages is traced" in line for line in explanation)
    if "seq_no" in first:
        place = ["--connection", first["connection"], "--seq-no", "1"]
        assert explained(tmp_path, capsys, *place) == explanation
    assert main(["trace", "check", "--data-dir", str(tmp_path / "data")]) == 0


def test_no_more_than_so_many_a_second_are_and_the_rest_is_counted(tmp_path: Path) -> None:
    limit = {"trace_failures_per_second_max": 3}
    with traced(tmp_path, **SAMPLE, **limit) as broker, client_of(broker) as client:
        client.send(*[publish("nowhere", b"x", mandatory=True)] * 10)
        for _ in range(10):
            client.expect_type(1, BasicReturn)
            client.read_content(1)
            client.expect_type(1, BasicAck)
    lines = trace_of(tmp_path)
    late = [line["messages"] for line in lines if line.get("late")]
    told = sum(last - first + 1 for spans in late for first, last in spans)
    skipped = sum(line["skipped"] for line in lines if line["event"] == "trace.limited")
    # The reads may fall into two seconds.
    assert told in (3, 4, 5, 6)
    assert told + skipped == 10


def test_a_filter_keeps_what_goes_wrong_elsewhere_out(tmp_path: Path) -> None:
    queues = {"trace_queues": ("other",)}
    with traced(tmp_path, **SAMPLE, **queues) as broker, client_of(broker) as client:
        redelivered(client)
    assert [line for line in trace_of(tmp_path) if "messages" in line] == []


def test_what_is_late_counts_nowhere_in_the_figures_of_the_sample(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("duckdb")
    with traced(tmp_path, **SAMPLE) as broker, client_of(broker) as client:
        redelivered(client)
    assert main(["trace", "report", "--json", "--data-dir", str(tmp_path / "data")]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert all(hop["messages"] == 0 for hop in figures["hops"].values())
    assert all(not any(queue["traced"].values()) for queue in figures["queues"])


def test_a_batch_whose_confirms_took_long_is_told_of_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = GatedFiles()
    slow = {"trace_slow_ms": 1, "files": files}
    with traced(tmp_path, **SAMPLE, **slow) as broker, client_of(broker) as client:
        client.declare("queue", durable=True)
        files.hold()
        client.send(*[publish("queue", b"x", PERSISTENT)] * 3)
        files.wait_until_syncing()
        trace = context_of(broker).trace
        since = trace.now_ns()
        wait_until(lambda: trace.now_ns() - since > 2_000_000)
        files.release()
        client.expect_acks(range(1, 4))
        # Another one is not slow, whatever the machine does.
        trace.slow_ns = 10**18
        client.send(publish("queue", b"y", PERSISTENT))
        client.expect_acks(range(4, 5))
        for _ in range(3):
            assert client.get("queue", no_ack=True) is not None
    # The queue had them, though the trace does not tell of that.
    assert main(["trace", "check", "--data-dir", str(tmp_path / "data")]) == 0
    lines = trace_of(tmp_path)
    assert names(lines).count("confirm.slow") == 1
    [told] = [line for line in lines if line["event"] == "confirm.slow"]
    assert (told["messages"], told["seq_no"], told["late"]) == ([[0, 2]], [[1, 3]], True)
    assert (told["batch_messages"], told["duration_ns"] > 2_000_000) == (3, True)
    message_id = f"{told['boot']}-{told['batch']}-1"
    said = explained(tmp_path, capsys, message_id)[-1]
    assert said.startswith(f"{NOT_CHOSEN}confirm.slow (it took long)")
    assert "ms after its read" in said
