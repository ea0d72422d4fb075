"""Commands: what octets mean, and nsqd's words for those that mean nothing, whole and in pieces."""

from __future__ import annotations

import random
import time

import pytest
from leveret.nsq_frames.commands import EVENTS_MAX, Command, Event, Fault, Finishes, Scanner, base10
from leveret.nsq_frames.publishes import LINE_BYTES_MAX, PublishLimits, PublishRun
from nsq_wire import auth, dpub, identify, mpub, pub, sized

LIMITS = PublishLimits(1_048_576, 5_242_880, 3_600_000)
RUN_BYTES = 1_000


def shown(events: list[Event]) -> list[object]:
    """Events as values; runs of the same kind, which pieces cut, joined."""
    found: list[object] = []
    for event in events:
        if isinstance(event, PublishRun):
            batch = event.batch
            counts = event.counts or [1] * len(batch)
            delays = event.delays_ms or [0] * len(batch)
            at = 0
            for count in counts:
                topics = [batch.distinct[batch.keys[k]][1:-2] for k in range(at, at + count)]
                bodies = [body(batch, k) for k in range(at, at + count)]
                found.append((event.command, topics[0], bodies, list(delays[at : at + count])))
                at += count
        elif isinstance(event, Finishes):
            found += [f"FIN {id}" for low, high in event.ranges for id in range(low, high + 1)]
        elif isinstance(event, Command):
            found.append((event.params, event.body))
        else:
            found.append(None if event.error is None else event.error.text)
    return found


def body(batch: object, index: int) -> bytes:
    wire = batch.wire  # type: ignore[attr-defined]
    end = batch.ends[index]  # type: ignore[attr-defined]
    size = batch.body_bytes(index)  # type: ignore[attr-defined]
    assert size <= 131_064
    return bytes(wire[end - 1 - size : end - 1])


def fed(*pieces: bytes, limits: PublishLimits = LIMITS) -> list[object]:
    scanner = Scanner(limits)
    return shown([event for piece in pieces for event in scanner.feed(piece)])


def three_ways(data: bytes) -> list[object]:
    """Whole, octet by octet, and with more behind it."""
    whole = fed(data)
    assert fed(*(data[at : at + 1] for at in range(len(data)))) == whole
    behind = fed(data + b"NOP\n")
    if whole and (whole[-1] is None or isinstance(whole[-1], bytes)):
        assert behind == whole
    else:
        assert behind == [*whole, ([b"NOP"], b"")]
    return whole


