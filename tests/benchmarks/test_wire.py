from __future__ import annotations

import pika.frame
import pika.spec
from pika.spec import BasicProperties

from benchmarks import wire


def test_a_publish_is_what_pika_would_send() -> None:
    body = wire.body_of(200)
    publish = pika.spec.Basic.Publish(exchange="e", routing_key="k", mandatory=True)
    properties = BasicProperties(delivery_mode=2)
    expected = (
        pika.frame.Method(3, publish).marshal()
        + pika.frame.Header(3, len(body), properties).marshal()
        + pika.frame.Body(3, body).marshal()
    )
    assert wire.publish(3, "e", "k", body, 2, mandatory=True) == expected


def test_an_ack_is_what_pika_would_send() -> None:
    ack = pika.spec.Basic.Ack(delivery_tag=77, multiple=True)
    assert wire.ack(9, 77, multiple=True) == pika.frame.Method(9, ack).marshal()


def test_declare_bind_and_consume_are_what_pika_would_send() -> None:
    spec = pika.spec
    pairs = [
        (wire.queue_declare(1, "q", True), spec.Queue.Declare(queue="q", durable=True)),
        (
            wire.queue_bind(1, "q", "e", "k"),
            spec.Queue.Bind(queue="q", exchange="e", routing_key="k"),
        ),
        (wire.queue_purge(1, "q"), spec.Queue.Purge(queue="q")),
        (wire.queue_delete(1, "q"), spec.Queue.Delete(queue="q")),
        (
            wire.exchange_declare(1, "e", "fanout"),
            spec.Exchange.Declare(exchange="e", type="fanout", durable=True),
        ),
        (wire.exchange_delete(1, "e"), spec.Exchange.Delete(exchange="e")),
        (wire.basic_qos(1, 50), spec.Basic.Qos(prefetch_count=50)),
        (wire.basic_consume(1, "q", "t"), spec.Basic.Consume(queue="q", consumer_tag="t")),
    ]
    for encoded, method in pairs:
        assert encoded == pika.frame.Method(1, method).marshal()
