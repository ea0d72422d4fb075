"""The setting `definitions_file`: carried out at each start, before the broker listens."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import leveret
import pytest
from insides import context_of
from leveret.errors import StartError
from wire import Client

FILES = Path(__file__).parents[1] / "data" / "definitions"
QUEUE = {"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}


def started(data_dir: Path, file: Path, **settings: Any) -> leveret.Broker:
    return leveret.Broker(
        data_dir=data_dir, port=0, password_hash_cost=10, definitions_file=str(file), **settings
    )


def names(broker: leveret.Broker) -> set[str]:
    return {queue.name for queue in context_of(broker).vhosts.queues() if queue.durable}


def test_each_start_carries_the_file_out(tmp_path: Path) -> None:
    file = FILES / "4.1.json"
    expected = {"orders", "durable.quorum", "amq.gen-Zm9vYmFyYmF6", "naïve/名"}
    for _ in range(2):
        with started(tmp_path / "data", file) as broker:
            assert names(broker) == expected
            # None but the file's: no default user.
            assert set(context_of(broker).accounts.users) == {"ann", "bob", "certified"}
            with Client(broker.host, broker.port) as client:
                client.log_in(user="ann", password="hare")


def test_a_file_for_a_directory_that_is_there_adds_to_it(tmp_path: Path) -> None:
    file = tmp_path / "definitions.json"
    file.write_text(json.dumps({"queues": [QUEUE]}))
    with leveret.Broker(data_dir=tmp_path / "data", port=0, password_hash_cost=10):
        pass
    with started(tmp_path / "data", file) as broker:
        assert names(broker) == {"q"}
        assert set(context_of(broker).accounts.users) == {"guest"}


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (None, "cannot read definitions file .*: No such file"),
        ("{", "definitions_file .*: not JSON: .*; nothing of it is carried out"),
        ("x" * 3000, "has more than 2000 bytes"),
        ('{"queues": [{}]}', r"queues\[0\]: it has no 'vhost'"),
        (json.dumps({"queues": [QUEUE]}), "there is no vhost '/'"),
        ("\udcff", "is not UTF-8"),
    ],
)
def test_a_broken_file_keeps_the_broker_from_its_start(
    text: str | None, reason: str, tmp_path: Path
) -> None:
    file = tmp_path / "definitions.json"
    if text is not None:
        file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(StartError, match=reason):
        started(tmp_path / "data", file, definitions_bytes_max=2000).start()
    # Nothing has come of it: the next start is as the first.
    file.write_bytes(b'{"vhosts": [{"name": "/"}]}')
    with started(tmp_path / "data", file) as broker:
        assert set(context_of(broker).accounts.vhosts) == {"/"}
