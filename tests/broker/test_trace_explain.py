"""`leveret trace explain` and `check` on the traces of live brokers, and on damaged ones."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gated_files import GatedFiles
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
from leveret.command_line import main
from leveret.logs.trace_reader import read_trace, trace_files
from replies import ASKING, REPLY_TO
from traced import client_of, traced
from wire import PERSISTENT, TRANSIENT, Client, publish

Line = dict[str, Any]


def lines_of(directory: Path) -> list[Line]:
    return list(read_trace(trace_files([directory / "data" / "traces"])))


@pytest.fixture
def explain(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Callable[[int], str]:
    """Explains the publish of that place in the trace; its last line is the sentence."""

    def explained(publish_number: int = 1) -> str:
        numbered = [line for line in lines_of(tmp_path) if line["event"] == "command.assembled"]
        ids = [
            f"{line['boot']}-{line['batch']}-{place}"
            for line in numbered
            for first, last in line["messages"]
            for place in range(first, last + 1)
        ]
        data_dir = str(tmp_path / "data")
        assert main(["trace", "explain", ids[publish_number - 1], "--data-dir", data_dir]) == 0
        by_id = capsys.readouterr().out
        line = numbered[0]
        if publish_number == 1 and "seq_no" in line:
            place = ["--connection", line["connection"], "--channel", str(line["channel"])]
            assert main(["trace", "explain", *place, "--seq-no", "1", "--data-dir", data_dir]) == 0
            assert capsys.readouterr().out == by_id
        return by_id.splitlines()[-1]

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
    assert explain(2) == "Confirmed, and passed to the channel whose reply consumer its key names."


def test_three_queues_of_which_one_is_slow(tmp_path: Path, explain: Callable[[int], str]) -> None:
    with traced(tmp_path) as broker, client_of(broker) as client:
        for queue, durable in (("one", False), ("slow", True), ("three", False)):
            client.declare(queue, durable=durable)
            client.ask(1, QueueBind(queue=queue, exchange="amq.fanout"))
        client.send(publish("", b"x", PERSISTENT, exchange="amq.fanout"))
        client.expect_acks(range(1, 2))
    sentence = explain(1)
    assert sentence.startswith("Confirmed because ")
    for part in (
        "queue 'one' has it in memory, as it promises",
        "queue 'three' has it in memory, as it promises",
        "queue 'slow' has it after its fsync; 'slow' was the last.",
        "In queue 'slow' it is ready.",
    ):
        assert part in sentence


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
        "In queue 'queue' it is ready again (its channel ended) after 2 deliveries."
    )


def test_recovered_after_a_restart(tmp_path: Path, explain: Callable[[int], str]) -> None:
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("queue", durable=True)
        client.publish_all("queue", b"x", properties=PERSISTENT)
    with traced(tmp_path):
        pass
    assert explain(1) == (
        "Confirmed because queue 'queue' has it after its fsync. In queue 'queue' it came back "
        "from the journal at a start and is ready."
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


# --- check


def work(client: Client) -> None:
    client.declare("durable", durable=True)
    client.declare("transient")
    for _ in range(3):
        client.send(
            publish("durable", b"1", PERSISTENT)
            + publish("transient", b"2", TRANSIENT)
            + publish("durable", b"3", PERSISTENT)
        )
    client.expect_acks(range(1, 10))
    client.send(publish("nowhere", b"4", PERSISTENT, mandatory=True))
    assert isinstance(client.read_method(1), BasicReturn)
    client.read_content(1)
    client.expect_acks(range(10, 11))
    assert client.get("durable") is not None


def check(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    code = main(["trace", "check", "--files", str(path)])
    return code, capsys.readouterr().out


@pytest.fixture
def sound(tmp_path: Path) -> list[Line]:
    with traced(tmp_path) as broker, client_of(broker) as client:
        work(client)
    return lines_of(tmp_path)


def test_a_sound_trace_has_no_faults(
    sound: list[Line], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, out = check(tmp_path / "data" / "traces", capsys)
    assert code == 0, out
    assert f"{len(sound)} events in 1 files: 10 publishes answered, 0 open at the end" in out


def unsynced(lines: list[Line]) -> list[Line]:
    return [line for line in lines if line["event"] != "journal.synced"]


def answered_twice(lines: list[Line]) -> list[Line]:
    at = next(at for at, line in enumerate(lines) if line["event"] == "confirm.sent")
    return [*lines[: at + 1], *lines[at:]]


def never_came(lines: list[Line]) -> list[Line]:
    first = next(line for line in lines if line["event"] == "command.assembled")
    return [line for line in lines if line is not first]


def confirmed_before_its_return(lines: list[Line]) -> list[Line]:
    returned = next(line for line in lines if line["event"] == "message.returned")
    sent = next(line for line in lines if line["event"] == "confirm.sent")
    early = {**sent, "seq_no": returned["seq_no"]}
    at = lines.index(returned)
    return [*lines[:at], early, *lines[at:]]


def delivered_from_nowhere(lines: list[Line]) -> list[Line]:
    return [
        {**line, "queue": "transient"} if line["event"] == "message.delivered" else line
        for line in lines
    ]


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        (unsynced, "before its sync"),
        (answered_twice, "was answered twice"),
        (never_came, "but never came"),
        (confirmed_before_its_return, "was confirmed before its return"),
        (delivered_from_nowhere, "that it did not have"),
    ],
)
def test_a_damaged_trace_is_found_out(
    damage: Callable[[list[Line]], list[Line]],
    said: str,
    sound: list[Line],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "damaged.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in damage(sound)))
    code, out = check(path, capsys)
    assert code == 1
    assert said in out


def test_a_torn_last_line_is_left_out_and_a_broken_one_is_told_of(
    sound: list[Line], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "torn.jsonl"
    whole = "".join(json.dumps(line) + "\n" for line in sound)
    path.write_text(whole + '{"t_ns": 12')
    assert check(path, capsys)[0] == 0
    path.write_text("no event\n" + whole)
    code, out = check(path, capsys)
    assert code == 1
    assert "torn.jsonl:1 is no event" in out
