"""`leveret trace explain` on the traces of live brokers: every sentence is right."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from gated_files import GatedFiles
from identified import declare, known
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicDeliver,
    BasicGet,
    BasicGetOk,
    BasicReturn,
    QueueBind,
    QueueDeclare,
    QueueDelete,
)
from leveret.commands.command_line import main
from leveret.logs.reading.tail import TraceTail
from replies import ASKING, REPLY_TO
from traced import client_of, explained, explanation, trace_of, traced, wait_for_events
from wire import PERSISTENT, publish

# What became of a message in memory, and what is known of one on the disk, when the broker stopped.
WENT = "was in memory only, and went when the broker ended"
STOPPED = "when its broker stopped; what happened since is not in the trace"


@pytest.fixture
def explain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[int], str]:
    """Explains the publish of that place in the trace; the sentence at the end."""

    def explained(publish_number: int = 1) -> str:
        return explanation(tmp_path, capsys, publish_number)[-1]

    return explained


def test_unroutable_and_mandatory(tmp_path: Path, explain: Callable[[int], str]) -> None:
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.send(publish("nowhere", b"x", PERSISTENT, exchange="amq.topic", mandatory=True))
        assert isinstance(client.read_method(1), BasicReturn)
        client.read_content(1)
        client.expect_acks(range(1, 2))
    assert explain(1) == (
        "Returned because no queue is bound for routing key 'nowhere' on exchange 'amq.topic' and "
        "it was mandatory, and its own ack was written directly behind the return."
    )


def test_unroutable_and_not_mandatory(tmp_path: Path, explain: Callable[[int], str]) -> None:
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.publish_all("nowhere", b"x")
    assert explain(1) == (
        "Confirmed, and dropped, because no queue is bound for routing key 'nowhere' on the "
        "default exchange (not mandatory)."
    )


def test_a_direct_reply(tmp_path: Path, explain: Callable[[int], str]) -> None:
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("work")
        client.consume(REPLY_TO, "r", no_ack=True)
        client.publish_all("work", b"request", properties=ASKING)
        client.send_methods(1, BasicGet(queue="work", no_ack=True))
        client.expect_type(1, BasicGetOk)
        name = client.read_content(1).properties.reply_to
        assert name is not None
        client.send(publish(name, b"reply"))
        client.expect_type(1, BasicDeliver)
        client.read_content(1)
        client.expect(1, BasicAck(2))
        client.send(publish(name, b"reply", mandatory=True))
        client.expect_type(1, BasicReturn)
        client.read_content(1)
        client.expect(1, BasicAck(3))
    assert explain(2) == "Confirmed, and passed to the channel whose reply consumer its key names."
    assert explain(3).startswith("Returned because no queue is bound for routing key 'amq.rabbitmq")
    assert explain(3).endswith(
        " It was passed to the channel whose reply consumer its key names all the same."
    )


def test_three_queues_of_which_one_is_slow(tmp_path: Path, explain: Callable[[int], str]) -> None:
    files = GatedFiles()
    with traced(tmp_path, files=files) as broker, client_of(broker) as client:
        for queue, durable in (("one", False), ("slow", True), ("three", False)):
            client.declare(queue, durable=durable)
            client.ask(1, QueueBind(queue=queue, exchange="amq.fanout"))
        files.hold()
        tail = TraceTail(tmp_path / "data" / "traces", from_begin=True)
        client.send(publish("", b"x", PERSISTENT, exchange="amq.fanout"))
        files.wait_until_syncing()
        wait_for_events(tail, "journal.appended", "confirm.queued", "confirm.queued")
        assert explain(1) == (
            "Still waiting for queue 'slow' (the sync of its disk). In queue 'one' it is ready. "
            "In queue 'slow' it is ready. In queue 'three' it is ready."
        )
        files.release()
        client.expect_acks(range(1, 2))
    assert explain(1) == (
        "Confirmed because queue 'one' has it in memory, as it promises and queue 'three' has it "
        "in memory, as it promises and queue 'slow' has it after its fsync; 'slow' was the last. "
        f"In queue 'one' it {WENT}. In queue 'slow' it was ready {STOPPED}. In queue 'three' it "
        f"{WENT}."
    )


def test_a_duplicate(tmp_path: Path, explain: Callable[[int], str]) -> None:
    with traced(tmp_path) as broker, client_of(broker) as client:
        declare(client)
        client.publish_all("q", b"x", properties=known(1))
        client.publish_all("q", b"x", properties=known(1))
    assert explain(2) == (
        "Confirmed because queue 'q' had one of that producer and id before. In queue 'q' it is a "
        "duplicate and was not enqueued."
    )


def test_a_nack_because_the_queue_was_deleted(
    tmp_path: Path, explain: Callable[[int], str]
) -> None:
    files = GatedFiles()
    with traced(tmp_path, files=files) as broker, client_of(broker) as client:
        client.declare("queue", durable=True)
        files.hold()
        client.send(publish("queue", b"x", PERSISTENT))
        files.wait_until_syncing()
        client.send_methods(1, QueueDelete(queue="queue"))
        answers = {client.read_method(1).name, client.read_method(1).name}
        assert answers == {"basic.nack", "queue.delete-ok"}
        files.release()
    assert explain(1).startswith(
        "Nacked because a queue will not have it (queue 'queue': the queue was deleted)."
    )


def test_delivered_again_when_its_consumer_died(
    tmp_path: Path, explain: Callable[[int], str]
) -> None:
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("queue", durable=True)
        client.publish_all("queue", b"x", properties=PERSISTENT)
        with client_of(broker) as dying:
            assert dying.get("queue") is not None
        client.wait_for_counts("queue", (1, 0))
        assert client.get("queue") is not None
    assert explain(1).endswith(
        f"In queue 'queue' it was ready again (its channel ended) after 2 deliveries {STOPPED}."
    )


def test_recovered_after_a_restart(tmp_path: Path, explain: Callable[[int], str]) -> None:
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("queue", durable=True)
        client.publish_all("queue", b"x", properties=PERSISTENT)
        client.publish_all("queue", b"y")
    with traced(tmp_path, trace_queues=("other",)):
        pass
    assert explain(1).endswith(
        "In queue 'queue' it was ready when its broker stopped. The broker was started again "
        "since; the trace tells no more of it."
    )
    assert explain(2).endswith(
        "In queue 'queue' it was in memory only, and went when the broker ended."
    )
    with traced(tmp_path):
        pass
    assert explain(1) == (
        "Confirmed because queue 'queue' has it after its fsync. In queue 'queue' it came back "
        f"from the journal at a start and was ready {STOPPED}."
    )


STAMP = {"t_ns": 1, "time": "2026-01-02T03:04:05.678901+00:00", "actor": "channel"}
ABOUT = {**STAMP, "boot": "a", "batch": 1, "messages": [[0, 0]]}
PLACE = {"connection": "127.0.0.1:1", "channel": 1}
ROUTE = {"event": "message.routed", "exchange": "", "routing_key": "queue"}


def write_trace(directory: Path, *lines: dict[str, object]) -> None:
    traces = directory / "data" / "traces"
    traces.mkdir(parents=True)
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (traces / "trace-1.jsonl").write_text(text)


def test_a_direct_reply_in_a_transaction(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_trace(
        tmp_path,
        ABOUT | PLACE | {"event": "command.assembled", "transaction": True},
        ABOUT | PLACE | ROUTE | {"queues": []},
        ABOUT | PLACE | {"event": "message.replied", "reason": "its key names a reply consumer"},
        STAMP | PLACE | {"boot": "a", "event": "transaction.committed", "batches": [1]},
    )
    assert explained(tmp_path, capsys, "a-1-0")[-1] == (
        "Passed to the channel whose reply consumer its key names; its transaction was committed."
    )


def test_an_id_may_stand_behind_the_files(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_trace(tmp_path, ABOUT | {"event": "message.recovered", "queue": "queue", "attempt": 0})
    files = str(tmp_path / "data" / "traces")
    for arguments in (["a-1-0", "--files", files], ["--files", files, "a-1-0"]):
        assert main(["trace", "explain", *arguments]) == 0
        assert "came back from the journal" in capsys.readouterr().out


def test_a_number_that_another_run_gives_again_is_another_message_s(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for queue in ("one", "two", "three"):
        with traced(tmp_path) as broker, client_of(broker) as client:
            client.declare(queue)
            client.publish_all(queue, b"x")
    routed = [line for line in trace_of(tmp_path) if line["event"] == "message.routed"]
    assert len({line["boot"] for line in routed}) == 3
    assert {line["batch"] for line in routed} == {1}
    for line in routed:
        [queue] = line["queues"]
        assert explained(tmp_path, capsys, f"{line['boot']}-1-0")[-1] == (
            f"Confirmed because queue '{queue}' has it in memory, as it promises. In queue "
            f"'{queue}' it {WENT}."
        )


def test_a_broker_that_ended_owing_the_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_trace(
        tmp_path,
        ABOUT | PLACE | {"event": "command.assembled", "seq_no": [[1, 1]]},
        ABOUT | PLACE | ROUTE | {"queues": ["queue"]},
        ABOUT | {"event": "message.enqueued", "queue": "queue", "waits_for_sync": [[0, 0]]},
        STAMP | {"boot": "b", "event": "trace.started", "one_of": 1, "queues": []},
    )
    assert explained(tmp_path, capsys, "a-1-0")[-1] == (
        "The trace is cut here: whether it was answered is unknown. By then it waited for queue "
        "'queue' (the sync of its disk). In queue 'queue' it is ready as far as the trace tells. "
        "The broker was started again since; the trace tells no more of it."
    )


def test_a_channel_closed_by_an_error_with_confirms_pending(
    tmp_path: Path, explain: Callable[[int], str]
) -> None:
    files = GatedFiles()
    with traced(tmp_path, files=files) as broker, client_of(broker) as client:
        client.declare("queue", durable=True)
        files.hold()
        client.send(publish("queue", b"x", PERSISTENT))
        files.wait_until_syncing()
        client.send_methods(1, QueueDeclare(queue="missing", passive=True))
        assert client.read_method(1).name == "channel.close"
        files.release()
    assert explain(1).startswith(
        "Never answered because its channel ended first (404 NOT_FOUND - no queue 'missing' in "
        "vhost '/'): whether it is kept is unknown to its publisher, which must publish it again. "
        "It waited for queue 'queue' (the sync of its disk)."
    )


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nonsense"], "'nonsense' is no message id: <boot>-<batch>-<place>, as in 3f2a9c01-42-0"),
        ([], "which message? Give its id, or --connection, --channel and --seq-no"),
        (["0-999-0"], "nothing of message 0-999-0 is in this trace"),
    ],
)
def test_what_cannot_be_explained_is_one_clear_line(
    arguments: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with traced(tmp_path):
        pass
    assert main(["trace", "explain", *arguments, "--data-dir", str(tmp_path / "data")]) == 1
    assert said in capsys.readouterr().err
