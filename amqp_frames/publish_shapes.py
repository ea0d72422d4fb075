"""What publishers repeat, so that it is checked once and then looked up.

A shape is everything of a publish up to the bytes of its body: names, properties, sizes. A publish
with the same bytes in front, and the frame end where it belongs, is sound and needs no decoding.
Where shapes differ, in the body's size for one, the properties are most often still the same.

What is remembered is bounded per connection; past the bounds it is forgotten and learned anew.
"""

from __future__ import annotations

from typing import Final

from .errors import AmqpError
from .flagged_properties import must_look
from .properties import PERSISTENT, check_properties

# How many shapes one channel may have at a time, and how many channels may have any.
SHAPES_MAX: Final = 64
SHAPE_CHANNELS_MAX: Final = 16
# How many properties, and of what size.
PROPERTIES_MAX: Final = 64
PROPERTIES_BYTES_MAX: Final = 128


# Publishes that are alike up to their bodies, which are of one frame or none:
# - all the octets that they have in common: two or three frames, up to the first of the body;
# - how many octets each of them has in all;
# - where the content header's frame begins;
# - exchange, routing key and bits, as in Batch.distinct;
# - whether they are persistent;
# - how many octets the largest of their frames has.
Shape = tuple[bytes, int, int, bytes, bool, int]


class PublishShapes:
    """The shapes and properties that one connection's publishes had lately."""

    __slots__ = ("_properties", "by_channel")

    def __init__(self) -> None:
        # Channel number -> octets of method and header frame -> shape. For the hot loop to look
        # up, and for whoever learns a shape to add it, SHAPES_MAX of them at the most.
        self.by_channel: dict[int, dict[bytes, Shape]] = {}
        # Properties as on the wire -> persistent, and whether the broker must look at them.
        self._properties: dict[bytes, tuple[bool, bool]] = {}

    def renew(self, channel_number: int) -> dict[bytes, Shape]:
        """An empty place for shapes of the channel: it had none, or too many."""
        if len(self.by_channel) >= SHAPE_CHANNELS_MAX:
            self.by_channel.clear()
        shapes = self.by_channel[channel_number] = {}
        return shapes

    def properties(self, properties: bytes) -> tuple[bool, bool] | None:
        """Whether they say persistent, and whether the broker must look; None if malformed."""
        known = self._properties.get(properties)
        if known is not None:
            return known
        try:
            mode = check_properties(properties, 0, len(properties))
        except AmqpError:
            return None
        known = (mode == PERSISTENT, must_look(properties, mode))
        if len(properties) <= PROPERTIES_BYTES_MAX:
            if len(self._properties) >= PROPERTIES_MAX:
                self._properties.clear()
            self._properties[properties] = known
        return known
