"""Publishes to exchanges that delay: the header `x-delay`, and how the publishes are changed by it.

A message with a delay is deferred in each queue that it reaches only through an exchange of type
`x-delayed-message`. Its header `x-delay` is made negative when it is published, once for all its
queues, because RabbitMQ's plugin delivers it so: the receiver sees how long the message was
delayed, and an exchange on the further way does not delay it again.

Only batches with a key that may lead to such an exchange are looked at.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Final

from ...amqp_frames.constants import PRECONDITION_FAILED
from ...amqp_frames.errors import SoftError
from ...amqp_frames.messages.batch import Batch
from ...amqp_frames.messages.copies import with_properties
from ...amqp_frames.properties import decode_properties, encode_properties
from ...amqp_frames.values.field_table import Field, Table
from ..definitions import QueueDefinition
from .delays import DELAY_MS_MAX, delay_fault, delay_in
from .properties import PUBLISH
from .routes import Route, property_octets

DELAY_HEADER: Final = "x-delay"
_SIGNEDINT_MAX: Final = 2**31 - 1


def published_delays(
    batch: Batch, may_delay: Sequence[bool], count: int
) -> tuple[array[int] | None, int, SoftError | None]:
    """The delays of the first `count` messages, of which those with these keys may be delayed.

    By index in the batch, 0 for none; None if there is none at all. Up to the first message whose
    delay is a mistake: returns how many are before it, and the error.
    """
    delays: array[int] | None = None
    if not any(may_delay):
        return delays, count, None
    known: dict[bytes, int] = {}
    for index, number in enumerate(batch.keys[:count]):
        if not may_delay[number]:
            continue
        octets = property_octets(batch, index)
        delay_ms = known.get(octets)
        if delay_ms is None:
            field = (decode_properties(octets, 0, len(octets)).headers or {}).get(DELAY_HEADER)
            fault = None if field is None else delay_fault(field)
            if fault is not None:
                text = f"invalid header '{DELAY_HEADER}': {fault}"
                return delays, index, SoftError(PRECONDITION_FAILED, text, *PUBLISH)
            delay_ms = known[octets] = lenient_delay_ms(field)
        if delay_ms:
            if delays is None:
                delays = array("I", bytes(4 * len(batch)))
            delays[index] = delay_ms
    return delays, count, None


def lenient_delay_ms(field: Field | None) -> int:
    """The delay that a header asks for; 0 if it is none, or negative, as for the plugin."""
    delay_ms = 0 if field is None else delay_in(field)
    return delay_ms if isinstance(delay_ms, int) and 0 < delay_ms <= DELAY_MS_MAX else 0


def with_delay_passed(headers: Table, delay_ms: int) -> Table:
    """The headers of a message that is delayed for so long, as its receivers get them."""
    kind = "signedint" if delay_ms <= _SIGNEDINT_MAX else "long"
    return dict(headers) | {DELAY_HEADER: Field(kind, -delay_ms)}


def delays_by_queue(
    delays: array[int], numbers: Sequence[int], routes: Sequence[Route], count: int
) -> Mapping[QueueDefinition, array[int]]:
    """For each queue that is to defer some of the messages, their delays by index.

    `numbers` has each message's number in `routes`.
    """
    used = set(numbers[:count])
    delaying = dict.fromkeys(queue for number in sorted(used) for queue in routes[number].delayed)
    found: dict[QueueDefinition, array[int]] = {}
    for queue in delaying:
        at_once = {
            number
            for number in used
            if queue in routes[number].queues and queue not in routes[number].delayed
        }
        own = delays
        if at_once:
            own = array("I", delays)
            for index, number in enumerate(numbers[:count]):
                if number in at_once:
                    own[index] = 0
        if any(own):
            found[queue] = own
    return found


def with_delays_passed(
    batch: Batch, delays: array[int], numbers: Sequence[int], routes: Sequence[Route], count: int
) -> Batch:
    """The same messages; those that some queue is to defer have their delays made negative."""
    known: dict[bytes, bytes] = {}
    rewritten: dict[int, bytes] = {}
    for index, number in enumerate(numbers[:count]):
        if not delays[index] or not routes[number].delayed:
            continue
        octets = property_octets(batch, index)
        if octets not in known:
            properties = decode_properties(octets, 0, len(octets))
            headers = with_delay_passed(properties.headers or {}, delays[index])
            known[octets] = encode_properties(properties._replace(headers=headers))
        rewritten[index] = known[octets]
    if not rewritten:
        return batch
    made = with_properties(batch, rewritten)
    made.ttls_ms = batch.ttls_ms
    return made
