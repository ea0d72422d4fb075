"""Mandatory messages that match no queue: return before confirm, frame by frame."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from gated_files import GatedFiles
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicReturn,
    ConfirmSelect,
    ConfirmSelectOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
)
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Field
from wire import PERSISTENT, TRANSIENT, Client, publish

NO_ROUTE = BasicReturn(312, "NO_ROUTE", "", "nowhere")


def expect_return(client: Client, body: bytes, returned: BasicReturn = NO_ROUTE) -> Properties:
    client.expect(1, returned)
    content = client.read_content(1)
    assert content.body == body
    return content.properties


def test_return_before_confirm(client: Client) -> None:
    client.send(publish("nowhere", b"lost", mandatory=True))
    assert expect_return(client, b"lost") == TRANSIENT
    client.expect(1, BasicAck(1, False))


def test_a_returned_message_has_the_properties_it_came_with(client: Client) -> None:
    properties = Properties(
        content_type="text/plain",
        headers={"x": Field("signedint", 1)},
        delivery_mode=2,
        priority=7,
        message_id="m",
        timestamp=1,
    )
    client.send(publish("nowhere", b"lost", properties, mandatory=True))
    assert expect_return(client, b"lost") == properties
    client.expect(1, BasicAck(1, False))


def test_return_before_confirm_with_persistent_publishes_in_flight_around_it(
    client: Client, files: GatedFiles
) -> None:
    client.declare("durable", durable=True)
    files.hold()
    client.send(
        publish("durable", b"1", PERSISTENT),
        publish("nowhere", b"2", PERSISTENT, mandatory=True),
        publish("durable", b"3", PERSISTENT),
        publish("nowhere", b"4", PERSISTENT, mandatory=True),
    )
    expect_return(client, b"2")
    client.expect(1, BasicAck(2, False))
    expect_return(client, b"4")
    client.expect(1, BasicAck(4, False))
    files.wait_until_syncing()
    client.nothing_more()
    files.release()
    # Covers 2 and 4, too; these are answered already, and are not answered again.
    client.expect(1, BasicAck(3, True))


def test_return_before_confirm_with_transient_publishes_around_it_in_one_read(
    client: Client,
) -> None:
    client.declare("q")
    client.send(publish("q"), publish("nowhere", b"2", mandatory=True), publish("q"))
    expect_return(client, b"2")
    client.expect(1, BasicAck(2, False), BasicAck(3, True))


def test_every_return_of_a_read_has_its_own_ack_directly_behind_it(client: Client) -> None:
    client.send(*(publish("nowhere", b"%d" % number, mandatory=True) for number in range(100)))
    for number in range(100):
        expect_return(client, b"%d" % number)
        client.expect(1, BasicAck(number + 1, False))


def test_an_unroutable_message_that_is_not_mandatory_is_acked_without_a_return(
    client: Client,
) -> None:
    client.send(publish("nowhere"))
    client.expect(1, BasicAck(1, False))
    client.send(publish("nowhere", mandatory=True), publish("nowhere"), publish("nowhere"))
    expect_return(client, b"body")
    client.expect(1, BasicAck(2, False), BasicAck(4, True))


def test_a_mandatory_message_that_has_a_queue_is_not_returned(client: Client) -> None:
    client.declare("q")
    client.send(publish("q", mandatory=True))
    client.expect(1, BasicAck(1, False))


def test_a_return_names_the_exchange_that_was_published_to(client: Client) -> None:
    client.send(publish("a.b", exchange="amq.topic", mandatory=True))
    expect_return(client, b"body", BasicReturn(312, "NO_ROUTE", "amq.topic", "a.b"))
    client.expect(1, BasicAck(1, False))


def test_a_mandatory_message_is_returned_by_an_exchange_without_bindings(
    client: Client,
) -> None:
    assert client.ask(1, ExchangeDeclare(exchange="x", type="fanout")) == ExchangeDeclareOk()
    client.send(publish("k", exchange="x", mandatory=True))
    expect_return(client, b"body", BasicReturn(312, "NO_ROUTE", "x", "k"))
    client.expect(1, BasicAck(1, False))
    assert client.ask(1, ExchangeDelete(exchange="x")) == ExchangeDeleteOk()


def test_a_return_of_an_empty_message_is_method_and_header(client: Client) -> None:
    client.send(publish("nowhere", b"", mandatory=True))
    client.expect(1, NO_ROUTE)
    content = client.read_content(1)
    assert (content.body, content.body_frames) == (b"", 0)
    client.expect(1, BasicAck(1, False))


def test_a_return_of_a_body_in_many_frames_precedes_its_ack(
    connect: Callable[..., Client],
) -> None:
    client = connect(frame_max_bytes=4096)
    client.open_channel(1, confirms=True)
    body = bytes(range(256)) * 100
    client.send(publish("nowhere", body, mandatory=True, frame_max_bytes=4096))
    client.expect(1, NO_ROUTE)
    content = client.read_content(1)
    assert content.body == body
    assert content.body_frames == 7
    client.expect(1, BasicAck(1, False))


@pytest.mark.parametrize("capabilities", [(), ("return_delivery_tag",)])
def test_returns_outside_confirm_mode_carry_no_ack_and_no_tag(
    connect: Callable[..., Client], capabilities: tuple[str, ...]
) -> None:
    client = connect(capabilities=capabilities)
    client.open_channel(1)
    client.send(publish("nowhere", b"1", mandatory=True), publish("nowhere", b"2", mandatory=True))
    assert expect_return(client, b"1") == TRANSIENT
    assert expect_return(client, b"2") == TRANSIENT
    client.nothing_more()


def test_numbers_start_at_1_at_confirm_select_whatever_was_published_before(
    connect: Callable[..., Client],
) -> None:
    # rabbitmq-server#3870: mandatory publishes before confirm.select used up numbers.
    client = connect()
    client.open_channel(1)
    client.declare("q")
    client.send(publish("nowhere", mandatory=True), publish("q"), publish("nowhere"))
    expect_return(client, b"body")
    assert client.ask(1, ConfirmSelect()) == ConfirmSelectOk()
    client.send(publish("nowhere", mandatory=True))
    expect_return(client, b"body")
    client.expect(1, BasicAck(1, False))
    client.send(publish("q"))
    client.expect(1, BasicAck(2, False))


def test_confirm_select_again_changes_nothing(client: Client) -> None:
    client.send(publish("nowhere"))
    client.expect(1, BasicAck(1, False))
    assert client.ask(1, ConfirmSelect()) == ConfirmSelectOk()
    client.send(publish("nowhere"))
    client.expect(1, BasicAck(2, False))


def test_confirm_select_no_wait_is_not_answered(connect: Callable[..., Client]) -> None:
    client = connect()
    client.open_channel(1)
    client.send_methods(1, ConfirmSelect(no_wait=True))
    client.send(publish("nowhere"))
    client.expect(1, BasicAck(1, False))


def test_a_client_that_announced_return_delivery_tag_gets_the_number_in_the_return(
    connect: Callable[..., Client],
) -> None:
    client = connect(capabilities=("return_delivery_tag",))
    client.open_channel(1, confirms=True)
    client.declare("q")
    headers = {"mine": Field("longstr", "kept")}
    client.send(
        publish("q"),
        publish("nowhere", b"2", mandatory=True),
        publish("nowhere", b"3", Properties(headers=headers, delivery_mode=2), mandatory=True),
    )
    tag = {"x-delivery-tag": Field("long", 2)}
    assert expect_return(client, b"2") == Properties(headers=tag)
    client.expect(1, BasicAck(2, False))
    tag = {"x-delivery-tag": Field("long", 3)}
    assert expect_return(client, b"3") == Properties(headers=headers | tag, delivery_mode=2)
    client.expect(1, BasicAck(3, False), BasicAck(1, False))


def test_a_client_that_did_not_announce_it_gets_the_same_bytes_back(client: Client) -> None:
    client.send(publish("nowhere", b"1", Properties(headers={}), mandatory=True))
    assert expect_return(client, b"1") == Properties(headers={})
    client.expect(1, BasicAck(1, False))