ID = b"000000000000000a"


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"NOP\n", [([b"NOP"], b"")]),
        (b"NOP\r\n", [([b"NOP"], b"")]),
        (b"NOP\r\r\n", [([b"NOP\r"], b"")]),
        (b"NOP a b\n", [([b"NOP", b"a", b"b"], b"")]),
        (b"\n", [([b""], b"")]),
        (b" NOP\n", [([b"", b"NOP"], b"")]),
        (b"SUB t c\n", [([b"SUB", b"t", b"c"], b"")]),
        (b"RDY\n", [([b"RDY"], b"")]),
        (b"CLS\n", [([b"CLS"], b"")]),
        (b"PUBx t\n", [([b"PUBx", b"t"], b"")]),
        (b"FIN " + ID + b"\n", ["FIN 10"]),
        (b"FIN " + ID + b"\r\n", [([b"FIN", ID], b"")]),
        (b"FIN " + ID.upper() + b"\n", [([b"FIN", ID.upper()], b"")]),
        (b"FIN " + ID + b" more\n", [([b"FIN", ID, b"more"], b"")]),
        (b"FIN\n", [([b"FIN"], b"")]),
        (b"REQ " + ID + b" 0\n", [([b"REQ", ID, b"0"], b"")]),
        (identify(a=1), [([b"IDENTIFY"], b'{"a": 1}')]),
        (b"IDENTIFY more\n" + sized(b"{}"), [([b"IDENTIFY", b"more"], b"{}")]),
        (auth(b"u:p"), [([b"AUTH"], b"u:p")]),
        (pub("t", b"x"), [(b"PUB", b"t", [b"x"], [0])]),
        (b"PUB t extra words\n" + sized(b"x"), [(b"PUB", b"t", [b"x"], [0])]),
        (b"PUB t\r\n" + sized(b"\nPUB t\n"), [(b"PUB", b"t", [b"\nPUB t\n"], [0])]),
        (dpub("t", 1500, b"x"), [(b"DPUB", b"t", [b"x"], [1500])]),
        (b"DPUB t \n" + sized(b"x"), [(b"DPUB", b"t", [b"x"], [0])]),
        (
            b"DPUB t 0000000000000000000000000000000000005 x\n" + sized(b"x"),
            [(b"DPUB", b"t", [b"x"], [5])],
        ),
        (mpub("t", b"a", b"bb"), [(b"MPUB", b"t", [b"a", b"bb"], [0, 0])]),
        # As in nsqd the count says where an MPUB ends, not its size.
        (
            b"MPUB t\n\0\0\0\5\0\0\0\2" + sized(b"aaa") + sized(b"bbb"),
            [(b"MPUB", b"t", [b"aaa", b"bbb"], [0, 0])],
        ),
        (
            b"MPUB t\n\0\0\0\x15\0\0\0\1" + sized(b"aaa") + b"CLS\n",
            [(b"MPUB", b"t", [b"aaa"], [0]), ([b"CLS"], b"")],
        ),
        (
            pub("t", b"1") + pub("u", b"2") + mpub("t", b"3") + pub("t", b"4") + b"CLS\n",
            [
                (b"PUB", b"t", [b"1"], [0]),
                (b"PUB", b"u", [b"2"], [0]),
                (b"MPUB", b"t", [b"3"], [0]),
                (b"PUB", b"t", [b"4"], [0]),
                ([b"CLS"], b""),
            ],
        ),
    ],
)
def test_commands_are_what_their_octets_say(data: bytes, expected: list[object]) -> None:
    assert three_ways(data) == expected


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"PUB\n", b"E_INVALID PUB insufficient number of parameters"),
        (b"MPUB\n", b"E_INVALID MPUB insufficient number of parameters"),
        (b"DPUB t\n", b"E_INVALID DPUB insufficient number of parameters"),
        (b"PUB \n", b'E_BAD_TOPIC PUB topic name "" is not valid'),
        (b'PUB a"b\n', b'E_BAD_TOPIC PUB topic name "a\\"b" is not valid'),
        (b"PUB \xff\n", b'E_BAD_TOPIC PUB topic name "\\xff" is not valid'),
        (b"PUB a#b\n", b'E_BAD_TOPIC PUB topic name "a#b" is not valid'),
        (b"MPUB bad!\n", b'E_BAD_TOPIC E_BAD_TOPIC MPUB topic name "bad!" is not valid'),
        (b"DPUB bad! x\n", b'E_BAD_TOPIC DPUB topic name "bad!" is not valid'),
        (b"PUB t\n\0\0\0\0", b"E_BAD_MESSAGE PUB invalid message body size 0"),
        (b"PUB t\n\xff\xff\xff\xff", b"E_BAD_MESSAGE PUB invalid message body size -1"),
        (b"PUB t\n\0\x10\0\1", b"E_BAD_MESSAGE PUB message too big 1048577 > 1048576"),
        (b"DPUB t x\n", b"E_INVALID DPUB could not parse timeout x"),
        (b"DPUB t -1\n", b"E_INVALID DPUB could not parse timeout -1"),
        (b"DPUB t 3600001\n", b"E_INVALID DPUB timeout 3600001 out of range 0-3600000"),
        (
            b"DPUB t 99999999999999999999\n",
            b"E_INVALID DPUB timeout 7766279631452241919 out of range 0-3600000",
        ),
        (b"DPUB t 5\n\0\0\0\0", b"E_BAD_MESSAGE DPUB invalid message body size 0"),
        (b"MPUB t\n\0\0\0\0", b"E_BAD_BODY MPUB invalid body size 0"),
        (b"MPUB t\n\0P\0\1", b"E_BAD_BODY MPUB body too big 5242881 > 5242880"),
        (b"MPUB t\n\0\0\0\4\0\0\0\0", b"E_BAD_BODY MPUB invalid message count 0"),
        (b"MPUB t\n\0\0\0\4\xff\xff\xff\xff", b"E_BAD_BODY MPUB invalid message count -1"),
        (b"MPUB t\n\0\0\0\4\0\x10\0\0", b"E_BAD_BODY MPUB invalid message count 1048576"),
        (
            b"MPUB t\n\0\0\0\x11\0\0\0\2\0\0\0\1a\0\0\0\0",
            b"E_BAD_MESSAGE MPUB invalid message(1) body size 0",
        ),
        (
            b"MPUB t\n\0\0\0\x0c\0\0\0\1\0\x10\0\1",
            b"E_BAD_MESSAGE MPUB message too big 1048577 > 1048576",
        ),
        (b"IDENTIFY\n\0\0\0\0", b"E_BAD_BODY IDENTIFY invalid body size 0"),
        (b"IDENTIFY\n\xff\xff\xff\xff", b"E_BAD_BODY IDENTIFY invalid body size -1"),
        (
            b"IDENTIFY\n\x7f\xff\xff\xff",
            b"E_BAD_BODY IDENTIFY body too big 2147483647 > 5242880",
        ),
        (b"AUTH x\n", b"E_INVALID AUTH invalid number of parameters"),
        (b"AUTH\n\0\0\0\0", b"E_BAD_BODY AUTH invalid body size 0"),
        (b"AUTH\n\0P\0\1", b"E_BAD_BODY AUTH body too big 5242881 > 5242880"),
    ],
)
def test_a_broken_command_is_an_error_in_nsqds_words_and_the_last(data: bytes, text: bytes) -> None:
    assert three_ways(data) == [text]
    good = pub("t", b"before")
    assert three_ways(good + data) == [(b"PUB", b"t", [b"before"], [0]), text]


