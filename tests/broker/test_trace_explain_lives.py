"""`leveret trace explain`: publishes in transactions, outside confirm mode, and dead letters."""

from __future__ import annotations

from pathlib import Path

import pytest
from gated_files import GatedFiles
from leveret.amqp_frames.methods import (
    BasicDeliver,
    BasicNack,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    TxCommit,
    TxCommitOk,
    TxSelect,
)
from leveret.amqp_frames.values.field_table import table_of
from leveret.logs.reading.tail import TraceTail
from traced import client_of, explained, explanation, trace_of, traced, wait_for_events
from wire import PERSISTENT, TRANSIENT, Client, publish

TO_DEAD = {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": "dead"}

# What became of a message in memory, and what is known of one on the disk, when the broker stopped.
WENT = "was in memory only, and went when the broker ended"
READY = "was ready when its broker stopped; what happened since is not in the trace"


def test_a_transaction_says_why_it_was_committed_and_what_its_commit_waits_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = GatedFiles()
    with (
        traced(tmp_path, files=files) as broker,
        Client(broker.host, broker.port) as client,
    ):
        client.log_in().open_channel(1)
        client.declare("queue", durable=True)
        client.ask(1, TxSelect())
        files.hold()
        tail = TraceTail(tmp_path / "data" / "traces", from_begin=True)
        client.send(publish("queue", b"x", PERSISTENT))
        client.send_methods(1, TxCommit())
        files.wait_until_syncing()
        wait_for_events(tail, "message.enqueued", "journal.appended")
        assert explanation(tmp_path, capsys)[-1] == (
            "Its transaction's commit is not answered. It waits for queue 'queue' (the sync of its "
            "disk). In queue 'queue' it is ready."
        )
        files.release()
        client.expect(1, TxCommitOk())
    assert explanation(tmp_path, capsys)[-1] == (
        "Committed with its transaction, because queue 'queue' has it after its fsync. In queue "
        f"'queue' it {READY}."
    )
    [committed] = [e for e in trace_of(tmp_path) if e["event"] == "transaction.committed"]
    assert len(committed["batches"]) == 1


def test_a_transaction_s_return_and_drop(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with traced(tmp_path) as broker, Client(broker.host, broker.port) as client:
        client.log_in().open_channel(1)
        client.ask(1, TxSelect())
        client.send(publish("nowhere", b"x", PERSISTENT, mandatory=True))
        client.send(publish("nowhere", b"y", PERSISTENT))
        client.send_methods(1, TxCommit())
        client.expect_type(1, BasicReturn)
        client.read_content(1)
        client.expect(1, TxCommitOk())
    key = "no queue is bound for routing key 'nowhere' on the default exchange"
    assert explanation(tmp_path, capsys)[-1] == (
        f"Returned because {key} and it was mandatory; its transaction was committed."
    )
    assert explanation(tmp_path, capsys, 2)[-1] == (
        f"Dropped because {key} (not mandatory); its transaction was committed."
    )


def test_a_publish_that_is_a_mistake(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("queue")
        client.publish_all("queue", b"x")
        client.send(publish("queue", b"y", TRANSIENT, exchange="missing\x1b[2J"))
        client.expect_type(1, ChannelClose)
    [refused] = [e for e in trace_of(tmp_path) if e["event"] == "message.refused"]
    message_id = f"{refused['boot']}-{refused['batch']}-{refused['messages'][0][0]}"
    said = explained(tmp_path, capsys, message_id)
    assert said[-1] == (
        "Refused, with its channel: 404 NOT_FOUND - no exchange 'missing\\x1b[2J' in vhost '/'. It "
        "was not published and is not confirmed."
    )
    place = ["--connection", refused["connection"], "--channel", "1", "--seq-no", "2"]
    assert explained(tmp_path, capsys, *place) == said


def test_a_transaction_that_a_queue_refuses_a_part_of(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    full = table_of({"x-max-length": 0, "x-overflow": "reject-publish"})
    with traced(tmp_path) as broker, Client(broker.host, broker.port) as client:
        client.log_in().open_channel(1)
        client.declare("full", arguments=full)
        client.declare("queue")
        client.ask(1, TxSelect())
        client.send(publish("queue", b"x", TRANSIENT) + publish("full", b"y", TRANSIENT))
        client.send_methods(1, TxCommit())
        client.expect_type(1, ChannelClose)
    assert explanation(tmp_path, capsys)[-1] == (
        "Its transaction failed (partial tx completion), because of another of its messages; what "
        "queues had taken by then stays. "
        f"In queue 'queue' it {WENT}."
    )
    assert explanation(tmp_path, capsys, 2)[-1].startswith(
        "Its transaction failed because a queue will not have it (queue 'full': "
    )


def test_a_channel_opened_anew_gives_numbers_again_which_are_others(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    full = table_of({"x-max-length": 0, "x-overflow": "reject-publish"})
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("full", arguments=full)
        client.declare("queue")
        client.publish_all("queue", b"x")
        assert client.ask(1, ChannelClose(200, "", 0, 0)) == ChannelCloseOk()
        client.open_channel(1, confirms=True)
        client.send(publish("full", b"y"))
        client.expect_type(1, BasicNack)
    first, second = (e for e in trace_of(tmp_path) if e["event"] == "command.assembled")
    assert first["seq_no"] == second["seq_no"] == [[1, 1]]
    assert explained(tmp_path, capsys, f"{first['boot']}-{first['batch']}-0")[-1] == (
        "Confirmed because queue 'queue' has it in memory, as it promises. In queue 'queue' it "
        f"{WENT}."
    )
    # What a queue does not take was never in it.
    assert explained(tmp_path, capsys, f"{first['boot']}-{second['batch']}-0")[-1] == (
        "Nacked because a queue will not have it (queue 'full': the queue is full)."
    )
    enqueued = [e for e in trace_of(tmp_path) if e["event"] == "message.enqueued"]
    assert [e["queue"] for e in enqueued] == ["queue"]


def test_what_is_taken_without_acks_is_done(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("queue")
        client.publish_all("queue", b"x", b"y")
        assert client.get("queue", no_ack=True) is not None
        client.consume("queue", no_ack=True)
        client.expect_type(1, BasicDeliver)
        client.read_content(1)
    for number in (1, 2):
        assert explanation(tmp_path, capsys, number)[-1].endswith(
            "In queue 'queue' it is done (no ack wanted) after 1 delivery."
        )


def test_outside_confirm_mode_the_publisher_gets_no_answer(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with traced(tmp_path) as broker, Client(broker.host, broker.port) as client:
        client.log_in().open_channel(1)
        client.declare("queue")
        full = table_of({"x-max-length": 0, "x-overflow": "reject-publish"})
        client.declare("full", arguments=full)
        client.send(publish("queue", b"x", TRANSIENT) + publish("nowhere", b"y", TRANSIENT))
        client.send(publish("full", b"z"))
        client.nothing_more()
    assert explanation(tmp_path, capsys)[-1] == (
        f"Not to be confirmed: its channel was not in confirm mode. In queue 'queue' it {WENT}."
    )
    assert explanation(tmp_path, capsys, 2)[-1] == (
        "Dropped because no queue is bound for routing key 'nowhere' on the default exchange (not "
        "mandatory). Nobody was told: its channel was not in confirm mode."
    )
    assert explanation(tmp_path, capsys, 3)[-1] == (
        "Not taken (queue 'full': the queue is full). Nobody was told: its channel was not in "
        "confirm mode."
    )


def test_a_message_is_followed_into_its_dead_letter_and_that_one_back(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("queue", durable=True, arguments=table_of(TO_DEAD))
        client.declare("dead", durable=True)
        client.publish_all("queue", b"1", b"2", properties=PERSISTENT)
        for _ in range(2):
            got = client.get("queue")
            assert got is not None
            client.send_methods(1, BasicNack(got.delivery_tag, requeue=False))
        client.wait_for_counts("dead", (2, 0))
    lettered = [e for e in trace_of(tmp_path) if e["event"] == "message.dead_lettered"]
    ids = [
        tuple(f"{e['boot']}-{e[batch]}-{e[places][0][0]}" for batch, places in pairs)
        for pairs in [(("batch", "messages"), ("letter_batch", "letters"))]
        for e in lettered
    ]
    original, letter = ids[-1]
    said = explained(tmp_path, capsys, original)
    assert f"  --- its dead letter {letter}" in said
    assert said[-1] == (
        "Confirmed because queue 'queue' has it after its fsync. In queue 'queue' it is done (its "
        f"dead letter is safe) after 1 delivery. Its dead letter {letter} (queue 'queue': "
        f"rejected) goes to queue 'dead'. In queue 'dead' it {READY}."
    )
    assert explained(tmp_path, capsys, letter)[-1] == (
        f"It is a dead letter of queue 'queue' (rejected), made of message {original}. "
        f"In queue 'dead' it {READY}."
    )


def test_a_letter_that_nobody_takes_and_what_expired(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = {"x-dead-letter-exchange": "nowhere", "x-message-ttl": 1}
    with traced(tmp_path) as broker, client_of(broker) as client:
        client.declare("queue", durable=True, arguments=table_of(arguments))
        client.publish_all("queue", b"1", properties=PERSISTENT)
        client.wait_for_counts("queue", (0, 0))
    assert explanation(tmp_path, capsys)[-1].endswith(
        "In queue 'queue' it is done (there is no way for its dead letter). Queue 'queue' "
        "made no dead letter (expired): there is no such exchange, no queue for its "
        "key, or it would go round."
    )


def test_a_message_of_a_run_without_a_trace_is_not_taken_for_one_in_memory_that_had_its_number(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The journal knows nothing of the first, so the second is given its number.
    for one_of, properties in ((1, TRANSIENT), (0, PERSISTENT)):
        with traced(tmp_path, trace_one_of=one_of) as broker, client_of(broker) as client:
            client.declare("queue", durable=True)
            client.publish_all("queue", b"1", properties=properties)
    with traced(tmp_path):
        pass
    lines = trace_of(tmp_path)
    [first] = [line for line in lines if line["event"] == "message.enqueued"]
    [second] = [line for line in lines if line["event"] == "message.recovered"]
    assert (first["batch"], first["messages"]) == (second["batch"], second["messages"])
    assert explained(tmp_path, capsys, f"{first['boot']}-{first['batch']}-0")[-1] == (
        "Confirmed because queue 'queue' has it in memory, as it promises. "
        "In queue 'queue' it was in memory only, and went when the broker ended."
    )
    said = explained(tmp_path, capsys, f"{second['boot']}-{second['batch']}-0")
    assert "came back from the journal" in said[-1]
    assert not any("message.enqueued" in line for line in said)
