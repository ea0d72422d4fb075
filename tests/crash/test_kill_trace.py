"""The trace over a `kill -9`: no event of it is lost, and readers know where it was cut."""

from __future__ import annotations

import contextlib
import random
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from broker_process import BrokerProcess
from insides import wait_until
from leveret.commands.command_line import main
from leveret.logs.reading.check import TraceCheck
from leveret.logs.reading.reader import read_trace, trace_files
from leveret.logs.reading.tail import TraceTail
from leveret.logs.spans import Spans
from traced import explained, explanation, trace_of, wait_for_events
from wire import PERSISTENT, Client


def test_a_message_that_was_recovered_after_kill_9_is_explained(
    tmp_path: Path,
    start_broker: Callable[..., BrokerProcess],
    capsys: pytest.CaptureFixture[str],
) -> None:
    broker = start_broker(trace_one_of=1).listening()
    with Client("127.0.0.1", broker.port) as client:
        client.log_in().open_channel(1, confirms=True)
        client.declare("queue", durable=True)
        client.publish_all("queue", b"x", b"y", properties=PERSISTENT)
        assert client.get("queue") is not None
        # Behind its confirm the delivery is in the journal, too.
        client.publish_all("queue", b"z", properties=PERSISTENT)
        broker.kill()
    again = start_broker(trace_one_of=1).listening()
    tail = TraceTail(tmp_path / "data" / "traces", from_begin=True)
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
    assert said[-1].endswith(
        "it was ready again (its channel ended) after 2 deliveries when its broker stopped; what "
        "happened since is not in the trace."
    )
    # The id that either run gives it is good for both.
    message_id = said[0].split()[1].rstrip(":")
    assert explained(tmp_path, capsys, message_id.replace(*boots))[1:] == said[1:]
    assert main(["trace", "check", "--data-dir", str(tmp_path / "data")]) == 0


PUBLISHES = 150


def confirmed_in(directory: Path) -> set[int]:
    """The publish numbers of channel 1 whose confirm is in the trace."""
    return {
        number
        for line in trace_of(directory)
        if line["event"] == "confirm.sent"
        for first, last in line["seq_no"]
        for number in range(first, last + 1)
    }


@pytest.mark.parametrize("is_started_again", [False, True])
def test_each_confirm_that_a_client_has_seen_is_in_the_trace_of_a_killed_broker(
    is_started_again: bool, tmp_path: Path, start_broker: Callable[..., BrokerProcess]
) -> None:
    broker = start_broker(trace_one_of=1).listening()
    with Client("127.0.0.1", broker.port) as client:
        client.log_in().open_channel(1, confirms=True)
        client.declare("queue", durable=True)
        for _ in range(PUBLISHES):
            client.publish_all("queue", b"x", properties=PERSISTENT)
        broker.kill()
    if is_started_again:
        # With the trace off: what was left is written all the same.
        assert start_broker(trace_one_of=0).listening().stop() == 0
    assert confirmed_in(tmp_path) == set(range(1, PUBLISHES + 1))
    [cut] = [line for line in trace_of(tmp_path) if line["event"] == "trace.cut"]
    assert cut["damaged_bytes"] == 0
    assert trace_of(tmp_path)[-1] == cut
    assert (tmp_path / "data" / "traces" / "ring").exists() is not is_started_again


class Publishing(threading.Thread):
    """Publishes windows until the broker is gone; knows which numbers were confirmed."""

    def __init__(self, port: int, window: int) -> None:
        super().__init__(daemon=True)
        self._client = Client("127.0.0.1", port)
        self._window = window
        self.address = "{}:{}".format(*self._client.socket.getsockname()[:2])
        self.confirmed = 0

    def run(self) -> None:
        client = self._client
        with contextlib.suppress(OSError, AssertionError):
            client.log_in().open_channel(1, confirms=True)
            client.declare("queue", durable=True)
            while True:
                client.publish_all("queue", *[b"x"] * self._window, properties=PERSISTENT)
                self.confirmed += self._window
        client.drop()


@pytest.mark.soak
def test_a_kill_at_any_moment_under_load_loses_no_event(
    tmp_path: Path, start_broker: Callable[..., BrokerProcess], seed: int
) -> None:
    chance = random.Random(seed)
    clients: list[Publishing] = []
    for _round in range(12):
        broker = start_broker(trace_one_of=1).listening()
        started = [Publishing(broker.port, chance.choice([1, 7, 100])) for _ in range(3)]
        for client in started:
            client.start()
        enough = chance.randrange(50, 3_000)
        wait_until(lambda: sum(each.confirmed for each in started) >= enough)  # noqa: B023
        broker.kill()
        for client in started:
            client.join()
        clients += started
    files = trace_files([tmp_path / "data" / "traces"])
    said: dict[str, Spans] = {}
    check = TraceCheck()
    for line in read_trace(files):
        check.feed([line])
        if line["event"] == "confirm.sent":
            said.setdefault(line["connection"], Spans()).add(line["seq_no"])
    assert check.faults == []
    missing = [
        (client.address, client.confirmed)
        for client in clients
        if said.get(client.address, Spans()).missing([(1, client.confirmed)])
    ]
    assert missing == []
    cuts = [boot.end for boot in check.coverage.finish().boots.values()]
    assert cuts == ["cut"] * 12
    print(f"{check.events} events, {sum(client.confirmed for client in clients)} confirms")
