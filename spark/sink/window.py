"""The sliding window of one partition: the publishes that the broker has not answered yet.

No socket and no clock: `publishing.py` sends the publishes that `dequeue` returns. The rules:

- A publish is *settled* by its confirm, not before: a return only marks it (the broker sends
  basic.return before the basic.ack of the same message), its ack or nack then ends it.
- No more than `in_flight_max` publishes are unsettled: in flight, waiting for another try, or
  waiting to be sent again on a new connection; nor more than one if together they have more than
  `in_flight_bytes_max` octets.
- Connection lost: rows in flight go out again, in their old order, before anything newer; rows
  marked as returned do not, because no queue has them.
- A nack is transient (a full queue, a failed disk): after a while the row is published again under
  its old message id, `retries_max` times; a return is not, and is never tried again.
- Delivery tags count from 1 on every new channel, one for each publish taken.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .publishes import FinalError, Publish, PublishError, Returned
from .reports import ReturnedSample, Tally


@dataclass(frozen=True)
class Policy:
    """The treatment of rows that the broker returns or nacks; the options of the same names."""

    in_flight_max: int = 2000
    in_flight_bytes_max: int = 64 << 20
    on_returned: str = "fail"
    on_nacked: str = "retry"
    retries_max: int = 3
    backoff_s: float = 0.2
    samples_max: int = 20


# Makes of a row that was returned (code, text) or nacked (0, "NACK") its dead letter.
MakeDeadLetter = Callable[[Publish, int, str], Publish]


class Window:
    """The unsettled publishes of one partition."""

    def __init__(self, policy: Policy, dead_letter: MakeDeadLetter | None = None) -> None:
        self.tally = Tally()
        self._policy = policy
        self._dead_letter = dead_letter
        self._bytes = 0
        self._next_tag = 1
        # In flight, by delivery tag, the oldest first; with the time at which they were sent.
        self._flying: dict[int, tuple[Publish, float]] = {}
        # The first tag in flight that has this message id; others are searched for.
        self._tag_by_id: dict[str, int] = {}
        # How many others are in flight with it: the user's column may give rows the same id.
        self._others_by_id: dict[str, int] = {}
        # Returned, and not yet acked: reply code and text.
        self._returned: dict[int, tuple[int, str]] = {}
        # To be sent as soon as possible.
        self._waiting: deque[Publish] = deque()
        # Nacked, with the time from which they may be sent again.
        self._retries: list[tuple[float, Publish]] = []
        self._tries: dict[tuple[int, bool], int] = {}

    def __len__(self) -> int:
        return len(self._flying) + len(self._waiting) + len(self._retries)

    @property
    def in_flight(self) -> int:
        """How many are with the broker."""
        return len(self._flying)

    @property
    def in_flight_bytes(self) -> int:
        """The octets of all unsettled publishes."""
        return self._bytes

    def fitting(self, publishes: Sequence[Publish], start: int) -> int:
        """Up to which of them, from `start` on, there is room now."""
        end = min(len(publishes), start + self._policy.in_flight_max - len(self))
        octets = self._bytes
        for place in range(start, end):
            publish = publishes[place]
            octets += len(publish.body) + len(publish.properties)
            if octets > self._policy.in_flight_bytes_max:
                # A row larger than the limit goes alone.
                return max(place, start + 1) if not len(self) else place
        return end

    def offer(self, publishes: Sequence[Publish]) -> None:
        """New rows, no more than fit."""
        self._waiting.extend(publishes)
        self._bytes += sum([len(each.body) + len(each.properties) for each in publishes])
        self.tally.rows += len(publishes)
        assert len(self) <= self._policy.in_flight_max

    def dequeue(self, now: float) -> list[Publish]:
        """The publishes to send now, in this order; it is in flight from then on."""
        if self._retries:
            due = [publish for at, publish in self._retries if at <= now]
            if due:
                self._retries = [each for each in self._retries if each[0] > now]
                self._waiting.extend(due)
        taken = list(self._waiting)
        self._waiting.clear()
        tag = self._next_tag
        flying, tag_by_id = self._flying, self._tag_by_id
        for publish in taken:
            flying[tag] = (publish, now)
            if tag_by_id.setdefault(publish.message_id, tag) != tag:
                others = self._others_by_id
                others[publish.message_id] = others.get(publish.message_id, 0) + 1
            tag += 1
        self._next_tag = tag
        return taken

    def due_at(self) -> float | None:
        """When the next retry may be sent; None if there is none."""
        return min((at for at, _publish in self._retries), default=None)

    def acked(self, tag: int, multiple: bool, now: float) -> None:
        """basic.ack."""
        self._settle(tag, multiple, now, is_ack=True)

    def nacked(self, tag: int, multiple: bool, now: float) -> None:
        """basic.nack."""
        self._settle(tag, multiple, now, is_ack=False)

    def returned(self, message: Returned, code: int, text: str) -> None:
        """basic.return, of the oldest publish in flight that it can be of."""
        tag = self._tag_by_id.get(message.message_id)
        is_shared = message.message_id in self._others_by_id
        if tag is None or is_shared or not self._is_of(tag, message):
            tag = self._found(message)
        if tag is None:
            raise PublishError(f"the broker returned what was not sent: {message.message_id!r}")
        self._returned[tag] = (code, text)

    def _found(self, message: Returned) -> int | None:
        """The oldest of those that share the id, of the same properties if there is one."""
        alike = [tag for tag in self._flying if self._is_of(tag, message)]
        for tag in alike:
            if message.has_properties(self._flying[tag][0].properties):
                return tag
        return alike[0] if alike else None

    def _is_of(self, tag: int, message: Returned) -> bool:
        publish = self._flying[tag][0]
        return (
            tag not in self._returned
            and publish.message_id == message.message_id
            and publish.exchange == message.exchange
            and publish.routing_key == message.routing_key
            and publish.body == message.body
        )

    def connection_lost(self, now: float) -> None:
        """Nothing that is in flight will be answered; it goes out again on the next connection."""
        for tag in list(self._returned):
            self._settle(tag, False, now, is_ack=True)
        again = [publish for publish, _sent in self._flying.values()]
        self.tally.republished += len(again)
        self._waiting.extendleft(reversed(again))
        self._flying.clear()
        self._tag_by_id.clear()
        self._others_by_id.clear()
        self._next_tag = 1

    def _settle(self, tag: int, multiple: bool, now: float, is_ack: bool) -> None:
        flying = self._flying
        if multiple:
            # 0: all there are; the oldest come first.
            tags = []
            for each in flying:
                if tag and each > tag:
                    break
                tags.append(each)
        elif tag in flying:
            tags = [tag]
        else:
            raise PublishError(f"the broker answered a publish that was not sent: {tag}")
        latencies: dict[float, int] = {}
        for each in tags:
            publish, sent = flying.pop(each)
            self._forget_id(publish.message_id, each)
            self._bytes -= len(publish.body) + len(publish.properties)
            latencies[sent] = latencies.get(sent, 0) + 1
            if each in self._returned:
                self._settle_returned(publish, *self._returned.pop(each))
            elif not is_ack:
                self._settle_nacked(publish, now)
            else:
                self._settle_acked(publish)
        for sent, count in latencies.items():
            self.tally.latencies.add(now - sent, count)

    def _forget_id(self, message_id: str, tag: int) -> None:
        if self._tag_by_id.get(message_id) == tag:
            del self._tag_by_id[message_id]
        elif self._others_by_id[message_id] > 1:
            self._others_by_id[message_id] -= 1
        else:
            del self._others_by_id[message_id]

    def _settle_acked(self, publish: Publish) -> None:
        if publish.is_dead_letter:
            self.tally.deadlettered += 1
        else:
            self.tally.confirmed += 1
        if self._tries:
            self._tries.pop((publish.row, publish.is_dead_letter), None)

    def _settle_returned(self, publish: Publish, code: int, text: str) -> None:
        if publish.is_dead_letter:
            raise FinalError(
                f"the dead letter of row {publish.row} was returned: {code} {text}, exchange "
                f"{publish.exchange!r}, routing key {publish.routing_key!r}"
            )
        self.tally.returned += 1
        self._sample(publish, code, text)
        if self._policy.on_returned == "deadletter":
            self._bury(publish, code, text)

    def _settle_nacked(self, publish: Publish, now: float) -> None:
        policy = self._policy
        key = (publish.row, publish.is_dead_letter)
        tries = self._tries[key] = self._tries.get(key, 0) + 1
        if tries <= policy.retries_max:
            self.tally.nacked_retried += 1
            self._bytes += _size_bytes(publish)
            self._retries.append((now + policy.backoff_s * 2 ** (tries - 1), publish))
            return
        del self._tries[key]
        if publish.is_dead_letter or policy.on_nacked == "retry":
            what = "the dead letter of row" if publish.is_dead_letter else "row"
            raise PublishError(
                f"the broker nacked {what} {publish.row} {tries} times: exchange "
                f"{publish.exchange!r}, routing key {publish.routing_key!r}"
            )
        self.tally.nacked += 1
        self._sample(publish, 0, "NACK")
        if policy.on_nacked == "deadletter":
            self._bury(publish, 0, "NACK")

    def _bury(self, publish: Publish, code: int, text: str) -> None:
        assert self._dead_letter is not None
        # In place of the row that was just settled, so there is room.
        letter = self._dead_letter(publish, code, text)
        self._bytes += _size_bytes(letter)
        self._waiting.append(letter)

    def _sample(self, publish: Publish, code: int, text: str) -> None:
        samples = self.tally.samples
        if len(samples) < self._policy.samples_max:
            samples.append(
                ReturnedSample(
                    publish.row,
                    publish.message_id,
                    publish.exchange,
                    publish.routing_key,
                    code,
                    text,
                )
            )


def _size_bytes(publish: Publish) -> int:
    """The bytes that count against maxInFlightBytes; a method's names are short."""
    return len(publish.body) + len(publish.properties)
