"""A graceful stop: clients are told, what was accepted is on disk, and it is there again."""

from __future__ import annotations

import signal
import threading
from pathlib import Path

import leveret
import pytest
from gated_files import GatedFiles
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicDeliver,
    ChannelClose,
    ChannelCloseOk,
    ConnectionClose,
    ConnectionCloseOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)
from leveret.amqp_frames.values.field_table import Field
from served import Served
from wire import PERSISTENT, Client, publish

SHUTDOWN = ConnectionClose(
    320, "CONNECTION_FORCED - broker forced connection closure with reason 'shutdown'", 0, 0
)


def start(tmp_path: Path) -> leveret.Broker:
    return leveret.Broker(data_dir=tmp_path / "data", port=0, log_level="error")


def connected(broker: leveret.Broker | Served) -> Client:
    client = Client(broker.host, broker.port).log_in()
    client.open_channel(1, confirms=True)
    return client


def exists(client: Client, method: QueueDeclare | ExchangeDeclare) -> bool:
    """Asked for passively on channel 2, which a 404 closes."""
    client.open_channel(2)
    answer = client.ask(2, method)
    if answer.name == "channel.close":
        client.send_methods(2, ChannelCloseOk())
        return False
    assert client.ask(2, ChannelClose(200, "")) == ChannelCloseOk()
    return True


def queue_exists(client: Client, name: str) -> bool:
    return exists(client, QueueDeclare(queue=name, passive=True))


def exchange_exists(client: Client, name: str) -> bool:
    return exists(client, ExchangeDeclare(exchange=name, passive=True))


def test_durable_topology_survives_and_all_else_does_not(tmp_path: Path) -> None:
    with start(tmp_path) as broker, connected(broker) as client:
        for name, durable in (("durable", True), ("transient", False)):
            client.declare(name, durable=durable)
            declare = ExchangeDeclare(exchange=name, type="topic", durable=durable)
            assert client.ask(1, declare) == ExchangeDeclareOk()
        client.declare("exclusive", durable=True, exclusive=True)
        client.declare("auto", durable=True, auto_delete=True)
        for queue, exchange in (
            ("durable", "durable"),
            ("durable", "amq.topic"),
            ("transient", "durable"),
        ):
            bind = QueueBind(queue=queue, exchange=exchange, routing_key="a.*")
            assert client.ask(1, bind) == QueueBindOk()
    with start(tmp_path) as broker, connected(broker) as client:
        assert queue_exists(client, "durable")
        assert queue_exists(client, "auto")
        assert exchange_exists(client, "durable")
        assert not queue_exists(client, "transient")
        assert not queue_exists(client, "exclusive")
        assert not exchange_exists(client, "transient")
        # Its properties, too: another declaration is refused.
        client.declare("durable", durable=True)
        client.declare("auto", durable=True, auto_delete=True)
        for exchange in ("durable", "amq.topic"):
            client.send(publish("a.b", exchange=exchange, mandatory=True))
            assert client.expect_type(1, BasicAck)
        assert client.counts("durable") == (2, 0)


def test_deleted_queues_and_removed_bindings_stay_so(tmp_path: Path) -> None:
    with start(tmp_path) as broker, connected(broker) as client:
        for name in ("kept", "deleted"):
            client.declare(name, durable=True)
            declare = ExchangeDeclare(exchange=name, type="fanout", durable=True)
            assert client.ask(1, declare) == ExchangeDeclareOk()
            client.publish_all(name, b"1", properties=PERSISTENT)
        assert client.ask(1, QueueBind(queue="kept", exchange="kept")) == QueueBindOk()
        assert client.ask(1, QueueUnbind(queue="kept", exchange="kept")) == QueueUnbindOk()
        assert client.ask(1, QueueDelete(queue="deleted")) == QueueDeleteOk(1)
        assert client.ask(1, ExchangeDelete(exchange="deleted")) == ExchangeDeleteOk()
    with start(tmp_path) as broker, connected(broker) as client:
        assert not queue_exists(client, "deleted")
        assert not exchange_exists(client, "deleted")
        client.send(publish("", exchange="kept", mandatory=True))
        assert client.read_method(1).name == "basic.return"
        # A queue of the same name is a new one.
        client.read_content(1)
        client.expect_type(1, BasicAck)
        assert client.declare("deleted", durable=True).message_count == 0
        assert client.counts("kept") == (1, 0)


def test_persistent_messages_of_durable_queues_survive_in_order_and_no_others(
    tmp_path: Path,
) -> None:
    count = 50
    with start(tmp_path) as broker, connected(broker) as client:
        client.declare("durable", durable=True)
        client.declare("transient")
        for number in range(count):
            client.publish_all("durable", b"%d" % number, properties=PERSISTENT)
            client.publish_all("durable", b"transient %d" % number)
        client.publish_all("transient", b"gone", properties=PERSISTENT)
    # Twice: what was recovered is recovered again.
    for _ in range(2):
        with start(tmp_path) as broker, connected(broker) as client:
            assert client.counts("durable") == (count, 0)
    with start(tmp_path) as broker, connected(broker) as client:
        for number in range(count):
            assert client.get("durable") == (number + 1, False, count - number - 1, b"%d" % number)
        assert not queue_exists(client, "transient")


