"""The answers of one connection, in the order of its commands: NSQ has no numbers for them.

A publish is answered OK when all its messages are confirmed, which takes a disk's time; answers
behind it wait. Publishes are numbered, and all below the smallest unconfirmed number are answered:
so a run of them costs one comparison, and its OKs are written in one piece.
"""

from __future__ import annotations

from array import array
from collections import deque
from collections.abc import Callable, Sequence

from ...nsq_frames.responses import OK

SeqRange = tuple[int, int]


class PublishedRun:
    """Commands of one kind whose messages have the numbers from `next_seq_no` on, in a row.

    `counts` has how many messages each command has; None: one each.
    """

    __slots__ = ("_at", "command", "counts", "last_seq_no", "next_seq_no")

    def __init__(
        self, command: bytes, first_seq_no: int, message_count: int, counts: array[int] | None
    ) -> None:
        self.command = command
        self.next_seq_no = first_seq_no
        self.last_seq_no = first_seq_no + message_count - 1
        self.counts = counts
        # How many of the commands are answered.
        self._at = 0

    def answered(self, below: int) -> int:
        """Count the commands whose messages all have numbers below this: they are answered now."""
        if self.counts is None:
            count = min(below, self.last_seq_no + 1) - self.next_seq_no
            self.next_seq_no += count
            return count
        count = 0
        while (
            self.next_seq_no <= self.last_seq_no
            and self.next_seq_no + self.counts[self._at] <= below
        ):
            self.next_seq_no += self.counts[self._at]
            self._at += 1
            count += 1
        return count


class Answers:
    """Owed to one connection. `refusal(command)` is the error frame of a refused publish."""

    __slots__ = ("_open", "_refusal")

    def __init__(self, refusal: Callable[[bytes], bytes]) -> None:
        self._refusal = refusal
        self._open: deque[PublishedRun | bytes] = deque()

    def __len__(self) -> int:
        """How many runs, and frames behind them, are not answered."""
        return len(self._open)

    @property
    def has_frame(self) -> bool:
        """Is there a frame with no publish before it, which can be written at once?"""
        return bool(self._open) and self._open[0].__class__ is bytes

    def published(self, run: PublishedRun) -> None:
        """These commands were carried out, and are owed an answer."""
        self._open.append(run)

    def put(self, frame: bytes) -> None:
        """The answer to another command: behind all before it."""
        self._open.append(frame)

    def due(self, smallest: int, rejected: Sequence[SeqRange]) -> tuple[bytes, bool]:
        """The frames that can be written now, and whether the last of them is a refusal.

        `smallest` is the smallest number that is neither confirmed nor rejected, 0 if there is
        none; `rejected` has numbers that were. As in nsqd a refused publish ends the connection,
        so nothing is answered behind it.
        """
        pieces: list[bytes] = []
        refused = min((first for first, _ in rejected), default=0) if rejected else 0
        below = min(smallest, refused) if smallest and refused else smallest or refused
        is_open = self._open
        while is_open:
            head = is_open[0]
            if isinstance(head, bytes):
                pieces.append(head)
                is_open.popleft()
                continue
            pieces.append(OK * head.answered(below or head.last_seq_no + 1))
            if head.next_seq_no <= head.last_seq_no:
                # Is the next command refused, and everything before it answered?
                if refused and below == refused:
                    pieces.append(self._refusal(head.command))
                    is_open.clear()
                    return b"".join(pieces), True
                break
            is_open.popleft()
        return b"".join(pieces), False
