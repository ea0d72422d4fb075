"""Queues that hold too much and cannot page it: publishers wait and are told, consumers go on."""

from __future__ import annotations

from collections.abc import Callable

import leveret
import pytest
from gated_files import GatedFiles
from insides import context_of, wait_until
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicDeliver,
    ConnectionBlocked,
    ConnectionUnblocked,
)
from log_lines import LogLines
from wire import PERSISTENT, Client, publish

Connect = Callable[..., Client]

MIB = 1024 * 1024
BODY = bytes(10_000)
# More than the level of the alarm, and less than what publishers may have inside the broker.
COUNT = 300


@pytest.fixture
def settings(log: LogLines) -> dict[str, object]:
    return {
        "memory_budget_bytes": MIB,
        "memory_alarm_bytes": 2 * MIB,
        "node_publish_window_bytes_max": 16 * MIB,
        "log_level": "info",
        "log_format": "json",
    }


def test_publishers_wait_while_what_no_disk_has_yet_is_too_much_and_consumers_go_on(
    client: Client, connect: Connect, broker: leveret.Broker, files: GatedFiles, log: LogLines
) -> None:
    alarms = context_of(broker).alarms
    client.declare("durable", durable=True)
    client.declare("q")
    client.publish_all("q", *(b"%d" % number for number in range(10)))
    files.hold()
    client.send(publish("durable", BODY, PERSISTENT) * COUNT)
    wait_until(lambda: alarms.reason == "low on memory")
    other = connect(capabilities=("connection.blocked",))
    other.open_channel(1, confirms=True)
    other.send(publish("q", b"waits"))
    other.expect(0, ConnectionBlocked("low on memory"))
    consumer = connect()
    consumer.open_channel()
    consumer.consume("q")
    for number in range(10):
        expected = BasicDeliver("c", number + 1, False, "", "q")
        consumer.expect_delivery(expected, b"%d" % number)
    consumer.send_methods(1, BasicAck(10, True))
    consumer.nothing_more()
    files.release()
    # On the disk it can be paged.
    other.expect(0, ConnectionUnblocked())
    other.expect(1, BasicAck(1, False))
    assert alarms.reason == ""
    assert [len(log.of(event)) for event in ("memory.high", "memory.enough")] == [1, 1]
    other.wait_for_counts("durable", (COUNT, 0))
