"""Counts the confirms of one channel in raw bytes, with as little work as can be exact.

A confirm is a frame of 21 bytes whose first 11 are the same on a channel. Brokers send one
multiple ack for many publishes, or a long run of single ones; both are cheap here:

- one frame: read its tag;
- a run of single acks at equal distances (bare acks, or each behind its return): proven in C, by
  comparing three columns of bytes with what they must be: method, lowest byte of the tag, multiple;
- anything else: frame by frame.
"""

from __future__ import annotations

import struct

from benchmarks import wire

ACK_FRAME_BYTES = 21
_TAG = 11
_LOWEST_BYTE = 18
_MULTIPLE = 19
_HEAD_BYTES = 11
_RUN_MIN = 4
_RUN_MAX = 65536
_CYCLE = bytes(range(256)) * (_RUN_MAX // 256 + 1)

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
        end = max(len(data) - (ACK_FRAME_BYTES - _HEAD_BYTES), 0)
        first = data.find(marker, 0, end)
        if first < 0:
            return
        last = data.rfind(marker, first, end)
        if self._count_run(data, first, last):
            return
        place = first
        while place >= 0:
            tag, multiple = _unpack_answer(data, place + _TAG)
            self._count(tag, bool(multiple))
            place = data.find(marker, place + ACK_FRAME_BYTES, end)

    def _count_run(self, data: bytes, first: int, last: int) -> bool:
        tag, _ = _unpack_answer(data, last + _TAG)
        found = tag - self.base
        if not _RUN_MIN <= found <= _RUN_MAX or self._singles:
            return False
        distance, rest = divmod(last - first, found - 1)
        if rest or distance < ACK_FRAME_BYTES:
            return False

        def column(offset: int) -> bytes:
            return data[first + offset : last + offset + 1 : distance]

        begin = (self.base + 1) & 255
        if (
            column(_LOWEST_BYTE) != _CYCLE[begin : begin + found]
            or column(_HEAD_BYTES - 1).count(wire.ACK[1]) != found
            or column(_MULTIPLE).count(0) != found
        ):
            return False
        self.base = tag
        return True

    def _count(self, tag: int, multiple: bool) -> None:
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
