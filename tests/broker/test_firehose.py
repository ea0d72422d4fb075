"""The firehose of a live node: switched by HTTP while it runs, kept over a restart, bounded."""

from __future__ import annotations

from pathlib import Path

import leveret
import pytest
from asking_http import asked
from insides import wait_until
from leveret.amqp_frames.methods import BasicGet, BasicGetOk, QueueBind, QueueBindOk
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Field
from leveret.commands.control_client import ask_broker
from log_lines import LogLines
from wire import Client, Content, publish

VHOST = "/api/vhosts/%2F"


@pytest.fixture
def settings(request: pytest.FixtureRequest) -> dict[str, object]:
    own: dict[str, object] = getattr(request, "param", {})
    return own | {
        "http_listener": "on",
        "http_port": 0,
        "log_level": "warning",
        "firehose_backlog_bytes_max": 200_000,
    }


def listen(client: Client) -> None:
    client.declare("copies")
    bind = QueueBind(0, "copies", "amq.rabbitmq.trace", "#")
    assert client.ask(1, bind) == QueueBindOk()


def copy(client: Client) -> tuple[str, Content] | None:
    """Routing key and content of the oldest copy."""
    answer = client.ask(1, BasicGet(queue="copies", no_ack=True))
    if not isinstance(answer, BasicGetOk):
        return None
    return answer.routing_key, client.read_content(1)


def copies(client: Client) -> list[str]:
    """The routing keys of all copies."""
    return [key for key, _ in iter(lambda: copy(client), None)]


def switch(broker: leveret.Broker, is_on: bool) -> None:
    answer = asked(broker, "PUT", VHOST, {"tracing": is_on})
    assert answer.status in (201, 204), answer
    assert asked(broker, "GET", VHOST).content["tracing"] is is_on


def test_it_is_switched_for_channels_that_are_open(broker: leveret.Broker, connect) -> None:
    client, listener = connect(), connect()
    for each in (client, listener):
        each.open_channel(1)
    listen(listener)
    client.declare("q")
    client.send(publish("q", b"before"))
    assert client.get("q", no_ack=True) is not None
    switch(broker, True)
    client.send(publish("q", b"traced"))
    assert client.get("q", no_ack=True) is not None
    listener.wait_for_counts("copies", (2, 0))
    assert copies(listener) == ["publish.", "deliver.q"]
    switch(broker, False)
    client.send(publish("q", b"after"))
    assert client.get("q", no_ack=True) is not None
    assert copies(listener) == []


@pytest.mark.parametrize("settings", [{}, {"host": "0.0.0.0"}], indirect=True)
def test_the_copies_name_the_connection_as_http_does(broker: leveret.Broker, connect) -> None:
    client = connect()
    client.open_channel(1)
    listen(client)
    switch(broker, True)
    client.send(publish("nowhere", b"body", Properties(app_id="a")))
    client.wait_for_counts("copies", (1, 0))
    copied = copy(client)
    assert copied is not None
    content = copied[1]
    headers = content.properties.headers
    assert headers is not None
    [connection] = asked(broker, "GET", "/api/connections").content
    assert headers["connection"] == Field("longstr", connection["name"])
    # The broker's own end is that of the socket, not the address that it listens on.
    assert connection["name"].endswith(f" -> 127.0.0.1:{broker.port}")
    assert headers["node"] == Field("longstr", connection["node"])
    assert headers["properties"].value == {"app_id": Field("longstr", "a")}
    assert content.body == b"body"


def test_it_is_on_after_a_restart(tmp_path: Path) -> None:
    for is_new in (True, False):
        with (
            leveret.Broker(data_dir=tmp_path, port=0, log_level="error") as broker,
            Client(broker.host, broker.port).log_in() as client,
        ):
            if is_new:
                arguments = {"vhost": "/", "tracing": True}
                ask_broker(broker.configuration.data_dir, "vhost change", arguments)
            client.open_channel(1)
            listen(client)
            client.send(publish("nowhere"))
            client.wait_for_counts("copies", (1, 0))


def test_each_message_is_copied_or_counted_as_dropped(
    log: LogLines, broker: leveret.Broker, connect
) -> None:
    """A publisher faster than the copies: it is not held back."""
    client, listener = connect(), connect()
    for each in (client, listener):
        each.open_channel(1, confirms=True)
    listen(listener)
    switch(broker, True)
    message_count = 20_000
    client.send(publish("nowhere") * message_count)
    client.expect_acks(range(1, message_count + 1))

    def is_settled() -> bool:
        dropped = sum(line["messages"] for line in log.of("firehose.dropped"))
        return bool(dropped) and listener.counts("copies")[0] + dropped == message_count

    wait_until(is_settled)
    assert log.of("firehose.dropping")
    # There is room again.
    before = listener.counts("copies")[0]
    client.send(publish("nowhere"))
    listener.wait_for_counts("copies", (before + 1, 0))
