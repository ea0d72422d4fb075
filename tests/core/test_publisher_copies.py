"""CC and BCC in a batch: who gets which message, and which bytes."""

from __future__ import annotations

from batches import batch_of
from leveret.amqp_frames.methods import BasicAck, BasicReturn
from leveret.amqp_frames.properties import Properties, decode_properties
from leveret.amqp_frames.values.field_table import Field
from leveret.core.exchanges.table import carry_out
from leveret.core.publishing.publisher import Routed
from publishing import confirm_all, indexes_by_queue, methods
from wire import publish


def copied(cc: tuple[str, ...] = (), bcc: tuple[str, ...] = ()) -> Properties:
    headers = {}
    for name, keys in (("CC", cc), ("BCC", bcc)):
        if keys:
            headers[name] = Field("array", [Field("longstr", key) for key in keys])
    return Properties(headers=headers, delivery_mode=2)


def headers_of(routed: Routed, index: int) -> list[str]:
    batch = routed.batch
    body = (
        batch.headers[index]
        + 7
        + int.from_bytes(batch.wire[batch.headers[index] + 3 : batch.headers[index] + 7], "big")
    )
    return list(decode_properties(batch.wire, batch.headers[index] + 19, body).headers or ())


def test_a_message_goes_to_its_own_key_s_queue_and_to_those_of_cc_and_bcc(
    commands, publisher
) -> None:
    for name in "abc":
        commands.declare_queue(name, durable=True)
    plain = publish("a")
    both = publish("a", properties=copied(("b", "a"), ("c", "nowhere")))
    cc = publish("nowhere", properties=copied(("b",)))
    routed = carry_out(publisher.route(batch_of(plain, both, cc, both, plain)))
    assert indexes_by_queue(routed) == {"a": [0, 1, 3, 4], "b": [1, 2, 3], "c": [1, 3]}
    assert [headers_of(routed, index) for index in range(5)] == [[], ["CC"], ["CC"], ["CC"], []]
    confirm_all(publisher, routed.batch, routed)
    assert methods(publisher.answers()) == [BasicAck(5, True)]


def test_copies_go_through_the_publish_s_exchange(commands, publisher) -> None:
    for name in "ab":
        commands.declare_queue(name)
    commands.declare_exchange("x", "topic")
    commands.bind("a", "x", "one.*")
    commands.bind("b", "x", "two.*")
    wire = publish("three", exchange="x", properties=copied(("one.1", "two.1", "b")))
    assert indexes_by_queue(carry_out(publisher.route(batch_of(wire)))) == {"a": [0], "b": [0]}


def test_all_bytes_go_back_to_the_window_though_the_batch_has_shrunk(commands, publisher) -> None:
    commands.declare_queue()
    batch = batch_of(*[publish("q", properties=copied(bcc=("b", "c")))] * 3)
    routed = carry_out(publisher.route(batch))
    assert routed.batch is not batch
    assert routed.batch.wire_bytes < batch.wire_bytes
    confirm_all(publisher, routed.batch, routed)
    assert publisher.unconfirmed.released_bytes == batch.wire_bytes


def test_a_mandatory_message_is_returned_only_if_no_key_has_a_queue_and_without_bcc(
    commands, publisher
) -> None:
    commands.declare_queue()
    saved = publish("nowhere", properties=copied(("q",)), mandatory=True)
    lost = publish("nowhere", properties=copied(("gone",), ("too",)), mandatory=True)
    routed = carry_out(publisher.route(batch_of(saved, lost)))
    assert indexes_by_queue(routed) == {"q": [0]}
    assert methods(routed.frames) == [BasicReturn(312, "NO_ROUTE", "", "nowhere"), BasicAck(2)]
    assert b"BCC" not in routed.frames


def test_messages_before_a_mistake_keep_their_copies(commands, publisher) -> None:
    for name in "ab":
        commands.declare_queue(name)
    wrong = publish("a", properties=Properties(headers={"CC": Field("longstr", "b")}))
    good = publish("a", properties=copied((), ("b",)))
    routed = carry_out(publisher.route(batch_of(good, wrong, good)))
    assert indexes_by_queue(routed) == {"a": [0], "b": [0]}
    assert routed.error is not None


def test_a_batch_without_such_headers_is_routed_as_it_came(commands, publisher) -> None:
    queue = commands.declare_queue()
    batch = batch_of(*[publish("q", properties=Properties(headers={"a": Field("long", 1)}))] * 2)
    routed = carry_out(publisher.route(batch))
    assert routed.batch is batch
    assert routed.by_queue == {queue: range(2)}
