"""An unmodified pika on exchanges that lead on."""

from __future__ import annotations

from typing import Any

import leveret
import pika
import pytest
from pika.exceptions import ChannelClosedByBroker, UnroutableError


def publish(channel: Any, exchange: str, body: bytes, **headers: object) -> None:
    properties = pika.BasicProperties(headers=headers)
    channel.basic_publish(exchange, "k", body, properties, mandatory=True)


def bodies(channel: Any, queue: str) -> list[bytes]:
    found = []
    while True:
        method, _, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return found
        found.append(body)


def test_headers_alternates_and_exchange_bindings(broker: leveret.Broker) -> None:
    parameters = pika.ConnectionParameters(broker.host, broker.port)
    with pika.BlockingConnection(parameters) as connection:
        assert connection.exchange_exchange_bindings_supported
        channel = connection.channel()
        channel.confirm_delivery()
        for queue in ("invoices", "all", "lost"):
            channel.queue_declare(queue)
        channel.exchange_declare(
            "documents", "headers", arguments={"alternate-exchange": "unwanted"}
        )
        channel.exchange_declare("archive", "fanout", internal=True)
        channel.exchange_declare("unwanted", "fanout")
        wanted = {"x-match": "all", "kind": "invoice", "paid": False, "pages": 2}
        channel.queue_bind("invoices", "documents", arguments=wanted)
        channel.exchange_bind("archive", "documents", arguments={"x-match": "any", "kind": None})
        channel.queue_bind("all", "archive")
        publish(channel, "documents", b"1", kind="invoice", paid=False, pages=2, more="yes")
        publish(channel, "documents", b"2", kind="invoice", paid=True, pages=2)
        with pytest.raises(UnroutableError):
            publish(channel, "documents", b"3")
        channel.queue_bind("lost", "unwanted")
        publish(channel, "documents", b"4", paid=False)
        channel.exchange_unbind("archive", "documents", arguments={"x-match": "any", "kind": None})
        publish(channel, "documents", b"5", kind="letter")
        assert bodies(channel, "invoices") == [b"1"]
        assert bodies(channel, "all") == [b"1", b"2"]
        assert bodies(channel, "lost") == [b"4", b"5"]
        with pytest.raises(ChannelClosedByBroker) as closed:
            channel.queue_bind("all", "documents", arguments={"x-match": "some"})
        assert closed.value.reply_text == (
            'PRECONDITION_FAILED - Invalid x-match field value <<"some">>; '
            "expected all, any, all-with-x, or any-with-x"
        )