def test_a_line_without_an_end_ends_the_connection_without_a_word() -> None:
    longest = b"N" * (LINE_BYTES_MAX - 1)
    assert fed(longest + b"\n") == [([longest], b"")]
    assert fed(longest + b"N") == [None]
    assert fed(longest, b"N", b"\n") == [None]


def test_an_mpub_in_many_reads_is_looked_at_once() -> None:
    bodies = [b"%d" % k for k in range(100_000)]
    data = mpub("t", *bodies)
    pieces = [data[at : at + RUN_BYTES] for at in range(0, len(data), RUN_BYTES)]
    assert fed(*pieces) == [(b"MPUB", b"t", bodies, [0] * len(bodies))]


def test_an_mpub_does_not_fill_the_memory_with_messages_behind_its_size() -> None:
    limits = LIMITS._replace(body_bytes_max=100_000)
    body = sized(bytes(50_000))
    data = b"MPUB t\n\0\0\0\5\0\0\0\5" + body * 5
    [text] = fed(data, limits=limits)
    assert isinstance(text, bytes)
    assert text.startswith(b"E_BAD_BODY MPUB body too big ")


def test_runs_cut_anywhere_are_the_same_runs(seed: int) -> None:
    chance = random.Random(seed)
    commands = [
        lambda: pub(chance.choice("abc"), bytes(chance.randrange(1, 50))),
        lambda: mpub(chance.choice("ab"), *(b"x" * chance.randrange(1, 9) for _ in range(3))),
        lambda: dpub("d", chance.randrange(2000), b"later"),
        lambda: b"FIN %016x\n" % chance.randrange(9),
        lambda: b"RDY %d\n" % chance.randrange(9),
        lambda: identify(client_id="x"),
    ]
    data = b"".join(chance.choice(commands)() for _ in range(200))
    whole = fed(data)
    for _ in range(20):
        cuts = sorted(chance.randrange(len(data)) for _ in range(chance.randrange(1, 40)))
        pieces = [data[low:high] for low, high in zip([0, *cuts], [*cuts, len(data)], strict=True)]
        assert fed(*pieces) == whole


