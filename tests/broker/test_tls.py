"""Over TLS a connection is one like any: what readers and writers take for granted holds."""

from __future__ import annotations

import ssl

import leveret
import pika
import pytest
from certificates import Certificates, Stranger, assert_serves
from gated_files import GatedFiles
from insides import publish_window, readers, transport_of, wait_until
from leveret.actors.connection.listener import READ_BYTES_MAX
from leveret.amqp_frames.methods import BasicDeliver
from pika.exceptions import UnroutableError
from timeouts import TIMEOUT_SECONDS
from wire import PERSISTENT, publish

MIB = 1 << 20
WINDOW_BYTES = 65_536


@pytest.fixture
def settings(certificates: Certificates) -> dict[str, object]:
    return certificates.settings(
        delivery_window_bytes_max=WINDOW_BYTES,
        write_buffer_bytes_max=WINDOW_BYTES,
        publish_window_bytes_max=WINDOW_BYTES,
    )


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_client_is_served_by_either_version(
    stranger: Stranger, certificates: Certificates, version: ssl.TLSVersion
) -> None:
    context = certificates.client()
    context.minimum_version = context.maximum_version = version
    assert_serves(stranger(context).log_in())


def test_pika_publishes_with_confirms_and_consumes(
    broker: leveret.Broker, certificates: Certificates
) -> None:
    options = pika.SSLOptions(certificates.client(), broker.host)
    parameters = pika.ConnectionParameters(broker.host, broker.tls_port, ssl_options=options)
    count = 50
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        channel.queue_declare("q", durable=True)
        persistent = pika.BasicProperties(delivery_mode=2)
        for number in range(count):
            channel.basic_publish("", "q", b"%d" % number, persistent, mandatory=True)
        with pytest.raises(UnroutableError):
            channel.basic_publish("", "nowhere", b"lost", persistent, mandatory=True)
        bodies = []
        for method, _properties, body in channel.consume("q", inactivity_timeout=TIMEOUT_SECONDS):
            channel.basic_ack(method.delivery_tag)
            bodies.append(body)
            if len(bodies) == count:
                break
        assert bodies == [b"%d" % number for number in range(count)]


def test_a_large_body_goes_in_and_out_whole(stranger: Stranger, certificates: Certificates) -> None:
    client = stranger(certificates.client()).log_in()
    client.open_channel(1, confirms=True)
    client.declare("q")
    body = bytes(range(256)) * (16 * MIB // 256)
    client.publish_all("q", body)
    got = client.get("q", no_ack=True)
    assert got is not None
    assert got.body == body


def test_a_client_that_closes_is_answered_and_gone(
    stranger: Stranger, certificates: Certificates, broker: leveret.Broker
) -> None:
    stranger(certificates.client()).log_in().close()
    stranger(certificates.client()).log_in().drop()
    wait_until(lambda: not readers(broker))


# --- What readers and writers take for granted of a transport


def test_a_consumer_that_does_not_read_stops_getting_and_then_gets_all(
    stranger: Stranger, certificates: Certificates, broker: leveret.Broker
) -> None:
    client = stranger(certificates.client()).log_in()
    slow = stranger(certificates.client()).log_in()
    slow.open_channel()
    client.open_channel(1, confirms=True)
    client.declare("q")
    slow.consume("q", no_ack=True)
    count, body_bytes = 600, 50_000
    for number in range(count):
        client.publish_all("q", b"%08d" % number + bytes(body_bytes - 8))
    left = client.counts("q")[0]
    assert left > count // 2
    assert transport_of(readers(broker)[1]).get_write_buffer_size() < MIB
    for number in range(count):
        slow.expect_delivery(
            BasicDeliver("c", number + 1, False, "", "q"), b"%08d" % number + bytes(body_bytes - 8)
        )
    client.wait_for_counts("q", (0, 1))


def test_a_publisher_faster_than_the_disk_is_read_no_further_and_then_to_its_end(
    stranger: Stranger, certificates: Certificates, broker: leveret.Broker, files: GatedFiles
) -> None:
    client = stranger(certificates.client()).log_in()
    client.open_channel(1, confirms=True)
    client.declare("durable", durable=True)
    files.hold()
    count = 300
    with client.sending(publish("durable", bytes(10_000), PERSISTENT) * count):
        files.wait_until_syncing()
        window = publish_window(readers(broker)[0])
        wait_until(lambda: window.is_closed)
        # One read more than the window holds, with a message that was cut by the read before.
        assert window.used_bytes < WINDOW_BYTES + READ_BYTES_MAX + 20_000
        files.release()
    client.expect_acks(range(1, count + 1))
    assert client.counts("durable") == (count, 0)
