"""Reply consumers: what becomes of their name, and of replies that they cannot take."""

from __future__ import annotations

import itertools
import socket
from collections.abc import Callable

import leveret
import pytest
from holding import part, parts
from insides import context_of, inside, readers, wait_until, writer_actor
from leveret.actors.messages import WriteDeliveries
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicQos,
    BasicReturn,
    ChannelClose,
    ChannelCloseOk,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
)
from leveret.core.connection.outlet import Outlet
from replies import ASKING, REPLY_TO, asking, expect_reply, name_in_request, reply_name
from wire import Client, publish

Connect = Callable[..., Client]


@pytest.fixture
def asker(connect: Connect) -> Client:
    return asking(connect)


def test_a_mandatory_reply_counts_as_not_routed_though_it_arrives(
    asker: Client, client: Client
) -> None:
    # As RabbitMQ documents it: the name is no queue.
    name = reply_name(asker, client)
    client.send(publish(name, b"reply", mandatory=True))
    client.expect(1, BasicReturn(312, "NO_ROUTE", "", name))
    assert client.read_content(1).body == b"reply"
    client.expect(1, BasicAck(1, False))
    expect_reply(asker, 1, name, b"reply")


def test_a_name_is_one_on_the_default_exchange_only(asker: Client, client: Client) -> None:
    name = reply_name(asker, client)
    client.send(publish(name, b"no", exchange="amq.fanout"), publish(name + "x", b"no"))
    client.expect(1, BasicAck(2, True))
    asker.nothing_more()


def test_replies_after_the_cancel_are_dropped_and_a_new_consumer_has_a_new_name(
    asker: Client, client: Client
) -> None:
    name = reply_name(asker, client)
    assert asker.ask(1, BasicCancel("r")) == BasicCancelOk("r")
    client.send(publish(name, b"late"))
    client.expect(1, BasicAck(1, False))
    asker.consume(REPLY_TO, "r", no_ack=True)
    client.send(publish(name, b"late"))
    client.expect(1, BasicAck(2, False))
    asker.nothing_more()
    assert reply_name(asker, client) != name


@pytest.mark.parametrize("is_polite", [True, False])
def test_nothing_is_left_of_a_channel_that_is_gone(
    asker: Client, client: Client, broker: leveret.Broker, is_polite: bool
) -> None:
    name = reply_name(asker, client)
    assert context_of(broker).reply_consumers.find(name) is not None
    if is_polite:
        assert asker.ask(1, ChannelClose(200, "bye")) == ChannelCloseOk()
    else:
        asker.drop()
    wait_until(lambda: context_of(broker).reply_consumers.find(name) is None)
    client.send(publish(name, b"late"))
    client.expect(1, BasicAck(1, False))


# --- The pseudo-queue


def test_declaring_tells_whether_the_consumer_is_still_there(asker: Client, client: Client) -> None:
    name = reply_name(asker, client)
    for queue in (REPLY_TO, name):
        for passive in (True, False):
            declare = QueueDeclare(queue=queue, passive=passive, durable=True)
            assert client.ask(1, declare) == QueueDeclareOk(queue, 0, 1)
    # It is the queue declared last now, and yet none.
    client.send_methods(1, QueueBind(exchange="amq.direct"))
    text = f"NOT_FOUND - no queue '{name}' in vhost '/'"
    client.expect(1, ChannelClose(404, text, 50, 20))


def test_deleting_it_deletes_nothing(asker: Client, client: Client) -> None:
    name = reply_name(asker, client)
    assert client.ask(1, QueueDelete(queue=name)) == QueueDeleteOk(0)
    client.send(publish(name, b"still"))
    expect_reply(asker, 1, name, b"still")


def test_a_generated_tag_and_no_wait(connect: Connect, client: Client) -> None:
    asker = connect()
    asker.open_channel(1)
    asker.declare("work")
    asker.send_methods(1, BasicConsume(queue=REPLY_TO, no_ack=True, no_wait=True))
    name = reply_name(asker, client)
    client.send(publish(name, b"reply"))
    tag = asker.expect_type(1, BasicDeliver).consumer_tag
    assert asker.read_content(1).body == b"reply"
    assert asker.ask(1, BasicCancel(tag)) == BasicCancelOk(tag)
    answer = asker.ask(1, BasicConsume(queue=REPLY_TO, no_ack=True))
    assert isinstance(answer, BasicConsumeOk)
    assert answer.consumer_tag not in ("", tag)


# --- A client that does not read


class TestWindow:
    @pytest.fixture
    def settings(self) -> dict[str, object]:
        return {"reply_window_bytes_max": 65_536, "write_buffer_bytes_max": 65_536}

    def test_replies_to_who_does_not_read_are_dropped_past_the_window(
        self, asker: Client, client: Client, broker: leveret.Broker
    ) -> None:
        name = reply_name(asker, client)
        count = 400
        for number in range(count):
            client.send(publish(name, b"%5d" % number + bytes(100_000)))
            # The one who answers is answered, whatever becomes of the reply.
            client.expect(1, BasicAck(number + 1, False))
        # Its answer comes after all that had room.
        asker.send_methods(1, BasicQos(prefetch_count=1))
        got: list[int] = []
        while isinstance(asker.read_method(1), BasicDeliver):
            got.append(int(asker.read_content(1).body[:5]))
        # The room comes back once the socket has taken them, which the client may see first.
        wait_until(lambda: outlet_of(broker, name).replies.used_bytes == 0)
        # It reads, so it gets replies again.
        client.send(publish(name, b"%5d" % count))
        expect_reply(asker, len(got) + 1, name, b"%5d" % count)
        # In order, without the ones for which there was no room.
        assert got
        assert got == sorted(set(got))
        assert len(got) < count

    def test_all_channels_of_a_connection_share_the_window_and_other_connections_do_not(
        self, asker: Client, client: Client, connect: Connect, broker: leveret.Broker
    ) -> None:
        names = [reply_name(asker, client)]
        for channel in range(2, 31):
            asker.open_channel(channel)
            asker.consume(REPLY_TO, "r", no_ack=True, channel=channel)
            asker.send(publish("work", b"request", ASKING, channel=channel))
            asker.nothing_more(channel)
            names.append(name_in_request(client))
        other = asking(connect)
        other_name = reply_name(other, client)
        writer = inside(writer_actor(readers(broker)[0]))
        numbers = itertools.count(1)

        def reply(name: str) -> None:
            client.send(publish(name, bytes(30_000)))
            client.expect(1, BasicAck(next(numbers), False))

        def waiting_bytes() -> int:
            return sum(each.window_bytes for each in parts(writer, WriteDeliveries))

        # Until the socket's buffers are full and the rest waits in the broker.
        asker.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65_536)
        while waiting_bytes() < 65_536:
            reply(names[0])
        for name in names * 4:
            reply(name)
        client.send(publish(other_name, b"reply"))
        expect_reply(other, 1, other_name, b"reply")
        # The last one that there was room for may be larger than the room.
        assert waiting_bytes() < 65_536 + 31_000


def outlet_of(broker: leveret.Broker, name: str) -> Outlet:
    channel = context_of(broker).reply_consumers.find(name)
    assert channel is not None
    return part(inside(channel), Outlet)
