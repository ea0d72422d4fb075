"""The trace over a `kill -9`: what came back from the journal is the message that was published."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from leveret.command_line import main
from leveret.logs.trace_tail import TraceTail
from traced import explained, explanation, trace_of, wait_for_events
from wire import PERSISTENT, Client


def test_a_message_that_was_recovered_after_kill_9_is_explained(
    tmp_path: Path,
    start_broker: Callable[..., BrokerProcess],
    capsys: pytest.CaptureFixture[str],
) -> None:
    broker = start_broker(trace_one_of=1).listening()
    tail = TraceTail(tmp_path / "data" / "traces", from_begin=True)
    with Client("127.0.0.1", broker.port) as client:
        client.log_in().open_channel(1, confirms=True)
        client.declare("queue", durable=True)
        client.publish_all("queue", b"x", b"y", properties=PERSISTENT)
        assert client.get("queue") is not None
        wait_for_events(tail, "confirm.sent", "message.delivered")
        broker.kill()
    again = start_broker(trace_one_of=1).listening()
    wait_for_events(tail, "message.recovered")
    after_start = (
        "Confirmed because queue 'queue' has it after its fsync. In queue 'queue' it came back "
        "from the journal at a start and is ready"
    )
    assert explanation(tmp_path, capsys, 1)[-1] == f"{after_start} after 1 delivery."
    assert explanation(tmp_path, capsys, 2)[-1] == f"{after_start}."
    with Client("127.0.0.1", again.port) as client:
        client.log_in().open_channel(1)
        got = client.get("queue")
        assert got is not None
        assert (got.body, got.redelivered) == (b"x", True)
        client.close()
    wait_for_events(tail, "message.delivered")
    assert again.stop() == 0
    boots = list(dict.fromkeys(line["boot"] for line in trace_of(tmp_path)))
    said = explanation(tmp_path, capsys, 1)
    assert f"  --- the broker was started again ({boots[1]})" in said
    assert said[-1].endswith("it is ready again (its channel ended) after 2 deliveries.")
    # The id that either run gives it is good for both.
    message_id = said[0].split()[1].rstrip(":")
    assert explained(tmp_path, capsys, message_id.replace(*boots))[1:] == said[1:]
    assert main(["trace", "check", "--data-dir", str(tmp_path / "data")]) == 0
