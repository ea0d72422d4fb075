"""When the reads of a round of the event loop are worked on together, and when each at once.

Where many connections publish a message each, their sockets are ready together. If each read is
worked on at once, each makes the whole way of turns alone: its queue, the journal and the journal's
thread have a turn for one message. If all sockets that are ready are read first, a queue has the
publishes of that round in one turn. A lone publisher would only wait a little longer by that, so
its reads are worked on at once.

While clients answer as fast as they are read, more sockets become ready meanwhile: so the loop
polls again as long as that brings more, up to a bound. It costs a lone message nothing, and where
twenty connections wait for their confirms it saves two fifths of the processor.

An event loop does not say how many sockets it has found ready. So now and then a read waits for the
others of its round: if there are any, the next rounds are gathered, too, until several in a row
bring one read each.
"""

from __future__ import annotations

from typing import Final

# These are no settings: more or less of them changes what a message costs by a few per cent, and
# nobody waits longer or holds more than ROUND_BYTES_MAX, beside read_round_bytes_max, allows.
#
# One of so many reads that were worked on at once waits, to see whether others come with it.
LONE_READS_MAX: Final = 32
# Polls of the sockets for one round, beside the first.
MORE_POLLS_MAX: Final = 5
# A round that has read so much has enough to work on: others would wait for it.
ROUND_BYTES_MAX: Final = 256 * 1024
# So many gathered rounds in a row may bring one read each.
LONE_ROUNDS_MAX: Final = 8


class ReadGathering:
    """`is_on`: the next read waits for the others of its round."""

    __slots__ = ("_bytes", "_left", "_polled_reads", "_polls", "_reads", "is_on")

    def __init__(self) -> None:
        self.is_on = False
        # Reads in the round at hand, while they are gathered.
        self._reads = 0
        self._bytes = 0
        # How often the sockets were polled again for this round, and the reads before the last.
        self._polls = 0
        self._polled_reads = 0
        # Until it changes: reads while off, lone rounds while on.
        self._left = LONE_READS_MAX

    def worked_on(self) -> None:
        """A read was worked on at once."""
        self._left -= 1
        if not self._left:
            self.is_on = True
            # The first round decides.
            self._left = 1

    def gathered(self, byte_count: int) -> None:
        """A read waits for the end of its round."""
        self._reads += 1
        self._bytes += byte_count

    def polls_again(self) -> bool:
        """Are the sockets to be polled once more, because the last time brought reads?"""
        if (
            self._reads == self._polled_reads
            or self._polls == MORE_POLLS_MAX
            or self._bytes >= ROUND_BYTES_MAX
        ):
            return False
        self._polled_reads = self._reads
        self._polls += 1
        return True

    def round_ended(self) -> None:
        """All reads of the round are there."""
        if self._reads > 1:
            self._left = LONE_ROUNDS_MAX
        elif self._reads:
            self._left -= 1
            if not self._left:
                self.is_on = False
                self._left = LONE_READS_MAX
        self._reads = self._bytes = self._polls = self._polled_reads = 0
