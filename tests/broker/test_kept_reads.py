"""Queues that let go of every read that they can: clients and the trace see no difference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from leveret.amqp_frames.messages.batch import Batch
from leveret.amqp_frames.messages.copies import excerpt
from leveret.amqp_frames.methods import BasicAck, BasicConsume, BasicConsumeOk, BasicDeliver
from leveret.commands.command_line import main
from traced import client_of, trace_of, traced
from wire import PERSISTENT, Client, publish

READS = 20
EACH = 10


def body(read: int, at: int) -> bytes:
    return b"%d of %d " % (at, read) * 200


def publish_reads(client: Client) -> None:
    for name in ("slow", "fast"):
        client.declare(name, durable=True)
    for read in range(READS):
        client.send(
            b"".join(
                publish("slow" if at in (2, 7) else "fast", body(read, at), PERSISTENT)
                for at in range(EACH)
            )
        )
        client.expect_acks(range(1 + read * EACH, 1 + (read + 1) * EACH))


def consume_but(client: Client, queue: str, count: int, kept: set[bytes]) -> None:
    """Ack each of so many deliveries but those with these bodies."""
    consume = BasicConsume(0, queue, "t", False, False, False, False, {})
    assert isinstance(client.ask(1, consume), BasicConsumeOk)
    for _ in range(count):
        deliver = client.read_method(1)
        assert isinstance(deliver, BasicDeliver)
        if client.read_content(1).body not in kept:
            client.send_methods(1, BasicAck(deliver.delivery_tag, False))


def delivered(lines: list[dict[str, Any]]) -> set[tuple[int, int]]:
    return {
        (line["batch"], place)
        for line in lines
        if line["event"] == "message.delivered"
        for first, last in line["messages"]
        for place in range(first, last + 1)
    }


def test_messages_and_their_places_in_the_trace_are_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    copied: list[int] = []

    def counted(batch: Batch, chosen: Any) -> Batch:
        copied.append(len(chosen))
        return excerpt(batch, chosen)

    monkeypatch.setattr("leveret.core.queue.batch_sweep.excerpt", counted)
    kept = {body(read, 7) for read in range(READS)}
    with traced(tmp_path, sweep_interval_bytes=0) as broker:
        with client_of(broker) as client:
            publish_reads(client)
            consume_but(client, "fast", READS * (EACH - 2), set())
        with client_of(broker) as client:
            consume_but(client, "slow", READS * 2, kept)
        with client_of(broker) as client:
            client.declare("slow", durable=True)
    # All but those that are young.
    assert sum(copied) >= READS // 4
    places = delivered(trace_of(tmp_path))
    assert len(places) == READS * EACH
    with traced(tmp_path, sweep_interval_bytes=0) as broker, client_of(broker) as client:
        for read in range(READS):
            got = client.get("slow")
            assert got is not None
            assert (got.body, got.redelivered) == (body(read, 7), True)
        assert client.get("slow") is None
    again = delivered(trace_of(tmp_path)[-200:])
    assert again <= places
    assert main(["trace", "check", "--files", str(tmp_path / "data" / "traces")]) == 0, (
        capsys.readouterr().out
    )
