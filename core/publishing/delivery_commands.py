"""Commands about deliveries that any AMQP client can give: publishes to `amq.leveret.delivery`.

AMQP has no method to say "I still work on this message", nor one to give it back for later. So a
client publishes to this exchange, on the channel that has the delivery. The routing key says what
it wants, the header `delivery-tag` with which delivery:

    touch     its in-flight time-out begins anew
    requeue   it returns to its queue, at once or, with the header `delay-ms`, after that time

Such a publish is numbered, checked and confirmed like any other, and goes to no queue; its body
counts for nothing. A command that cannot be carried out is a channel exception, 406.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

from ...amqp_frames.constants import PRECONDITION_FAILED
from ...amqp_frames.errors import SoftError
from ...amqp_frames.messages.batch import Batch
from ...amqp_frames.properties import decode_properties
from ...amqp_frames.values.field_table import INTEGER_KINDS, encode_short_string
from ..definitions import DELIVERY_EXCHANGE
from .delays import delay_fault, delay_in
from .properties import PUBLISH

TOUCH: Final = "touch"
REQUEUE: Final = "requeue"
COMMANDS: Final = (TOUCH, REQUEUE)

# The first octets of the keys, as in Batch.distinct, of publishes to the exchange.
COMMAND_PREFIX: Final = encode_short_string(DELIVERY_EXCHANGE)
_TAG_HEADER: Final = "delivery-tag"
_DELAY_HEADER: Final = "delay-ms"


class DeliveryCommand(NamedTuple):
    """A client's request about one of its deliveries.

    `delay_ms` is 0 for a touch, and for a requeue at once.
    """

    is_touch: bool
    delivery_tag: int
    delay_ms: int = 0


class DeliveryHolder(Protocol):
    """Who holds a channel's deliveries, and carries the commands out."""

    def carry_out(self, command: DeliveryCommand) -> None:
        """Carry the command out; SoftError 406 for a tag that is not held."""


def command_key_fault(routing_key: str, vhost: str) -> SoftError | None:
    """Why a publish to the exchange with this routing key is no command; None if it is one."""
    if routing_key in COMMANDS:
        return None
    return _refused(vhost, f"unknown routing key '{routing_key}', expected touch or requeue")


def read_command(key: bytes, properties: bytes, vhost: str) -> DeliveryCommand:
    """The command that a publish with this key, which is one, and these properties gives.

    SoftError 406 for a header that is missing or not what it must be.
    """
    is_touch = key[len(COMMAND_PREFIX) + 1 : -1] == TOUCH.encode()
    headers = decode_properties(properties, 0, len(properties)).headers or {}
    tag = headers.get(_TAG_HEADER)
    if tag is None:
        raise _refused(vhost, f"header '{_TAG_HEADER}' is missing")
    if tag.kind not in INTEGER_KINDS:
        reason = f'"expected integer, got {tag.kind}"'
        raise _refused(vhost, f"invalid header '{_TAG_HEADER}': {reason}")
    assert isinstance(tag.value, int)
    delay = None if is_touch else headers.get(_DELAY_HEADER)
    if delay is None:
        return DeliveryCommand(is_touch, tag.value)
    fault = delay_fault(delay)
    if fault is not None:
        raise _refused(vhost, f"invalid header '{_DELAY_HEADER}': {fault}")
    delay_ms = delay_in(delay)
    assert isinstance(delay_ms, int)
    return DeliveryCommand(is_touch, tag.value, delay_ms)


def is_command_key(key: bytes) -> bool:
    """Is a publish with this key of `Batch.distinct` one to the exchange for commands?"""
    return key.startswith(COMMAND_PREFIX)


def has_only_commands(batch: Batch) -> bool:
    """Is no publish of the batch a message?"""
    return all(map(is_command_key, batch.distinct))


def _refused(vhost: str, reason: str) -> SoftError:
    text = f"command for exchange '{DELIVERY_EXCHANGE}' in vhost '{vhost}': {reason}"
    return SoftError(PRECONDITION_FAILED, text, *PUBLISH)
