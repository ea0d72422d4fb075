"""One partition against a live broker, without Spark."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install leveret[spark]")

import leveret
import pyarrow as pa
from certificates import Certificates
from gated_files import GatedFiles
from insides import context_of, wait_until
from leveret.spark.options import write_options
from leveret.spark.sink.confirm_channel import ConfirmChannel
from leveret.spark.sink.message_ids import Place
from leveret.spark.sink.publishes import FinalError, PublishError
from leveret.spark.sink.publishing import PartitionPublisher
from leveret.spark.sink.reports import Tally
from target_brokers import Target

from benchmarks.brokers import free_port


@pytest.fixture
def settings() -> dict[str, object]:
    return {"disk_check_interval_ms": 10}


@pytest.fixture
def target(broker: leveret.Broker) -> Target:
    return Target("leveret", broker.port)


def publish(bodies: list[bytes], partition: int = 0, **options: object) -> Tally:
    named = {"routingKey": "q"}
    named |= {name: str(value) for name, value in options.items()}
    waits = threading.Event().wait
    publisher = PartitionPublisher(
        write_options(named), Place("scope", None, partition), "test", waits
    )
    return publisher.publish([pa.RecordBatch.from_pydict({"body": bodies})])


@pytest.mark.parametrize("in_flight", [1, 7, 2000])
def test_all_rows_arrive_in_order_through_a_window_of_any_size(
    target: Target, in_flight: int
) -> None:
    target.declare("q")
    bodies = [b"%d" % number for number in range(1500)]
    tally = publish(bodies, port=target.port, maxInFlight=in_flight)
    assert (tally.rows, tally.confirmed, tally.reconnects) == (1500, 1500, 0)
    assert [message.body for message in target.drain("q")] == bodies
    assert 0 < tally.latencies.percentile_ms(50) <= tally.latencies.percentile_ms(99)


def test_bodies_larger_than_a_frame_and_empty_ones_arrive_whole(target: Target) -> None:
    target.declare("q")
    bodies = [b"", b"x", bytes(range(256)) * 4096, b"y" * 131_064, b"z" * 131_065]
    tally = publish(bodies, port=target.port, maxInFlightBytes=1000)
    assert tally.confirmed == 5
    assert [message.body for message in target.drain("q")] == bodies


def test_a_partition_without_rows_needs_no_broker() -> None:
    assert publish([], port=1).rows == 0


def test_an_exchange_that_is_not_there_fails_at_once_with_the_brokers_words(
    target: Target,
) -> None:
    with pytest.raises(FinalError, match=r"refuses to go on: .*404 NOT_FOUND - no exchange 'no'"):
        publish([b"x"], port=target.port, exchange="no")


@pytest.mark.parametrize(
    ("login", "said"),
    [
        ({"password": "geheim"}, "403 ACCESS_REFUSED - Login was refused using authentication"),
        ({"vhost": "nowhere"}, "530 NOT_ALLOWED - vhost nowhere not found"),
    ],
)
def test_a_login_that_is_refused_fails_at_once_with_the_brokers_words_and_no_password(
    target: Target, login: dict[str, str], said: str
) -> None:
    with pytest.raises(FinalError) as caught:
        publish([b"x"], port=target.port, **login)
    expected = f"cannot publish: localhost:{target.port} refuses the login: {said}"
    assert str(caught.value).startswith(expected)
    assert "geheim" not in str(caught.value)


def test_a_broker_that_cannot_be_reached_is_tried_until_the_time_is_over(
    capfd: pytest.CaptureFixture[str],
) -> None:
    words = r"no broker can be reached for 50 ms \(reconnectTimeoutMs\): localhost:1: .*refused"
    with pytest.raises(PublishError, match=words):
        publish([b"x"], port=1, reconnectTimeoutMs=50, retryBackoffMs=1)
    [line] = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert line["event"] == "spark.sink.waits"
    assert "Connection refused" in line["reason"]


def test_a_broker_that_is_away_is_waited_for(target: Target) -> None:
    target.declare("q")
    port = free_port()
    options = write_options({"port": str(port), "routingKey": "q"})
    batch = pa.RecordBatch.from_pydict({"body": [b"x"]})
    with ExitStack() as stack:

        def wait(_seconds: float) -> None:
            """Its port has been tried, and is open when it is tried again."""
            stack.enter_context(going_between(target.port, [], port))

        publisher = PartitionPublisher(options, Place("scope", None, 0), "test", wait)
        assert publisher.publish([batch]).confirmed == 1


def test_a_connection_lost_in_the_middle_of_a_login_is_no_refusal(target: Target) -> None:
    target.declare("q")
    # Within connection.start-ok: such as a broker that goes down just then.
    with going_between(target.port, [30]) as port:
        assert publish([b"x"], port=port, retryBackoffMs=1).confirmed == 1


def test_partitions_begin_at_different_addresses_and_pass_over_those_that_are_down(
    target: Target,
) -> None:
    target.declare("q")
    uri = f"amqp://127.0.0.1:1,127.0.0.1:{target.port}"
    for partition in (0, 1):
        assert publish([b"x"], partition, uri=uri).confirmed == 1
    assert target.depth("q") == 2


@contextmanager
def going_between(port: int, cut_after: list[int], listens_at: int = 0) -> Iterator[int]:
    """Passes bytes on to the broker; cuts each connection after so many of the client's octets."""
    listener = socket.create_server(("127.0.0.1", listens_at))

    def pump(source: socket.socket, sink: socket.socket, most: int) -> None:
        left = most
        with suppress(OSError):
            while left > 0 and (data := source.recv(min(65536, left))):
                sink.sendall(data)
                left -= len(data)
        for each in (source, sink):
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)

    def serve() -> None:
        for most in [*cut_after, 1 << 40]:
            try:
                client, _address = listener.accept()
            except OSError:
                return
            broker = socket.create_connection(("127.0.0.1", port))
            for source, sink, octets in ((client, broker, most), (broker, client, 1 << 40)):
                threading.Thread(target=pump, args=(source, sink, octets), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    try:
        yield listener.getsockname()[1]
    finally:
        listener.close()


def test_after_a_lost_connection_only_the_unconfirmed_are_published_again(target: Target) -> None:
    target.declare("q")
    bodies = [b"%d" % number for number in range(3000)]
    # Each takes some 200 octets.
    with going_between(target.port, [100_000, 200_000]) as port:
        tally = publish(bodies, port=port, maxInFlight=300)
    assert (tally.rows, tally.confirmed, tally.reconnects) == (3000, 3000, 2)
    messages = target.drain("q")
    assert {message.body for message in messages} == set(bodies)
    assert len(messages) <= 3000 + tally.republished
    assert tally.republished <= 600
    # What came twice came under the same id.
    assert len({message.properties.message_id for message in messages}) == 3000


def test_a_broker_that_drops_every_connection_ends_the_task(target: Target) -> None:
    target.declare("q")
    with (
        going_between(target.port, [700] * 9) as port,
        pytest.raises(PublishError, match="3 connections in a row were lost before a confirm"),
    ):
        publish([b"x"] * 100, port=port, publishRetries=2, retryBackoffMs=1)


def test_a_broker_that_says_nothing_ends_the_task(target: Target, files: GatedFiles) -> None:
    """The journal's sync is held back, so there is no confirm."""
    target.declare("q")
    files.hold()
    try:
        with pytest.raises(PublishError, match=r"no confirm for 200 ms .* 3 publishes in flight"):
            publish([b"a", b"b", b"c"], port=target.port, confirmTimeoutMs=200)
    finally:
        files.release()


def test_a_wait_whose_time_has_just_run_out_is_none(target: Target) -> None:
    options = write_options({"port": str(target.port)})
    channel = ConfirmChannel(options, options.brokers.addresses[0], "test")
    assert channel.events(-0.001) == []
    channel.close()


def test_a_pause_before_another_try_is_not_taken_for_the_brokers_silence(target: Target) -> None:
    target.declare("q", x_max_length=1, x_overflow="reject-publish")
    assert publish([b"x"], port=target.port).confirmed == 1
    options = {"publishRetries": 1, "retryBackoffMs": 5100, "confirmTimeoutMs": 5000}
    with pytest.raises(PublishError, match="the broker nacked row 0 2 times"):
        publish([b"y"], port=target.port, **options)


def test_a_return_is_of_the_row_with_its_headers(target: Target) -> None:
    target.declare("q")
    target.declare("buried")
    with target.channel() as channel:
        channel.queue_bind("q", "amq.headers", arguments={"x-match": "all", "colour": "red"})
    # Alike in everything else, id and body included.
    colours = ["red", "blue", "red", "green", "red"]
    publisher = PartitionPublisher(
        write_options(
            {
                "port": str(target.port),
                "exchange": "amq.headers",
                "routingKey": "k",
                "onReturned": "deadletter",
                "deadLetterExchange": "",
                "deadLetterRoutingKey": "buried",
            }
        ),
        Place("scope", None, 0),
        "test",
        threading.Event().wait,
    )
    rows = {
        "body": [b"the same"] * len(colours),
        "message_id": ["one"] * len(colours),
        "headers": [[("colour", colour.encode())] for colour in colours],
    }
    types = pa.map_(pa.string(), pa.binary())
    columns = [
        pa.array(rows["body"]),
        pa.array(rows["message_id"]),
        pa.array(rows["headers"], types),
    ]
    tally = publisher.publish([pa.RecordBatch.from_arrays(columns, names=list(rows))])
    assert (tally.confirmed, tally.returned, tally.deadlettered) == (3, 2, 2)
    assert [sample.row for sample in tally.samples] == [1, 3]
    buried = [message.headers["colour"] for message in target.drain("buried")]
    assert buried == [b"blue", b"green"]


def test_over_tls_the_brokers_certificate_is_checked(
    tmp_path: Path, certificates: Certificates
) -> None:
    settings = certificates.settings(password_hash_cost=10, log_level="error")
    with leveret.Broker(data_dir=tmp_path / "data", port=0, **settings) as broker:
        Target("leveret", broker.port).declare("q")
        uri = f"amqps://localhost:{broker.tls_port}"
        assert publish([b"x"], uri=uri, caFile=certificates.authority).confirmed == 1
        with pytest.raises(FinalError, match=r"cannot be connected to: .*CERTIFICATE_VERIFY"):
            publish([b"x"], uri=uri)


def test_a_broker_that_has_blocked_publishers_is_quoted(
    target: Target, broker: leveret.Broker, files: GatedFiles
) -> None:
    target.declare("q")
    files.free = 0
    wait_until(lambda: bool(context_of(broker).alarms.reason))
    with pytest.raises(PublishError, match=r"the broker takes none at the moment: .*disk"):
        publish([b"x"], port=target.port, confirmTimeoutMs=3000)