def test_what_was_settled_stays_settled_and_what_was_out_comes_back_redelivered(
    tmp_path: Path,
) -> None:
    with start(tmp_path) as broker, connected(broker) as client:
        client.declare("q", durable=True)
        client.publish_all("q", *b"1 2 3 4 5 6".split(), properties=PERSISTENT)
        for _ in range(4):
            client.get("q")
        client.send_methods(1, BasicAck(2), BasicAck(4))
        assert client.get("q", no_ack=True) == (5, False, 1, b"5")
    with start(tmp_path) as broker, connected(broker) as client:
        assert client.get("q") == (1, True, 2, b"1")
        assert client.get("q") == (2, True, 1, b"3")
        assert client.get("q") == (3, False, 0, b"6")


def test_purged_messages_stay_purged(tmp_path: Path) -> None:
    with start(tmp_path) as broker, connected(broker) as client:
        client.declare("q", durable=True)
        client.publish_all("q", *b"1 2 3".split(), properties=PERSISTENT)
        client.get("q")
        assert client.ask(1, QueuePurge(queue="q")) == QueuePurgeOk(2)
        client.publish_all("q", b"4", properties=PERSISTENT)
    with start(tmp_path) as broker, connected(broker) as client:
        assert client.get("q") == (1, True, 1, b"1")
        assert client.get("q") == (2, False, 0, b"4")


def test_a_message_in_several_queues_survives_in_each_that_has_not_settled_it(
    tmp_path: Path,
) -> None:
    with start(tmp_path) as broker, connected(broker) as client:
        for name in ("a", "b", "c"):
            client.declare(name, durable=True)
            assert client.ask(1, QueueBind(queue=name, exchange="amq.fanout")) == QueueBindOk()
        client.send(publish("", b"all", PERSISTENT, exchange="amq.fanout"))
        client.expect(1, BasicAck(1, False))
        assert client.get("b", no_ack=True) is not None
    with start(tmp_path) as broker, connected(broker) as client:
        assert [client.counts(name)[0] for name in ("a", "b", "c")] == [1, 0, 1]
        assert client.get("a") == (1, False, 0, b"all")


def test_a_single_active_consumer_s_queue_is_one_after_a_restart(tmp_path: Path) -> None:
    arguments = {"x-single-active-consumer": Field("bool", True)}
    with start(tmp_path) as broker, connected(broker) as client:
        client.declare("q", durable=True, arguments=arguments)
        client.publish_all("q", b"1", b"2", properties=PERSISTENT)
    with start(tmp_path) as broker, connected(broker) as client, connected(broker) as other:
        client.declare("q", durable=True, arguments=arguments)
        client.consume("q")
        other.consume("q")
        for number in (1, 2):
            client.expect_delivery(BasicDeliver("c", number, False, "", "q"), b"%d" % number)
        other.nothing_more()


def test_clients_of_a_broker_that_stops_are_told_so(tmp_path: Path) -> None:
    broker = start(tmp_path)
    with broker, connected(broker) as client:
        stopping = threading.Thread(target=broker.stop)
        stopping.start()
        client.expect(0, SHUTDOWN)
        client.send_methods(0, ConnectionCloseOk())
        client.expect_closed()
        stopping.join()


def test_appends_that_wait_for_the_disk_at_a_stop_are_written_before_the_broker_ends(
    tmp_path: Path, files: GatedFiles
) -> None:
    broker = leveret.Broker(data_dir=tmp_path / "data", port=0, log_level="error", files=files)
    with broker, connected(broker) as client:
        client.declare("q", durable=True)
        files.hold()
        client.send(publish("q", b"1", PERSISTENT))
        files.wait_until_syncing()
        client.send(publish("q", b"2", PERSISTENT))
        client.nothing_more()
        stopping = threading.Thread(target=broker.stop)
        stopping.start()
        client.expect(0, SHUTDOWN)
        client.send_methods(0, ConnectionCloseOk())
        client.expect_closed()
        assert stopping.is_alive()
        files.release()
        stopping.join()
    with start(tmp_path) as broker, connected(broker) as client:
        assert client.get("q") == (1, False, 1, b"1")
        assert client.get("q") == (2, False, 0, b"2")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_tells_the_clients_and_ends_with_0_and_all_that_was_accepted_is_there(
    tmp_path: Path, number: signal.Signals
) -> None:
    count = 200
    with Served(tmp_path) as served, connected(served) as client, connected(served) as other:
        client.declare("q", durable=True)
        # Without waiting for the confirms; the passive declare says that all is in the queue.
        client.send(*(publish("q", b"%d" % each, PERSISTENT) for each in range(count)))
        other.wait_for_counts("q", (count, 0))
        served.signal(number)
        other.expect(0, SHUTDOWN)
        other.send_methods(0, ConnectionCloseOk())
        other.expect_closed()
        client.drop()
        assert served.exit_code() == 0, served.log()
    with Served(tmp_path) as served, connected(served) as client:
        client.consume("q", no_ack=True)
        for each in range(count):
            client.expect_delivery(BasicDeliver("c", each + 1, False, "", "q"), b"%d" % each)


def test_no_client_is_let_in_while_the_broker_stops(tmp_path: Path) -> None:
    with Served(tmp_path) as served, connected(served) as client:
        served.signal(signal.SIGTERM)
        client.expect(0, SHUTDOWN)
        with pytest.raises(ConnectionError):
            connected(served)
        client.send_methods(0, ConnectionCloseOk())
        assert served.exit_code() == 0


def test_a_client_that_never_answers_holds_up_the_stop_no_longer_than_the_setting_says(
    tmp_path: Path,
) -> None:
    with Served(tmp_path, drain_timeout_ms=200) as served, connected(served) as client:
        served.signal(signal.SIGTERM)
        client.expect(0, SHUTDOWN)
        assert served.exit_code() == 0
