"""What the codec costs a message, in both of its forms: the CPU microseconds of each stage.

    python -m benchmarks.codec_cost --rounds 5

The messages are those of the rows with real ones (messages.py). Each stage runs over reads of many
messages, and over reads of one. The two forms run in turn, each in a process of its own, so that
both meet the same machine; the table has the medians. Where nothing was compiled, it has one form.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from array import array
from collections.abc import Callable

from leveret.amqp_frames.compiled import FORM, FORM_VARIABLE
from leveret.amqp_frames.decoder import ChannelInput, Decoder
from leveret.amqp_frames.messages.batch import Batch
from leveret.amqp_frames.messages.deliveries import (
    BASIC_ACK,
    encode_answers,
    encode_deliveries,
    encode_returns,
)
from leveret.amqp_frames.messages.indexes import divided, ranges_of, rows_of, split
from leveret.amqp_frames.messages.merging import merged

from benchmarks import wire
from benchmarks.messages import pool

MESSAGES = 400
# Of each stage in a process, which are short enough for the median to pass over disturbed ones.
REPEATS = 15
FRAME_MAX_BYTES = 131_072
_SIZE_MAX_BYTES = 1 << 27
_CONSUMER_TAG = b"\x05ctag1"

Costs = dict[str, float]


def _cpu_us(run: Callable[[], object]) -> float:
    """The median CPU microseconds a message of runs over MESSAGES of them."""
    costs = []
    for _ in range(REPEATS):
        begun_ns = time.thread_time_ns()
        run()
        costs.append((time.thread_time_ns() - begun_ns) / 1000 / MESSAGES)
    return statistics.median(costs)


def _batches(reads: list[bytes]) -> list[Batch]:
    """The batch of each read, fed to a decoder."""
    decoder = Decoder(FRAME_MAX_BYTES, _SIZE_MAX_BYTES, 2 * _SIZE_MAX_BYTES)
    found = []
    for read in reads:
        for event in decoder.feed(read):
            assert isinstance(event, ChannelInput)
            if event.batch is not None:
                found.append(event.batch)
    return found


def measure() -> Costs:
    """Each stage's CPU microseconds a message, in the form that this process has."""
    lone_reads = pool(["orders"], count=MESSAGES)
    lone_acks = [wire.ack(1, tag) for tag in range(1, MESSAGES + 1)]
    ten_keys = pool([f"key-{number}" for number in range(10)], count=MESSAGES)
    reads, keys, acks = ([b"".join(each)] for each in (lone_reads, ten_keys, lone_acks))
    lone, [large] = _batches(lone_reads), _batches(reads)
    assert len(lone) == len(large) == MESSAGES
    every, first = range(MESSAGES), range(1)

    def deliver(channel: int) -> None:
        for batch in lone:
            encode_deliveries(batch, first, 1, _CONSUMER_TAG, False, channel, FRAME_MAX_BYTES)

    def deliver_all(channel: int) -> None:
        encode_deliveries(large, every, 1, _CONSUMER_TAG, False, channel, FRAME_MAX_BYTES)

    def give_back() -> None:
        for batch in lone:
            encode_returns(batch, first, 1, 1, FRAME_MAX_BYTES)

    def answer() -> None:
        for tag in range(1, MESSAGES + 1):
            encode_answers(1, BASIC_ACK, 0, [(tag, tag)])

    ten = array("I", [number % 10 for number in range(MESSAGES)])
    turns = bytearray((0, 1)) * (MESSAGES // 2)
    odd = array("I", range(1, MESSAGES, 2))
    stages: dict[str, Callable[[], object]] = {
        "decode": lambda: _batches(reads),
        "decode, ten keys": lambda: _batches(keys),
        "decode, a read each": lambda: _batches(lone_reads),
        "acks": lambda: _batches(acks),
        "acks, a read each": lambda: _batches(lone_acks),
        "deliveries": lambda: deliver_all(1),
        "deliveries, another channel": lambda: deliver_all(2),
        "deliveries, one at a time": lambda: deliver(1),
        "deliveries, one at a time, another channel": lambda: deliver(2),
        "returns with acks": lambda: encode_returns(large, every, 1, 1, FRAME_MAX_BYTES),
        "returns with acks, one at a time": give_back,
        "answers, one at a time": answer,
        "merging batches of one": lambda: merged(lone),
        "divided among ten queues": lambda: rows_of(ten, range(10), 10, MESSAGES),
        "split by turns": lambda: split(range(MESSAGES), turns, 1),
        "confirmed by turns": lambda: (divided(range(MESSAGES), odd), ranges_of(odd, 1)),
    }
    return {name: _cpu_us(run) for name, run in stages.items()}


def compared(rounds: int) -> dict[str, dict[str, float]]:
    """By form, the medians of each stage over the rounds."""
    forms = ("no", "yes") if FORM == "compiled" else ("no",)
    rows: dict[str, list[Costs]] = {}
    for _ in range(rounds):
        for wanted in forms:
            command = [sys.executable, "-m", "benchmarks.codec_cost", "--once"]
            environment = {**os.environ, FORM_VARIABLE: wanted}
            done = subprocess.run(command, env=environment, capture_output=True, check=True)
            printed = json.loads(done.stdout)
            rows.setdefault(printed["form"], []).append(printed["costs"])
    return {
        form: {name: statistics.median(each[name] for each in costs) for name in costs[0]}
        for form, costs in rows.items()
    }


def main() -> None:
    """Print the table, or in a child process one form's figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.codec_cost", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--once", action="store_true", help=argparse.SUPPRESS)
    parsed = parser.parse_args()
    if parsed.once:
        print(json.dumps({"form": FORM, "costs": measure()}))
        return
    found = compared(parsed.rounds)
    print(f"| CPU us a message | {' | '.join(found)} |")
    print(f"|---|{'--:|' * len(found)}")
    for name in next(iter(found.values())):
        print(f"| {name} | {' | '.join(f'{costs[name]:.3f}' for costs in found.values())} |")


if __name__ == "__main__":
    main()
