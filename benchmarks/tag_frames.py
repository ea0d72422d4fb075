"""The same frames again and again, with a delivery tag that counts up, made without a Python loop.

4,096 copies of a template stand side by side; a byte of all tags at once is one slice assignment.
A consumer that acks each delivery takes a slice of them.
"""

from __future__ import annotations

_PAGE_TAGS = 4096
_LOWEST = bytes(range(256)) * 16
_SIXTEEN = [b"".join(bytes([base + i]) * 256 for i in range(16)) for base in range(0, 256, 16)]


class TagFrames:
    """Copies of `template`, whose tag (8 bytes) begins at `tag_offset`, for tags from 1 on."""

    def __init__(self, template: bytes, tag_offset: int) -> None:
        self.frame_bytes = len(template)
        self._copies = template * _PAGE_TAGS
        self._lowest_offset = tag_offset + 7
        self._page_number = -1
        self._page = memoryview(b"")

    def between(self, first: int, last: int) -> list[memoryview]:
        """Give the frames of tags first..last, both included."""
        pieces = []
        size = self.frame_bytes
        while first <= last:
            number, place = divmod(first, _PAGE_TAGS)
            until = min(last, number * _PAGE_TAGS + _PAGE_TAGS - 1)
            pieces.append(self._page_of(number)[place * size : (until % _PAGE_TAGS + 1) * size])
            first = until + 1
        return pieces

    def _page_of(self, number: int) -> memoryview:
        if number != self._page_number:
            # A new page each time: slices of the old one may still wait to be sent.
            page = bytearray(self._copies)
            size, lowest = self.frame_bytes, self._lowest_offset
            page[lowest::size] = _LOWEST
            page[lowest - 1 :: size] = _SIXTEEN[number & 15]
            page[lowest - 2 :: size] = bytes([number >> 4 & 255]) * _PAGE_TAGS
            page[lowest - 3 :: size] = bytes([number >> 12 & 255]) * _PAGE_TAGS
            self._page, self._page_number = memoryview(page), number
        return self._page
