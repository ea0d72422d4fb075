"""How many dead letters are made before the event loop looks at its sockets: more if it must be.

A queue may drop messages as fast as publishers send them, several times faster than rounds of one
size make dead letters of them. Then what waits would grow without end, though every queue is
bounded. So rounds get larger while more and more is left over: publishers are read less often, and
come down to the speed of the dead letters. What comes at once, however much, leaves less after
each round, and is worked off in small ones.
"""

from __future__ import annotations

from typing import Final

# At about 10 microseconds each, and so many bytes to copy; one at the least.
DEAD_LETTERS_PER_ROUND_MIN: Final = 256
DEAD_LETTER_BYTES_PER_ROUND_MIN: Final = 1 << 20


class DeadLetterRounds:
    """The size of the next round: `messages_max` and `bytes_max`."""

    def __init__(self) -> None:
        # In smallest rounds.
        self._size = 1
        # The most that was left over by a round since nothing was.
        self._left_max = 0

    @property
    def messages_max(self) -> int:
        """Messages of a round."""
        return self._size * DEAD_LETTERS_PER_ROUND_MIN

    @property
    def bytes_max(self) -> int:
        """Bytes of these, as they came in."""
        return self._size * DEAD_LETTER_BYTES_PER_ROUND_MIN

    def ended(self, left: int) -> None:
        """A round has left over so many messages."""
        if not left:
            self._size, self._left_max = 1, 0
        elif left > self._left_max:
            if self._left_max:
                self._size += 1 + self._size // 4
            self._left_max = left
