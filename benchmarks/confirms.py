"""Counts the confirms of one channel in raw bytes, with as little work as can be exact.

A confirm is a frame of 21 bytes whose first 11 are the same on a channel. Brokers send one
multiple ack for many publishes, or a long run of single ones; both are cheap here:

- one frame: read its tag;
- a run of single acks at equal distances (bare acks, or each behind its return): proven in C, by
  comparing the lowest byte of every tag with what it must be;
- anything else: frame by frame.
"""

from __future__ import annotations

import struct

from . import wire

ACK_FRAME_BYTES = 21
_TAG = 11
_LOWEST_BYTE = 18
_MULTIPLE = 19
_HEAD_BYTES = 11
_RUN_MIN = 4
_CYCLE = bytes(range(256)) * 512

_unpack_answer = struct.Struct(">QB").unpack_from


class Confirms:
    """The publishes of one channel that are confirmed; `tail` of each read belongs to the next."""

    def __init__(self, channel: int) -> None:
        self._marker = wire.answer_marker(channel, wire.ACK)
        self.base = 0  # every seq_no up to this one is confirmed
        self._singles: set[int] = set()  # confirmed above it

    @property
    def count(self) -> int:
        """How many publishes are confirmed."""
        return self.base + len(self._singles)

    def feed(self, data: bytes) -> None:
        """Take the confirms that lie whole in `data`; a frame must not be shown twice."""
        marker = self._marker
        end = len(data) - (ACK_FRAME_BYTES - _HEAD_BYTES)
        found = data.count(marker, 0, max(end, 0))
        if found == 0:
            return
        first = data.find(marker)
        if found >= _RUN_MIN and self._take_run(data, found, first, data.rfind(marker, 0, end)):
            return
        place = first
        while place >= 0:
            tag, multiple = _unpack_answer(data, place + _TAG)
            self._take(tag, bool(multiple))
            place = data.find(marker, place + ACK_FRAME_BYTES, end)

    def _take_run(self, data: bytes, found: int, first: int, last: int) -> bool:
        distance, rest = divmod(last - first, found - 1)
        tag, _ = _unpack_answer(data, last + _TAG)
        if rest or tag != self.base + found or self._singles or found > len(_CYCLE) - 256:
            return False
        begin = (self.base + 1) & 255
        lowest = data[first + _LOWEST_BYTE : last + _LOWEST_BYTE + 1 : distance]
        multiples = data[first + _MULTIPLE : last + _MULTIPLE + 1 : distance]
        if lowest != _CYCLE[begin : begin + found] or multiples.count(0) != found:
            return False
        self.base = tag
        return True

    def _take(self, tag: int, multiple: bool) -> None:
        if multiple:
            if tag > self.base:
                self.base = tag
                if self._singles:
                    self._singles = {single for single in self._singles if single > tag}
        elif tag > self.base:
            self._singles.add(tag)
        while self.base + 1 in self._singles:
            self.base += 1
            self._singles.remove(self.base)
