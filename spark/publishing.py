"""Publishes one partition: rows in, every one of them confirmed, returned or given up when it ends.

Rows are encoded a few at a time while the broker works on those before. A lost connection is made
again, with the next of the addresses, and only what was not confirmed is published again. Two
limits end it: no answer of the broker for `confirmTimeoutMs`, connecting included, and
`publishRetries` connections in a row that were lost before anything was confirmed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from .confirm_channel import ConfirmChannel, ConnectionLost, Return
from .message_ids import Place, message_ids
from .rows import RowEncoder
from .window import Policy, Publish, PublishError, Window

if TYPE_CHECKING:
    import pyarrow as pa

    from .options import WriteOptions
    from .reports import Tally

# A full window goes on when so much of it is free: small bites cost both sides more.
_ROOM_SHARE: Final = 4
BACKOFF_SECONDS_MAX: Final = 5.0


class PartitionPublisher:
    """One try of one task."""

    def __init__(
        self, options: WriteOptions, place: Place, name: str, sleep: Callable[[float], None]
    ) -> None:
        """`name`: of the connections."""
        self._options = options
        self._name = name
        self._sleep = sleep
        self._addresses = options.brokers.in_turn(place.partition)
        self._timeout_s = options.confirm_timeout_ms / 1000
        self._backoff_s = options.retry_backoff_ms / 1000
        self._encoder = RowEncoder(options, message_ids(options.dedup, place), place)
        policy = Policy(
            in_flight_max=options.max_in_flight,
            in_flight_bytes_max=options.max_in_flight_bytes,
            on_returned=options.on_returned,
            on_nacked=options.on_nacked,
            retries_max=options.publish_retries,
            backoff_s=self._backoff_s,
            samples_max=options.max_returned_samples,
        )
        self._window = Window(policy, self._encoder.dead_letter)
        self._channel: ConfirmChannel | None = None
        # When the broker last answered, or was first asked.
        self._answered_at = time.monotonic()
        # Connections that were lost since.
        self._losses = 0

    def publish(self, batches: Iterable[pa.RecordBatch]) -> Tally:
        """Publish all rows; PublishError if one cannot be. No row is open when it returns."""
        try:
            for batch in self._pulled(batches):
                for publishes in self._encoder.chunks(batch):
                    self._publish(publishes)
            while len(self._window):
                self._send()
                self._hear(self._timeout_s)
        finally:
            if self._channel is not None:
                self._channel.close()
        return self._window.tally

    def _pulled(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The batches; while Spark makes them, the broker's clock stands."""
        begun = time.monotonic()
        for batch in batches:
            self._answered_at += time.monotonic() - begun
            yield batch
            begun = time.monotonic()

    def _publish(self, publishes: list[Publish]) -> None:
        window = self._window
        at = 0
        while at < len(publishes):
            some = window.fitting(publishes, at)
            if some == at:
                self._make_room()
                continue
            if not len(window):
                # It had nothing to answer.
                self._answered_at = time.monotonic()
            window.offer(publishes[at:some])
            at = some
            self._send()
            self._hear(0.0)

    def _make_room(self) -> None:
        unsettled = len(self._window)
        while len(self._window) > unsettled - max(1, unsettled // _ROOM_SHARE):
            self._send()
            self._hear(self._timeout_s)

    def _send(self) -> None:
        channel = self._channel or self._connect()
        taken = self._window.take(time.monotonic())
        if taken:
            channel.send(taken)

    def _hear(self, seconds: float) -> None:
        """Take in what the broker has said; wait for it if there is nothing, but not too long."""
        assert self._channel is not None
        due = self._window.due_at()
        now = time.monotonic()
        is_owed = self._window.in_flight > 0
        if not is_owed:
            # All that is left waits for another try: its pause is not the broker's silence.
            self._answered_at = now
        if due is not None:
            seconds = min(seconds, max(0.0, due - now))
        left = self._answered_at + self._timeout_s - now
        try:
            events = self._channel.events(max(0.0, min(seconds, left)))
        except ConnectionLost as lost:
            self._on_lost(lost)
            return
        now = time.monotonic()
        window = self._window
        for event in events:
            if isinstance(event, Return):
                window.returned(*event)
            elif event.is_ack:
                window.acked(event.tag, event.multiple, now)
            else:
                window.nacked(event.tag, event.multiple, now)
        if events:
            self._answered_at = now
            self._losses = 0
        elif not is_owed:
            self._answered_at = now
        elif now - self._answered_at >= self._timeout_s:
            raise PublishError(self._no_answer())

    def _on_lost(self, lost: ConnectionLost) -> None:
        assert self._channel is not None
        self._channel.close()
        self._channel = None
        if lost.is_final:
            raise PublishError(f"the broker refuses to go on: {lost}") from None
        self._losses += 1
        if self._losses > self._options.publish_retries:
            raise PublishError(
                f"{self._losses} connections in a row were lost before a confirm: {lost}"
            ) from None
        self._window.tally.reconnects += 1
        self._window.connection_lost(time.monotonic())

    def _connect(self) -> ConfirmChannel:
        """The first address that takes us, again and again until the time is over."""
        backoff = self._backoff_s
        while True:
            last: ConnectionLost | None = None
            for address in self._addresses:
                try:
                    self._channel = ConfirmChannel(self._options, address, self._name)
                except ConnectionLost as lost:
                    if lost.is_final:
                        raise PublishError(f"cannot publish: {lost}") from None
                    last = lost
                else:
                    # Whoever could not be reached is the last to be tried the next time.
                    first = self._addresses.index(address)
                    self._addresses = self._addresses[first:] + self._addresses[:first]
                    return self._channel
            if time.monotonic() + backoff - self._answered_at > self._timeout_s:
                raise PublishError(f"no broker can be reached: {last}")
            self._sleep(backoff)
            backoff = min(2 * backoff + 0.001, BACKOFF_SECONDS_MAX)

    def _no_answer(self) -> str:
        assert self._channel is not None
        waited = f"no confirm for {self._options.confirm_timeout_ms} ms (confirmTimeoutMs)"
        if self._channel.blocked is None:
            return f"{waited} with {self._window.in_flight} publishes in flight"
        return f"{waited}: the broker takes none at the moment: {self._channel.blocked}"
