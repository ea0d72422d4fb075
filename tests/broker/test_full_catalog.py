"""A disk that is full for the catalog: what is refused changes nothing, and says so."""

from __future__ import annotations

from collections.abc import Callable

import leveret
import pytest
from insides import context_of, wait_until
from leveret.amqp_frames.methods import (
    BasicCancel,
    BasicCancelOk,
    ConnectionClose,
    ConnectionCloseOk,
    QueueDeclare,
    QueueDelete,
    QueueDeleteOk,
)
from leveret.commands.control_client import ask_broker
from leveret.storage.catalog import Catalog, Change
from leveret.storage.errors import NoSpaceError
from leveret.storage.reserve import Reserve
from wire import PERSISTENT, Client

Connect = Callable[..., Client]


@pytest.fixture
def settings() -> dict[str, object]:
    return {"disk_check_interval_ms": 10}


class FullCatalog:
    """Refuses what it is given while it is full; `given_up` counts steps of the reserve."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_full = False
        self.steps_left = 0
        apply = Catalog.apply

        def applied(catalog: Catalog, changes: list[Change]) -> None:
            if self.is_full and changes:
                raise NoSpaceError("catalog.sqlite")
            apply(catalog, changes)

        def given_up(_reserve: Reserve, _purpose: object) -> bool:
            if not self.steps_left:
                return False
            self.steps_left -= 1
            # The last step makes room enough.
            self.is_full = self.is_full and self.steps_left > 0
            return True

        monkeypatch.setattr(Catalog, "apply", applied)
        monkeypatch.setattr(Reserve, "release_step", given_up)
        # Else it is full for as long as the disk has room for all others.
        monkeypatch.setattr(Reserve, "refill", lambda *_figures: not self.is_full)


@pytest.fixture
def catalog(broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch) -> FullCatalog:
    return FullCatalog(monkeypatch)


def test_a_declare_that_finds_no_room_is_refused_and_nothing_is_declared(
    client: Client, connect: Connect, catalog: FullCatalog, broker: leveret.Broker
) -> None:
    catalog.is_full = True
    client.send_methods(1, QueueDeclare(queue="q", durable=True))
    text = "RESOURCE_ERROR - no space left on the disk"
    client.expect(0, ConnectionClose(506, text, 50, 10))
    client.send_methods(0, ConnectionCloseOk())
    assert context_of(broker).alarms.reason == "low on disk"
    catalog.is_full = False
    wait_until(lambda: not context_of(broker).alarms.reason)
    other = connect()
    other.open_channel(1)
    assert other.declare("q", durable=True).message_count == 0


def test_the_reserve_has_room_for_it(client: Client, catalog: FullCatalog) -> None:
    catalog.is_full, catalog.steps_left = True, 3
    client.declare("q", durable=True)
    assert catalog.steps_left == 0


def test_a_queue_that_could_not_be_deleted_goes_on(
    client: Client, connect: Connect, catalog: FullCatalog
) -> None:
    client.declare("q", durable=True)
    client.publish_all("q", b"1", properties=PERSISTENT)
    other = connect()
    other.open_channel(1)
    catalog.is_full = True
    other.send_methods(1, QueueDelete(queue="q"))
    assert other.expect_type(0, ConnectionClose).reply_code == 506
    got = client.get("q", no_ack=True)
    assert got is not None
    catalog.is_full = False
    assert client.ask(1, QueueDelete(queue="q")) == QueueDeleteOk(0)


def test_a_queue_that_deletes_itself_does_so_when_there_is_room(
    client: Client, connect: Connect, catalog: FullCatalog, broker: leveret.Broker
) -> None:
    client.declare("q", durable=True, auto_delete=True)
    client.consume("q")
    catalog.is_full = True
    assert client.ask(1, BasicCancel(consumer_tag="c")) == BasicCancelOk("c")
    wait_until(lambda: bool(context_of(broker).alarms.reason))
    assert client.counts("q") == (0, 0)
    catalog.is_full = False
    table = context_of(broker).vhosts["/"].table
    wait_until(lambda: table.find_queue("q") is None)


def test_a_change_of_accounts_is_refused_in_the_same_words(
    client: Client, catalog: FullCatalog, broker: leveret.Broker
) -> None:
    catalog.is_full = True
    with pytest.raises(leveret.StartError, match="no space left on the disk"):
        ask_broker(broker.configuration.data_dir, "vhost add", {"vhost": "other"})
    catalog.is_full = False
    ask_broker(broker.configuration.data_dir, "vhost add", {"vhost": "other"})


def test_a_pause_that_finds_no_room_is_refused_and_the_queue_delivers(
    client: Client, catalog: FullCatalog, broker: leveret.Broker
) -> None:
    client.declare("q", durable=True)
    client.publish_all("q", b"1", properties=PERSISTENT)
    catalog.is_full = True
    directory, arguments = broker.configuration.data_dir, {"queue": "q", "vhost": "/"}
    with pytest.raises(leveret.StartError, match="no space left on the disk"):
        ask_broker(directory, "queue pause", arguments)
    assert client.get("q") is not None
    # A transient queue needs none.
    client.declare("transient")
    ask_broker(directory, "queue pause", arguments | {"queue": "transient"})
    [row] = [row for row in ask_broker(directory, "queues", {}) if row["queue"] == "transient"]
    assert row["state"] == "paused"
