"""Topics and channels on the command line."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import leveret
from nsq_calls import post
from nsq_wire import NsqClient
from typed_commands import Shell

Nsq = Callable[[], NsqClient]


def test_topics_and_channels_are_listed(broker: leveret.Broker, nsq: Nsq, tmp_path: Path) -> None:
    shell = Shell(tmp_path / "data")
    assert shell.said("topics") == "none\n"
    post(broker, "/pub?topic=t", b"x")
    post(broker, "/mpub?topic=t", b"y\nz")
    post(broker, "/channel/create?topic=t&channel=c")
    post(broker, "/channel/pause?topic=t&channel=c")
    post(broker, "/topic/pause?topic=t")
    post(broker, "/pub?topic=t", b"kept")
    post(broker, "/topic/create?topic=s")
    nsq().subscribe("s", "d").nothing()
    none = {"ready": 0, "unacked": 0, "deferred": 0, "consumers": 0}
    assert shell.rows("topics") == [
        {"topic": "s", "channel": "", "state": "running", **none},
        {"topic": "s", "channel": "d", "state": "running", **none | {"consumers": 1}},
        {"topic": "t", "channel": "", "state": "paused", **none | {"ready": 1}},
        {"topic": "t", "channel": "c", "state": "paused", **none | {"ready": 3}},
    ]
    status = [line.split() for line in shell.said("status").splitlines()]
    assert ["nsq_topics", "2"] in status
    assert ["nsq_channels", "2"] in status
