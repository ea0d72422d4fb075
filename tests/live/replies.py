"""Clients that ask by way of amq.rabbitmq.reply-to, and the name that their requests carry."""

from __future__ import annotations

from collections.abc import Callable

from leveret.amqp_frames.methods import BasicDeliver, BasicGet, BasicGetOk
from leveret.amqp_frames.properties import Properties
from wire import Client, publish

REPLY_TO = "amq.rabbitmq.reply-to"
ASKING = Properties(reply_to=REPLY_TO, correlation_id="7")


def asking(connect: Callable[..., Client]) -> Client:
    """Channel 1 has a reply consumer with tag `r`; queue `work` takes requests."""
    client = connect()
    client.open_channel(1)
    client.declare("work")
    client.consume(REPLY_TO, "r", no_ack=True)
    return client


def reply_name(asker: Client, client: Client, channel: int = 1) -> str:
    """The name that `client` finds in a request, and that is the asker's."""
    asker.send(publish("work", b"request", ASKING))
    asker.nothing_more()
    return name_in_request(client, channel)


def name_in_request(client: Client, channel: int = 1) -> str:
    """The name in the request that has waited longest."""
    answer = client.ask(channel, BasicGet(queue="work", no_ack=True))
    assert isinstance(answer, BasicGetOk), answer
    properties = client.read_content(channel).properties
    assert properties.correlation_id == "7"
    assert properties.reply_to is not None
    assert properties.reply_to.startswith(REPLY_TO + ".")
    return properties.reply_to


def expect_reply(asker: Client, tag: int, name: str, body: bytes) -> Properties:
    asker.expect(1, BasicDeliver("r", tag, False, "", name))
    content = asker.read_content(1)
    assert content.body == body
    return content.properties
