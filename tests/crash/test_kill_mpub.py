"""Kill -9 while MPUBs are written: each is in every channel as a whole, or not there at all."""

from __future__ import annotations

import random
import struct
import threading
from collections import Counter
from collections.abc import Callable

import pytest
from broker_process import BrokerProcess
from leveret.amqp_frames.methods import BasicDeliver
from nsq_wire import OK, NsqClient, mpub
from wire import Client

MESSAGES = 40
# So many are on their way at once, and in one round at most.
WINDOW, MPUBS_MAX = 20, 400
CHANNELS = ("c", "d")
# As small as segments may be: rounds have several of them.
SETTINGS = {"nsq_port": 0, "segment_bytes_max": 1 << 20}
KILLED_AFTER_SECONDS = (0.02, 0.3)


def bodies(number: int) -> list[bytes]:
    return [struct.pack(">II", number, place) + bytes(100) for place in range(MESSAGES)]


def publish_until_the_end(client: NsqClient, first: int) -> tuple[set[int], int]:
    """The numbers of those that were answered with OK, and the first that was not sent."""
    answered: set[int] = set()
    number = first
    try:
        while number < first + MPUBS_MAX or len(answered) < number - first:
            if number < first + MPUBS_MAX and number - first - len(answered) < WINDOW:
                number += 1
                client.send(mpub("t", *bodies(number - 1)))
                continue
            if client.receive() != OK:
                break
            answered.add(first + len(answered))
    except OSError:
        # It may have been sent, or a part of it.
        pass
    return answered, number


def found_in(client: Client, queue: str) -> Counter[int]:
    """How many messages of each MPUB the queue has; it is empty then."""
    found: Counter[int] = Counter()
    count, _ = client.counts(queue)
    client.consume(queue, queue, no_ack=True)
    places = set()
    for _ in range(count):
        client.expect_type(1, BasicDeliver)
        places.add(struct.unpack_from(">II", client.read_content(1).body))
    for number, _ in places:
        found[number] += 1
    assert len(places) == count, "a message is there twice"
    return found


def run_rounds(start_broker: Callable[..., BrokerProcess], seed: int, rounds: int) -> None:
    chance = random.Random(seed)
    answered: set[int] = set()
    first = 0
    for turn in range(rounds + 1):
        broker = start_broker(**SETTINGS).listening()
        if turn:
            with Client("127.0.0.1", broker.port).log_in() as client:
                client.open_channel(1)
                for channel in CHANNELS:
                    found = found_in(client, f"t:{channel}")
                    assert set(found.values()) <= {MESSAGES}, "a part of an MPUB is there"
                    assert answered <= found.keys(), "an MPUB is lost"
        if turn == rounds:
            broker.kill()
            break
        for channel in CHANNELS:
            with NsqClient(broker.nsq_port) as subscriber:
                subscriber.subscribe("t", channel)
        killer = threading.Timer(chance.uniform(*KILLED_AFTER_SECONDS), broker.kill)
        with NsqClient(broker.nsq_port) as publisher:
            killer.start()
            answered, first = publish_until_the_end(publisher, first)
        killer.join()
        assert broker.faults() == []


def test_an_mpub_is_there_as_a_whole_or_not_at_all(
    seed: int, start_broker: Callable[..., BrokerProcess]
) -> None:
    run_rounds(start_broker, seed, 2)


@pytest.mark.soak
def test_many_mpubs_are_there_as_wholes_or_not_at_all(
    seed: int, start_broker: Callable[..., BrokerProcess]
) -> None:
    run_rounds(start_broker, seed, 20)
