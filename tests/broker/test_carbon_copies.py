"""CC and BCC, end to end: who gets a message, and what is left in it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import leveret
import pika
from leveret.amqp_frames.methods import BasicAck, BasicDeliver, BasicGet, BasicGetOk, BasicReturn
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Field
from wire import Client, publish


def keys(*names: str) -> Field:
    return Field("array", [Field("longstr", name) for name in names])


def got_properties(client: Client, queue: str) -> Properties:
    answer = client.ask(1, BasicGet(queue=queue, no_ack=True))
    assert isinstance(answer, BasicGetOk), answer
    # The publish's own key, whichever key led here.
    assert answer.routing_key == "a"
    return client.read_content(1).properties


def test_copies_are_delivered_with_cc_and_without_bcc(client: Client) -> None:
    for queue in "abc":
        client.declare(queue)
    headers = {"mine": Field("longstr", "kept"), "CC": keys("b"), "BCC": keys("c", "nowhere")}
    client.send(publish("a", b"one", Properties(headers=headers), mandatory=True))
    client.expect(1, BasicAck(1, False))
    del headers["BCC"]
    for queue in "abc":
        assert got_properties(client, queue) == Properties(headers=headers)
        assert client.counts(queue) == (0, 0)


def test_a_return_and_a_delivery_carry_no_bcc_to_the_byte(client: Client) -> None:
    client.declare("q")
    client.consume("q", no_ack=True)
    secret = Properties(headers={"BCC": keys("q")})
    client.send(publish("nowhere", b"seen", secret, mandatory=True))
    client.expect_delivery(BasicDeliver("c", 1, False, "", "nowhere"), b"seen")
    client.expect(1, BasicAck(1, False))
    secret = Properties(headers={"BCC": keys("gone")})
    client.send(publish("nowhere", b"lost", secret, mandatory=True))
    client.expect(1, BasicReturn(312, "NO_ROUTE", "", "nowhere"))
    content = client.read_content(1)
    assert (content.properties, content.body) == (Properties(headers={}), b"lost")
    client.expect(1, BasicAck(2, False))


def test_bcc_is_not_in_the_journal_and_copies_survive_a_restart(
    tmp_path: Path,
) -> None:
    data_dir = tmp_path / "copies"
    settings: dict[str, Any] = {"data_dir": data_dir, "port": 0, "log_level": "error"}
    headers = {"CC": keys("b"), "BCC": keys("very-secret")}
    with leveret.Broker(**settings) as broker, Client(broker.host, broker.port) as client:
        client.log_in().open_channel(1, confirms=True)
        for queue in ("a", "b", "very-secret"):
            client.declare(queue, durable=True)
        client.publish_all("a", b"kept", properties=Properties(headers=headers, delivery_mode=2))
        client.close()
    # The catalog has the queue's name, and so has a trace, if there is one.
    files = [
        file
        for file in data_dir.rglob("*")
        if file.is_file() and "catalog" not in file.name and file.parent.name != "traces"
    ]
    assert any(b"kept" in file.read_bytes() for file in files)
    assert not any(b"very-secret" in file.read_bytes() for file in files)
    with leveret.Broker(**settings) as broker, Client(broker.host, broker.port) as client:
        client.log_in().open_channel(1)
        for queue in ("a", "b", "very-secret"):
            properties = got_properties(client, queue)
            assert properties == Properties(headers={"CC": keys("b")}, delivery_mode=2)
        client.close()


def test_pika_publishes_a_copy(broker: leveret.Broker) -> None:
    parameters = pika.ConnectionParameters(broker.host, broker.port)
    with pika.BlockingConnection(parameters) as connection:
        channel = connection.channel()
        channel.confirm_delivery()
        for queue in "abc":
            channel.queue_declare(queue)
        properties = pika.BasicProperties(headers={"CC": ["b"], "BCC": ["c"]})
        channel.basic_publish("", "a", b"body", properties, mandatory=True)
        for queue in "abc":
            method, received, body = channel.basic_get(queue, auto_ack=True)
            assert (method.routing_key, received.headers, body) == ("a", {"CC": ["b"]}, b"body")
