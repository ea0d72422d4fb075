"""A dedup window, which RabbitMQ takes for an argument that it does not know."""

from __future__ import annotations

from both_brokers import compared
from identified import known
from leveret.amqp_frames.methods import BasicGet, QueueDeclare
from leveret.amqp_frames.values.field_table import table_of
from scripted_session import Session

WINDOW = table_of({"x-dedup-window": 10})


@compared
def test_a_message_published_again_to_a_queue_with_a_window(session: Session) -> None:
    channel = session.channel()
    channel.ask(QueueDeclare(queue="q", durable=True, arguments=WINDOW))
    channel.confirm_select()
    for body in (b"first", b"again"):
        channel.publish("q", body, known(1), mandatory=True)
        channel.confirms(1)
    channel.publish("q", b"other", known(2))
    channel.confirms(1)
    channel.ask(QueueDeclare(queue="q", passive=True))
    channel.ask(BasicGet(queue="q", no_ack=True))


@compared
def test_a_window_in_a_second_declaration(session: Session) -> None:
    channel = session.channel()
    channel.ask(QueueDeclare(queue="q", arguments=WINDOW))
    channel.ask(QueueDeclare(queue="q"))
