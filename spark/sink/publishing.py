"""Publishes one partition: rows in, every one of them settled, or given up, when it ends.

Rows are encoded a few at a time while the broker works on those before. A lost connection is made
again, with the next of the addresses, and only unconfirmed rows are published again. Three limits
end it: no connection for `reconnectTimeoutMs`, no answer on one for `confirmTimeoutMs`, and
`publishRetries` connections in a row that were lost before anything was confirmed.

What every other try would end with as well is a FinalError: a refused login, a verdict of the
broker's, a row that cannot be published where `onInvalid` is fail.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from ...logs.configure import service_log
from ...logs.events import SPARK_SINK_WAITS
from .confirm_channel import ConfirmChannel, ConnectionLost, Return
from .message_ids import Place, message_ids
from .publishes import FinalError, Publish, PublishError
from .reports import InvalidSample
from .rows import Encoded, RowEncoder
from .window import Policy, Window

if TYPE_CHECKING:
    import pyarrow as pa

    from ..options import WriteOptions
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
        self._reconnect_s = options.reconnect_timeout_ms / 1000
        self._backoff_s = options.retry_backoff_ms / 1000
        self._place = place
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

    @property
    def tally(self) -> Tally:
        """The results of the rows up to now."""
        return self._window.tally

    def publish(self, batches: Iterable[pa.RecordBatch]) -> Tally:
        """Publish all rows; PublishError if one cannot be. No row is open when it returns."""
        try:
            for batch in self._pulled(batches):
                if batch.num_rows and self._channel is None:
                    self._connect()
                for encoded in self._encoder.chunks(batch):
                    self._publish(self._sorted_out(encoded))
            self._settle()
        finally:
            if self._channel is not None:
                self._channel.close()
        return self.tally

    def _sorted_out(self, encoded: Encoded) -> list[Publish]:
        """The publishes of these rows; FinalError for one that cannot be, if so asked."""
        publishes, invalid = encoded
        if not invalid:
            return publishes
        tally, options = self.tally, self._options
        if options.on_invalid == "fail":
            first = invalid[0]
            # The rows in flight are known when the error is reported.
            with suppress(PublishError):
                self._settle()
            raise FinalError(
                f"row {first.publish.row} of partition {self._place.partition}: {first.fault} "
                "(onInvalid=fail)"
            )
        tally.invalid += len(invalid)
        if options.on_invalid == "deadletter":
            publishes += [self._encoder.invalid_letter(each) for each in invalid]
        else:
            tally.rows += len(invalid)
        room = options.max_returned_samples - len(tally.invalid_samples)
        if options.on_invalid != "ignore":
            tally.invalid_samples += [
                InvalidSample(self._place.partition, each.publish.row, *each.fault)
                for each in invalid[: max(0, room)]
            ]
        return publishes

    def _settle(self) -> None:
        """Wait until the broker has answered every publish."""
        while len(self._window):
            self._send()
            self._receive_answers(self._timeout_s)

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
            self._receive_answers(0.0)

    def _make_room(self) -> None:
        unsettled = len(self._window)
        while len(self._window) > unsettled - max(1, unsettled // _ROOM_SHARE):
            self._send()
            self._receive_answers(self._timeout_s)

    def _send(self) -> None:
        channel = self._channel or self._connect()
        taken = self._window.dequeue(time.monotonic())
        if taken:
            channel.send(taken)

    def _receive_answers(self, seconds: float) -> None:
        """Take in what the broker has said; wait for it if there is nothing, but not too long."""
        assert self._channel is not None
        due = self._window.due_at()
        now = time.monotonic()
        is_owed = self._window.in_flight > 0
        if not is_owed:
            # All remaining rows wait for another try: its pause is not the broker's silence.
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
            raise FinalError(f"the broker refuses to go on: {lost}") from None
        self._losses += 1
        if self._losses > self._options.publish_retries:
            raise PublishError(
                f"{self._losses} connections in a row were lost before a confirm: {lost}"
            ) from None
        self._window.tally.reconnects += 1
        self._window.connection_lost(time.monotonic())

    def _connect(self) -> ConfirmChannel:
        """The first address that takes us, again and again until the time is over."""
        begun = time.monotonic()
        last: ConnectionLost | None = None
        for pause_s in self._pauses():
            for address in self._addresses:
                try:
                    self._channel = ConfirmChannel(self._options, address, self._name)
                except ConnectionLost as lost:
                    if lost.is_final:
                        raise FinalError(f"cannot publish: {lost}") from None
                    if last is None:
                        service_log("warning", "json").warning(SPARK_SINK_WAITS, reason=str(lost))
                    last = lost
                else:
                    # Whoever could not be reached is the last to be tried the next time.
                    first = self._addresses.index(address)
                    self._addresses = self._addresses[first:] + self._addresses[:first]
                    self._encoder.fit(self._channel.frame_max)
                    # Only from now on could it answer.
                    self._answered_at = time.monotonic()
                    return self._channel
            left_s = begun + self._reconnect_s - time.monotonic()
            if left_s <= 0:
                break
            self._sleep(min(pause_s, left_s))
        raise PublishError(
            f"no broker can be reached for {self._options.reconnect_timeout_ms} ms "
            f"(reconnectTimeoutMs): {last}"
        )

    def _pauses(self) -> Iterator[float]:
        """Before each next try; a connection that was lost again and again is left alone longer."""
        if self._losses > 1:
            self._sleep(min(self._backoff_s * 2**self._losses, BACKOFF_SECONDS_MAX))
        pause_s = self._backoff_s
        while True:
            yield pause_s
            pause_s = min(2 * pause_s + 0.001, BACKOFF_SECONDS_MAX)

    def _no_answer(self) -> str:
        assert self._channel is not None
        waited = f"no confirm for {self._options.confirm_timeout_ms} ms (confirmTimeoutMs)"
        if self._channel.blocked is None:
            return f"{waited} with {self._window.in_flight} publishes in flight"
        return f"{waited}: the broker takes none at the moment: {self._channel.blocked}"
