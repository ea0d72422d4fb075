"""The trace of messages that NSQ clients publish and consume, and what explains it."""

from __future__ import annotations

from pathlib import Path

import leveret
import pytest
from leveret.commands.command_line import main
from nsq_wire import NsqClient, identify, mpub, pub
from traced import explanation, names, trace_of, traced


def nsq_client(broker: leveret.Broker) -> NsqClient:
    assert broker.nsq_port
    return NsqClient(broker.nsq_port)


def check(directory: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """What `leveret trace check` says of a trace without faults."""
    capsys.readouterr()
    assert main(["trace", "check", "--data-dir", str(directory / "data")]) == 0
    return capsys.readouterr().out


def test_a_publish_and_its_delivery_over_nsq_are_explained(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with traced(tmp_path, nsq_port=0) as broker, nsq_client(broker) as client:
        client.subscribe("t", "c")
        client.send(pub("t", b"x")).ok()
        message = client.send(b"RDY 1\n").message()
        client.send(b"REQ " + message.id + b" 0\n")
        client.send(b"FIN " + client.message().id + b"\n").nothing()
    said = explanation(tmp_path, capsys)
    end = "In queue 't:c' it is done (acked) after 2 deliveries."
    assert said[-1] == f"Confirmed because queue 't:c' has it after its fsync. {end}"
    events = [line.split()[5] for line in said[1:-1]]
    for event in ("frame.received", "journal.synced", "confirm.sent", "message.requeued"):
        assert events.count(event) == 1, events
    assert events.index("journal.synced") < events.index("confirm.sent")
    assert events.count("message.delivered") == 2
    assert events[-1] == "message.settled"
    assert ", 0 faults" in check(tmp_path, capsys)


def test_trace_check_finds_no_fault_in_what_nsq_clients_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with traced(tmp_path, nsq_port=0) as broker:
        publisher = nsq_client(broker)
        publisher.send(pub("t", b"kept")).ok()
        consumer = nsq_client(broker).send(identify(msg_timeout=1000)).ok()
        consumer.subscribe("t", "c", 10)
        publisher.send(mpub("t", *[b"%d" % number for number in range(100)]), pub("t", b"x"))
        publisher.ok(2)
        late, *others = consumer.messages(10)
        consumer.send(*[b"FIN " + each.id + b"\n" for each in reversed(others)])
        consumer.messages(9)
        consumer.send(b"TOUCH " + late.id + b"\n")
        # What it holds comes back at its time-out, and again when its connection ends.
        consumer.send(b"RDY 200\n")
        attempts = 1
        while attempts == 1:
            attempts = consumer.message().attempts
        consumer.socket.close()
        nsq_client(broker).subscribe("t", "c", 5).messages(5)
        with nsq_client(broker) as client:
            client.send(pub("t", b"y") + b"BOGUS\n").ok()
            assert client.error() == b"E_INVALID invalid command BOGUS"
    events = names(trace_of(tmp_path))
    assert {"connection.opened", "connection.closed"} <= set(events)
    assert ", 0 faults" in check(tmp_path, capsys)
