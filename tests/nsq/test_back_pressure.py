"""Who publishes too much is not read, who does not read gets no more, and alarms stop publishes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import leveret
import pytest
from full_files import FullFiles
from gated_files import GatedFiles
from insides import context_of, in_flight_count, wait_until
from leveret.core.connection.reading_time import Pause
from nsq_wire import ERROR, OK, NsqClient, mpub, pub

Nsq = Callable[[], NsqClient]
MIB = 1024 * 1024


@pytest.fixture
def settings() -> dict[str, object]:
    return {
        "nsq_port": 0,
        "disk_check_interval_ms": 10,
        "publish_window_bytes_max": 65_536,
        "delivery_window_bytes_max": 65_536,
        "write_buffer_bytes_max": 65_536,
    }


def test_an_alarm_holds_back_publishes_and_lets_consumers_go_on(
    nsq: Nsq, broker: leveret.Broker, files: GatedFiles
) -> None:
    nsq().send(mpub("t", b"1", b"2")).ok()
    consumer = nsq().subscribe("t", "c", 1)
    first = consumer.message()
    publisher = nsq()
    publisher.send(pub("t", b"before")).ok()
    files.free = 0
    wait_until(lambda: bool(context_of(broker).alarms.reason))
    publisher.send(pub("t", b"3"), b"BOGUS\n")
    # Lists of connections say so.
    opened = context_of(broker).open_connections
    wait_until(lambda: Pause.ALARM in [each.reading.reason for each in opened.values()])
    consumer.send(b"FIN " + first.id + b"\n")
    second = consumer.message()
    consumer.send(b"RDY 10\n")
    assert consumer.message().body == b"before"
    consumer.send(b"FIN " + second.id + b"\n").nothing()
    files.free = None
    publisher.ok()
    assert publisher.error() == b"E_INVALID invalid command BOGUS"
    assert consumer.message().body == b"3"


def test_a_publisher_that_outruns_the_disk_is_not_read(
    nsq: Nsq, broker: leveret.Broker, files: GatedFiles
) -> None:
    publisher = nsq()
    publisher.send(pub("t", b"first")).ok()
    files.hold()
    data = pub("t", bytes(1_000)) * 32_000
    sender = threading.Thread(target=publisher.send, args=(data,))
    sender.start()
    files.wait_until_syncing()
    context = context_of(broker)
    wait_until(lambda: context.node_window.used_bytes > 65_536)
    # All that sockets hold on the way, and one read, is less than it wants to send.
    assert context.node_window.used_bytes < 8 * MIB
    assert sender.is_alive()
    files.release()
    publisher.ok(32_000)
    sender.join()
    wait_until(lambda: context.node_window.used_bytes == 0)


def test_a_consumer_that_does_not_read_gets_no_more(nsq: Nsq, broker: leveret.Broker) -> None:
    publisher = nsq()
    for _ in range(60):
        publisher.send(pub("t", bytes(MIB))).ok()
    consumer = nsq().subscribe("t", "c", 100)
    wait_until(lambda: in_flight_count(broker, "t:c") > 0)
    # Another connection's questions are answered behind all that could be written.
    publisher.send(pub("u", b"x")).ok()
    assert in_flight_count(broker, "t:c") < 60
    assert all(len(each.body) == MIB for each in consumer.messages(60))
    wait_until(lambda: context_of(broker).node_outlet.used_bytes == 0)


class TestLittleMemory:
    @pytest.fixture
    def settings(self) -> dict[str, object]:
        return {
            "nsq_port": 0,
            "memory_budget_bytes": MIB,
            "memory_alarm_bytes": 2 * MIB,
            "publish_window_bytes_max": 16 * MIB,
            "node_publish_window_bytes_max": 16 * MIB,
        }

    def test_an_alarm_of_memory_holds_back_publishes_and_lets_consumers_go_on(
        self, nsq: Nsq, broker: leveret.Broker, files: GatedFiles
    ) -> None:
        alarms = context_of(broker).alarms
        nsq().send(mpub("t", b"1", b"2")).ok()
        consumer = nsq().subscribe("t", "c", 1)
        flooder, publisher = nsq(), nsq()
        flooder.send(pub("flooded", b"first")).ok()
        files.hold()
        flooder.send(pub("flooded", bytes(10_000)) * 300)
        wait_until(lambda: alarms.reason == "low on memory")
        publisher.send(pub("t", b"3"))
        opened = context_of(broker).open_connections
        wait_until(lambda: Pause.ALARM in [each.reading.reason for each in opened.values()])
        for body in (b"1", b"2"):
            message = consumer.message()
            assert message.body == body
            consumer.send(b"FIN " + message.id + b"\n")
        consumer.nothing()
        files.release()
        # On the disk it can be paged.
        publisher.ok()
        flooder.ok(300)
        assert consumer.message().body == b"3"
        assert alarms.reason == ""


class TestFullDisk:
    """No alarm comes first: the journal meets a disk that is full."""

    @pytest.fixture
    def settings(self) -> dict[str, object]:
        return {
            "nsq_port": 0,
            "disk_free_bytes_min": 0,
            "disk_check_interval_ms": 10,
            "segment_bytes_max": MIB,
        }

    @pytest.fixture
    def files(self) -> Iterator[FullFiles]:
        full = FullFiles()
        yield full
        full.release()

    def test_each_of_many_clients_has_the_answer_that_is_true_of_its_messages(
        self, nsq: Nsq, broker: leveret.Broker, files: FullFiles
    ) -> None:
        consumer = nsq().subscribe("t", "c")
        clients = [nsq() for _ in range(20)]
        for client in clients:
            client.send(pub("ready#ephemeral", b"x")).ok()
        files.hold()
        clients[0].send(pub("t", b"0" * 10_000))
        files.wait_until_syncing()
        # The others' are more than a segment, and there is no room for another.
        for number, client in enumerate(clients[1:], 1):
            bodies = [b"%d " % number * 30_000] * (number % 3 + 1)
            client.send(mpub("t", *bodies))
        queue = context_of(broker).vhosts["/"].table.find_queue("t:c")
        counts = [number % 3 + 1 for number in range(1, 20)]
        wait_until(lambda: queue.rules.ready.message_count == 1 + sum(counts))
        files.room = 100_000
        files.release()
        assert clients[0].receive() == OK
        kept, full = [b"0" * 10_000], b"E_MPUB_FAILED MPUB failed no space left on the disk"
        for number, client in enumerate(clients[1:], 1):
            answer = client.receive()
            if answer == OK:
                kept += [b"%d " % number * 30_000] * (number % 3 + 1)
            else:
                assert answer == (ERROR, full)
                assert client.receive() is None
        assert len(kept) < 1 + sum(counts)
        # A publish waits for room, and the consumer does not.
        late = nsq().send(pub("t", b"late"))
        consumer.send(b"RDY 100\n")
        assert sorted(each.body for each in consumer.messages(len(kept))) == sorted(kept)
        files.room = None
        late.ok()
        assert consumer.message().body == b"late"
