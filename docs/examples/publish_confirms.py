"""Publish in confirm mode with pika, and see what a confirm and a return are.

    make run                                            # in one terminal
    .venv/bin/python docs/examples/publish_confirms.py  # in another

The first line says which broker answers, because another one may have the port. Every message is
persistent and mandatory. When `basic_publish` comes back, the broker has confirmed the message: it
is on disk. The last one has no queue to go to; it is returned.
"""

from __future__ import annotations

import os
import sys

import pika
from pika.exceptions import AMQPConnectionError, UnroutableError

PERSISTENT = pika.BasicProperties(delivery_mode=pika.DeliveryMode.Persistent.value)


def product_of(connection: pika.BlockingConnection) -> str:
    """Name the broker by its server properties.

    Leveret says `product` RabbitMQ, because clients choose by it what they do, and its own name in
    the property `leveret`. pika keeps the properties on its inner connection.
    """
    said = connection._impl.server_properties
    if "leveret" in said:
        return f"Leveret {said['leveret']}"
    return f"{said.get('product')} {said.get('version')}, which is not Leveret,"


def main() -> None:
    """Publish ten messages to a durable queue, and one to nowhere."""
    port = int(os.environ.get("LEVERET_PORT", "5672"))
    try:
        connection = pika.BlockingConnection(pika.ConnectionParameters("127.0.0.1", port))
    except AMQPConnectionError as fault:
        sys.exit(f"no connection to port {port}, where `make run` starts a broker: {fault!r}")
    print(f"connected to {product_of(connection)} on port {port}")
    channel = connection.channel()
    channel.queue_declare("orders", durable=True)
    channel.confirm_delivery()
    for number in range(1, 11):
        body = f"order {number}".encode()
        channel.basic_publish("", "orders", body, PERSISTENT, mandatory=True)
        print(f"confirmed: {body.decode()} is on disk")
    try:
        channel.basic_publish("", "no-such-queue", b"lost?", PERSISTENT, mandatory=True)
    except UnroutableError as unroutable:
        [returned] = unroutable.messages
        print(f"returned: {returned.method.reply_code} {returned.method.reply_text}")
    left = channel.queue_declare("orders", durable=True, passive=True).method.message_count
    print(f"the queue holds {left} messages; restart the broker, and it still does")
    connection.close()


if __name__ == "__main__":
    main()