def test_any_octets_are_read_without_an_exception(seed: int) -> None:
    chance = random.Random(seed)
    words = [b"PUB t\n", b"MPUB t\n", b"\0\0\0\1", b"FIN ", ID, b"\n", b" ", b"\xff", b"IDENTIFY\n"]
    for _ in range(2_000):
        scanner = Scanner(LIMITS)
        for _ in range(chance.randrange(1, 12)):
            scanner.feed(b"".join(chance.choice(words) for _ in range(chance.randrange(6))))


@pytest.mark.parametrize(
    ("digits", "number"),
    [(b"", 0), (b"0012", 12), (b"18446744073709551617", 1), (b"-1", None), (b"1.0", None)],
)
def test_numbers_are_read_as_nsqd_reads_them(digits: bytes, number: int | None) -> None:
    assert base10(digits) == number


def test_a_number_of_any_length_wraps() -> None:
    assert base10(b"9" * 6000) == (pow(10, 6000, 2**64) - 1) % 2**64


def test_nothing_is_read_behind_a_fault() -> None:
    scanner = Scanner(LIMITS)
    [fault] = scanner.feed(b"PUB\nNOP\n")
    assert isinstance(fault, Fault)
    assert scanner.feed(b"NOP\n") == []


def test_many_commands_come_in_several_looks() -> None:
    scanner = Scanner(LIMITS)
    data = b"NOP\n" * (2 * EVENTS_MAX + 1) + pub("t", b"x")
    looks = [scanner.feed(data[:-1])]
    while scanner.has_more:
        looks.append(scanner.feed(b""))
    assert [len(look) for look in looks] == [EVENTS_MAX, EVENTS_MAX, 1]
    assert scanner.held_bytes == len(pub("t", b"x")) - 1
    assert len(scanner.feed(data[-1:])) == 1
    assert scanner.held_bytes == 0


def test_an_mpub_in_many_small_reads_costs_little_more_than_in_a_few_large_ones() -> None:
    """To look at all that has come with each read would cost a hundred times as much."""
    data = mpub("t", *[b"x" * 200] * 100_000)
    limits = LIMITS._replace(body_bytes_max=len(data))

    def cost(read_bytes: int) -> float:
        reads = [data[at : at + read_bytes] for at in range(0, len(data), read_bytes)]
        scanner = Scanner(limits)
        began = time.process_time()
        events = [event for read in reads for event in scanner.feed(read)]
        assert len(events) == 1
        return time.process_time() - began

    assert cost(1400) < 25 * cost(262_144)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", None),
        (b"PU", None),
        (b"NOP\nRDY 1", None),
        (b"PUB t\n", b"E_BAD_MESSAGE PUB failed to read message body size"),
        (b"DPUB t 1\r\n\0\0\0", b"E_BAD_MESSAGE DPUB failed to read message body size"),
        (b"PUB t\n\0\0\0\5abcd", b"E_BAD_MESSAGE PUB failed to read message body"),
        (b"AUTH\n\0\0\0", b"E_BAD_BODY AUTH failed to read body size"),
        (b"IDENTIFY\n\0\0\0\3{}", b"E_BAD_BODY IDENTIFY failed to read body"),
        (b"MPUB t\n\0", b"E_BAD_BODY MPUB failed to read body size"),
        (b"MPUB t\n\0\0\0\x0d", b"E_BAD_BODY MPUB failed to read message count"),
        (
            b"MPUB t\n\0\0\0\x0d\0\0\0\2\0\0\0\1a\0",
            b"E_BAD_MESSAGE MPUB failed to read message(1) body size",
        ),
        (
            b"MPUB t\n\0\0\0\x0d\0\0\0\2\0\0\0\1a\0\0\0\2b",
            b"E_BAD_MESSAGE MPUB failed to read message body",
        ),
    ],
)
def test_a_body_that_is_cut_off_is_an_error_and_a_line_is_none(
    data: bytes, text: bytes | None
) -> None:
    for cut in range(len(data) + 1):
        scanner = Scanner(LIMITS)
        scanner.feed(data[:cut])
        scanner.feed(data[cut:])
        fault = scanner.end()
        error = None if fault is None else fault.error
        assert (None if error is None else error.text) == text
        assert scanner.end() is None
        assert scanner.feed(b"NOP\n") == []
