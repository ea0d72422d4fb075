"""Exchanges with an NSQ broker, and the answers that nsqd 1.3.0 gives: facts, tried on nsqd itself.

An exchange is a list of steps: octets that are sent, and answers that must come next. In octets and
answers `$t` is a topic of the exchange's own, `$u` another, and `$0` the id of the first message
that came, `$1` of the next other one. Where Leveret answers otherwise on purpose, the step is a
Difference, and docs/NSQ.md has a row with its title and the reason.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import NamedTuple

from nsq_wire import ERROR, RESPONSE, auth, dpub, identify, mpub, pub, sized


class Answer(NamedTuple):
    """A frame that is no message."""

    kind: int
    text: bytes


class Negotiated(NamedTuple):
    """The JSON answer to IDENTIFY: as by default but for these fields."""

    changes: dict[str, object]


class Came(NamedTuple):
    """A message."""

    id: bytes
    body: bytes
    attempts: int = 1


class End(NamedTuple):
    """The broker closes the connection."""


class Quiet(NamedTuple):
    """Nothing comes before the OK of a publish that is sent now."""


class HalfClose(NamedTuple):
    """The client sends nothing more, and still reads."""


class Closed(NamedTuple):
    """The client closes its connection."""


class By(NamedTuple):
    """A step of another connection, which the first of its steps opens."""

    name: str
    step: Step


class Difference(NamedTuple):
    """Answers of nsqd and of Leveret, for the reason that docs/NSQ.md has under this title."""

    title: str
    nsqd: tuple[Step, ...]
    leveret: tuple[Step, ...]


Step = bytes | Answer | Negotiated | Came | End | Quiet | HalfClose | Closed | By | Difference


class Exchange(NamedTuple):
    name: str
    steps: tuple[Step, ...]


OK = Answer(RESPONSE, b"OK")
CLOSE_WAIT = Answer(RESPONSE, b"CLOSE_WAIT")
END, QUIET, HALF_CLOSE, CLOSED = End(), Quiet(), HalfClose(), Closed()
NO_ID = b"0" * 16
MESSAGE_BYTES_MAX = 1_048_576
BODY_BYTES_MAX = 5_242_880

# The answer to {"feature_negotiation": true}, in nsqd's order.
DEFAULTS: dict[str, object] = {
    "max_rdy_count": 2500,
    "version": "1.3.0",
    "max_msg_timeout": 900_000,
    "msg_timeout": 60_000,
    "tls_v1": False,
    "deflate": False,
    "deflate_level": 6,
    "max_deflate_level": 6,
    "snappy": False,
    "sample_rate": 0,
    "auth_required": False,
    "output_buffer_size": 16_384,
    "output_buffer_timeout": 250,
}


def error(text: str | bytes) -> Answer:
    return Answer(ERROR, text.encode() if isinstance(text, str) else text)


def fatal(text: str | bytes) -> tuple[Step, ...]:
    return error(text), END


def size(number: int) -> bytes:
    return struct.pack(">i", number)


def subscribed(ready: int | None = None, channel: str = "c") -> tuple[Step, ...]:
    ready_line = () if ready is None else (b"RDY %d\n" % ready,)
    return f"SUB $t {channel}\n".encode(), OK, *ready_line


def by(name: str, *steps: Step) -> tuple[Step, ...]:
    return tuple(By(name, step) for step in steps)


def published(*bodies: bytes) -> tuple[Step, ...]:
    return (
        b"".join(pub("$t", body) for body in bodies),
        *(OK for _ in bodies),
    )


def one_each(rows: Iterable[tuple[bytes, *tuple[Step, ...]]]) -> list[Exchange]:
    """Exchanges of one command: what is sent, and what comes."""
    return [Exchange(repr(row[0][:70]), row) for row in rows]


def raw_identify(body: bytes) -> bytes:
    return b"IDENTIFY\n" + sized(body)


def negotiate(**fields: object) -> bytes:
    return identify(feature_negotiation=True, **fields)


STATES = one_each(
    [
        *((b"%b\n" % line, QUIET) for line in (b"NOP ", b"NOP\r", b"NOP a b")),
        *(
            (b"%b\n" % line, *fatal(b"E_INVALID invalid command " + word))
            for line, word in (
                (b"", b""),
                (b"\r", b""),
                (b"BOGUS", b"BOGUS"),
                (b"nop", b"nop"),
                (b" NOP", b""),
                (b"NOP\r\r", b"NOP\r"),
                (b"\xff\xfe", b"\xff\xfe"),
                (b"PUBx t", b"PUBx"),
                (b"N" * 16_383, b"N" * 16_383),
            )
        ),
        (b"N" * 16_384, END),
        *(
            (
                b"%b\n" % line,
                *fatal(b"E_INVALID cannot " + line[:5].split()[0] + b" in current state"),
            )
            for line in (
                b"FIN",
                b"RDY",
                b"RDY 1",
                b"TOUCH",
                b"REQ",
                b"CLS",
                b"FIN " + NO_ID,
                b"REQ " + NO_ID + b" 0",
                b"TOUCH " + NO_ID,
            )
        ),
        *(
            (
                line + b"\n",
                *fatal(
                    line.split()[0].join((b"E_INVALID ", b" insufficient number of parameters"))
                ),
            )
            for line in (b"SUB", b"SUB $t", b"PUB", b"MPUB", b"DPUB", b"DPUB $t")
        ),
        (b"NOP\nNOP\nBOGUS a b c\nNOP\n", *fatal("E_INVALID invalid command BOGUS")),
        (
            pub("$t", b"x") * 5 + b"NOP\nBOGUS\n" + pub("$t", b"x"),
            *[OK] * 5,
            *fatal("E_INVALID invalid command BOGUS"),
        ),
        (b"PUB $t\r\n" + sized(b"hi"), OK),
    ]
)

IDENTIFYING = [
    *one_each(
        [
            *(
                (raw_identify(body), OK, QUIET)
                for body in (
                    b"{}",
                    b"null",
                    b" {} ",
                    b'{"user_agent":null}',
                    b'{"client_id":"\xff"}',
                    b'{"feature_negotiation":false}',
                    b'{"deflate":true,"snappy":true}',
                )
            ),
            *(
                (raw_identify(body), *fatal("E_BAD_BODY IDENTIFY failed to decode JSON body"))
                for body in (
                    b"x",
                    b"[]",
                    b"1",
                    b'"a"',
                    b"{",
                    b"{} x",
                    b'{"heartbeat_interval":"5000"}',
                    b'{"heartbeat_interval":5000.0}',
                    b'{"heartbeat_interval":5e3}',
                    b'{"heartbeat_interval":99999999999999999999}',
                    b'{"sample_rate":3000000000}',
                    b'{"feature_negotiation":"true"}',
                    b'{"feature_negotiation":1}',
                    b'{"client_id":1}',
                )
            ),
            (negotiate(), Negotiated({}), QUIET),
            (negotiate(nonsense=1, short_id="a", long_id="b"), Negotiated({})),
            (
                identify(Feature_Negotiation=True, MSG_TIMEOUT=3000),
                Negotiated({"msg_timeout": 3000}),
            ),
            (raw_identify(b'{"feature_negotiation":true,"msg_timeout":null}'), Negotiated({})),
            (
                raw_identify(b'{"feature_negotiation":true,"msg_timeout":1000,"msg_timeout":2000}'),
                Negotiated({"msg_timeout": 2000}),
            ),
            *((negotiate(heartbeat_interval=ms), Negotiated({})) for ms in (-1, 0, 1000, 60_000)),
            *(
                (negotiate(**{field: value}), Negotiated(changes))
                for field, value, changes in (
                    ("output_buffer_timeout", -1, {"output_buffer_timeout": 0}),
                    ("output_buffer_timeout", 0, {}),
                    ("output_buffer_timeout", 25, {"output_buffer_timeout": 25}),
                    ("output_buffer_timeout", 30_000, {"output_buffer_timeout": 30_000}),
                    (
                        "output_buffer_size",
                        -1,
                        {"output_buffer_size": 1, "output_buffer_timeout": 0},
                    ),
                    ("output_buffer_size", 0, {}),
                    ("output_buffer_size", 64, {"output_buffer_size": 64}),
                    ("output_buffer_size", 65_536, {"output_buffer_size": 65_536}),
                    ("sample_rate", 0, {}),
                    ("sample_rate", 1, {"sample_rate": 1}),
                    ("sample_rate", 99, {"sample_rate": 99}),
                    ("msg_timeout", 0, {}),
                    ("msg_timeout", 1000, {"msg_timeout": 1000}),
                    ("msg_timeout", 900_000, {"msg_timeout": 900_000}),
                    ("deflate_level", 3, {}),
                )
            ),
            (
                negotiate(output_buffer_size=-1, output_buffer_timeout=100),
                Negotiated({"output_buffer_size": 1, "output_buffer_timeout": 0}),
            ),
            *(
                (
                    negotiate(**{field: value}),
                    *fatal(f"E_BAD_BODY IDENTIFY {text} ({value}) is invalid"),
                )
                for field, text, values in (
                    ("heartbeat_interval", "heartbeat interval", (-2, 1, 999, 60_001)),
                    ("output_buffer_timeout", "output buffer timeout", (-2, 1, 24, 30_001)),
                    ("output_buffer_size", "output buffer size", (-2, 1, 63, 65_537)),
                    ("sample_rate", "sample rate", (-1, 100)),
                    ("msg_timeout", "msg timeout", (-1, 1, 999, 900_001)),
                )
                for value in values
            ),
            # The order of the checks.
            (
                identify(
                    heartbeat_interval=1,
                    msg_timeout=1,
                    sample_rate=100,
                    output_buffer_size=1,
                    output_buffer_timeout=1,
                ),
                *fatal("E_BAD_BODY IDENTIFY heartbeat interval (1) is invalid"),
            ),
            (
                identify(
                    msg_timeout=1, sample_rate=100, output_buffer_size=1, output_buffer_timeout=1
                ),
                *fatal("E_BAD_BODY IDENTIFY output buffer timeout (1) is invalid"),
            ),
            (
                identify(msg_timeout=1, sample_rate=100, output_buffer_size=1),
                *fatal("E_BAD_BODY IDENTIFY output buffer size (1) is invalid"),
            ),
            (
                identify(msg_timeout=1, sample_rate=100),
                *fatal("E_BAD_BODY IDENTIFY sample rate (100) is invalid"),
            ),
            (
                negotiate(deflate=True, snappy=True),
                *fatal("E_IDENTIFY_FAILED cannot enable both deflate and snappy compression"),
            ),
            (b"IDENTIFY foo bar\n" + sized(b"{}"), OK),
            (b"IDENTIFY\n" + size(0), *fatal("E_BAD_BODY IDENTIFY invalid body size 0")),
            (b"IDENTIFY\n" + size(-1), *fatal("E_BAD_BODY IDENTIFY invalid body size -1")),
            (
                b"IDENTIFY\n" + size(BODY_BYTES_MAX + 1),
                *fatal("E_BAD_BODY IDENTIFY body too big 5242881 > 5242880"),
            ),
            *(
                (
                    b"IDENTIFY\n" + rest,
                    HALF_CLOSE,
                    *fatal(f"E_BAD_BODY IDENTIFY failed to read {text}"),
                )
                for rest, text in (
                    (b"", "body size"),
                    (b"\0\0", "body size"),
                    (size(10) + b"{}", "body"),
                )
            ),
        ]
    ),
    Exchange(
        "IDENTIFY comes again until SUB",
        (
            negotiate(msg_timeout=1000),
            Negotiated({"msg_timeout": 1000}),
            negotiate(msg_timeout=2000),
            Negotiated({"msg_timeout": 2000}),
            identify(),
            OK,
            *subscribed(),
            identify(),
            *fatal("E_INVALID cannot IDENTIFY in current state"),
        ),
    ),
    Exchange("IDENTIFY behind PUB", (*published(b"a"), negotiate(), Negotiated({}))),
    Exchange(
        "without heartbeats there is no SUB",
        (
            identify(heartbeat_interval=-1),
            OK,
            *published(b"a"),
            b"SUB $t c\n",
            *fatal("E_INVALID cannot SUB with heartbeats disabled"),
        ),
    ),
]

AUTH = [
    *one_each(
        [
            (
                auth(b"a:b"),
                Difference(
                    "AUTH without an auth server",
                    fatal("E_AUTH_DISABLED AUTH disabled"),
                    fatal("E_AUTH_FAILED AUTH failed"),
                ),
            ),
            (b"AUTH x\n", *fatal("E_INVALID AUTH invalid number of parameters")),
            (b"AUTH\n" + size(0), *fatal("E_BAD_BODY AUTH invalid body size 0")),
            (b"AUTH\n" + size(-1), *fatal("E_BAD_BODY AUTH invalid body size -1")),
            (
                b"AUTH\n" + size(BODY_BYTES_MAX + 1),
                *fatal("E_BAD_BODY AUTH body too big 5242881 > 5242880"),
            ),
            (b"AUTH\n" + size(5) + b"a", HALF_CLOSE, *fatal("E_BAD_BODY AUTH failed to read body")),
        ]
    ),
    Exchange(
        "AUTH behind SUB",
        (*subscribed(), auth(b"a:b"), *fatal("E_INVALID cannot AUTH in current state")),
    ),
]

# Of a broker that wants AUTH: its client `joe` may do all with the topic `allowed`.
AUTH_REQUIRED = [
    *one_each(
        [
            *(
                (command, *fatal(f"E_AUTH_FIRST AUTH required before {name}"))
                for name, command in (
                    ("PUB", pub("allowed", b"x")),
                    ("MPUB", mpub("allowed", b"x")),
                    ("DPUB", dpub("allowed", 0, b"x")),
                    ("SUB", b"SUB allowed c\n"),
                )
            ),
            (pub("bad!", b"x"), *fatal('E_BAD_TOPIC PUB topic name "bad!" is not valid')),
            (b"SUB bad! c\n", *fatal('E_BAD_TOPIC SUB topic name "bad!" is not valid')),
            (b"DPUB allowed x\n" + sized(b"x"), *fatal("E_INVALID DPUB could not parse timeout x")),
            (b"RDY 1\n", *fatal("E_INVALID cannot RDY in current state")),
            (
                b"MPUB allowed\n" + size(0),
                Difference(
                    "AUTH that is required, and an MPUB whose body is broken",
                    fatal("E_AUTH_FIRST AUTH required before MPUB"),
                    fatal("E_BAD_BODY MPUB invalid body size 0"),
                ),
            ),
            (negotiate(), Negotiated({"auth_required": True})),
            (b"NOP\n" + auth(b"joe:bad"), *fatal("E_AUTH_FAILED AUTH failed")),
        ]
    ),
    *(
        Exchange(
            f"not allowed: {command!r}",
            (
                auth(b"joe:good"),
                *(
                    JOE := (
                        Answer(
                            RESPONSE, b'{"identity":"joe","identity_url":"","permission_count":1}'
                        ),
                    )
                ),
                command,
                *fatal(f'E_UNAUTHORIZED AUTH failed for {name} on "denied" "{channel}"'),
            ),
        )
        for name, channel, command in (
            ("PUB", "", pub("denied", b"x")),
            ("MPUB", "", mpub("denied", b"x")),
            ("DPUB", "", dpub("denied", 5, b"x")),
            ("SUB", "c", b"SUB denied c\n"),
        )
    ),
    Exchange(
        "names come before permissions",
        (
            auth(b"joe:good"),
            *JOE,
            b'SUB denied "c\n',
            *fatal('E_BAD_CHANNEL SUB channel name "\\"c" is not valid'),
        ),
    ),
    Exchange(
        "AUTH twice",
        (auth(b"joe:good"), *JOE, auth(b"joe:good"), *fatal("E_INVALID AUTH already set")),
    ),
    Exchange(
        "allowed",
        (
            auth(b"joe:good"),
            *JOE,
            pub("allowed", b"x"),
            OK,
            b"SUB allowed c\n",
            OK,
            b"RDY 1\n",
            Came(b"$0", b"x"),
            b"FIN $0\n",
        ),
    ),
]

NAMES = [
    *one_each(
        [
            *(
                (pub(name, b"x"), OK)
                for name in ("a.A_-9", "n" * 64, "n#ephemeral", "n" * 54 + "#ephemeral")
            ),
            *(
                (
                    b"PUB " + name + b"\n" + sized(b"x"),
                    *fatal(b'E_BAD_TOPIC PUB topic name "%b" is not valid' % shown),
                )
                for name, shown in (
                    *(
                        (each, each)
                        for each in (
                            b"",
                            b"n" * 65,
                            b"n" * 55 + b"#ephemeral",
                            b"#ephemeral",
                            b"a#b",
                            b"a#ephemeral#ephemeral",
                            b"a#ephemera",
                            b"a/b",
                            b"a:b",
                            b"a,b",
                            b"a'b",
                            b"a*",
                            "é".encode(),
                            "日本".encode(),
                            "🐰".encode(),
                        )
                    ),
                    (b'a"b', b'a\\"b'),
                    (b"a\\b", b"a\\\\b"),
                    (b"a\tb", b"a\\tb"),
                    (b"a\0b", b"a\\x00b"),
                    (b"a\x7fb", b"a\\x7fb"),
                    (b"\xff", b"\\xff"),
                    (b"a\xc3", b"a\\xc3"),
                    ("a\u2028b".encode(), b"a\\u2028b"),
                )
            ),
            (b"PUB  \n" + sized(b"x"), *fatal('E_BAD_TOPIC PUB topic name "" is not valid')),
            (
                mpub("bad!", b"x"),
                *fatal('E_BAD_TOPIC E_BAD_TOPIC MPUB topic name "bad!" is not valid'),
            ),
            (
                b"DPUB bad! x\n" + sized(b"x"),
                *fatal('E_BAD_TOPIC DPUB topic name "bad!" is not valid'),
            ),
            (b"SUB bad! bad!\n", *fatal('E_BAD_TOPIC SUB topic name "bad!" is not valid')),
            *(
                (b"SUB $t " + name + b"\n", OK)
                for name in (b"c" * 64, b"c#ephemeral", b"a.b_c-D9", b"c d e")
            ),
            *(
                (
                    b"SUB $t " + name + b"\n",
                    *fatal(b'E_BAD_CHANNEL SUB channel name "%b" is not valid' % shown),
                )
                for name, shown in (
                    (b"", b""),
                    (b"c" * 65, b"c" * 65),
                    (b"#ephemeral", b"#ephemeral"),
                    (b"a#b", b"a#b"),
                    (b"a/b", b"a/b"),
                    (b'"', b'\\"'),
                    ("é".encode(), "é".encode()),
                )
            ),
        ]
    ),
]

PUBLISHING = [
    *one_each(
        [
            (b"PUB $t extra words\n" + sized(b"x"), OK),
            (pub("$t", b"m" * MESSAGE_BYTES_MAX), OK),
            *(
                (line + size(number), *fatal(f"E_BAD_MESSAGE {name} {text}"))
                for name, line in (("PUB", b"PUB $t\n"), ("DPUB", b"DPUB $t 5\n"))
                for number, text in (
                    (0, "invalid message body size 0"),
                    (-1, "invalid message body size -1"),
                    (MESSAGE_BYTES_MAX + 1, "message too big 1048577 > 1048576"),
                    (2**31 - 1, "message too big 2147483647 > 1048576"),
                )
            ),
            *(
                (
                    line + rest,
                    HALF_CLOSE,
                    *fatal(f"E_BAD_MESSAGE {name} failed to read message body{what}"),
                )
                for name, line in (("PUB", b"PUB $t\n"), ("DPUB", b"DPUB $t 5\n"))
                for rest, what in ((b"", " size"), (b"\0\0", " size"), (size(5) + b"ab", ""))
            ),
            (pub("$t", b"x") * 3 + b"PUB tail", HALF_CLOSE, OK, OK, OK, END),
            *(
                (
                    b"DPUB $t %b\n" % word + sized(b"x"),
                    *fatal(b"E_INVALID DPUB could not parse timeout " + word),
                )
                for word in (b"x", b"-1", b"1.5")
            ),
            *(
                (
                    b"DPUB $t %b\n" % word + sized(b"x"),
                    *fatal(f"E_INVALID DPUB timeout {number} out of range 0-3600000"),
                )
                for word, number in (
                    (b"3600001", 3_600_001),
                    (b"99999999999999999999", 99_999_999_999_999_999_999 % 2**64),
                    (b"18446744073709551615", 2**64 - 1),
                )
            ),
            *(
                (b"DPUB $t %b\n" % word + sized(b"x"), OK)
                for word in (b"3600000", b"", b"0 x", b"0")
            ),
            *(
                (b"MPUB $t\n" + rest, *fatal(text))
                for rest, text in (
                    (size(0), "E_BAD_BODY MPUB invalid body size 0"),
                    (size(-1), "E_BAD_BODY MPUB invalid body size -1"),
                    (size(BODY_BYTES_MAX + 1), "E_BAD_BODY MPUB body too big 5242881 > 5242880"),
                    (size(4) + size(0), "E_BAD_BODY MPUB invalid message count 0"),
                    (size(4) + size(-1), "E_BAD_BODY MPUB invalid message count -1"),
                    (size(4) + size(1_048_576), "E_BAD_BODY MPUB invalid message count 1048576"),
                    (
                        size(8) + size(1) + size(0),
                        "E_BAD_MESSAGE MPUB invalid message(0) body size 0",
                    ),
                    (
                        size(8) + size(1) + size(-5),
                        "E_BAD_MESSAGE MPUB invalid message(0) body size -5",
                    ),
                    (
                        size(12) + size(1) + size(MESSAGE_BYTES_MAX + 1),
                        "E_BAD_MESSAGE MPUB message too big 1048577 > 1048576",
                    ),
                    (
                        size(17) + size(2) + sized(b"a") + size(0),
                        "E_BAD_MESSAGE MPUB invalid message(1) body size 0",
                    ),
                )
            ),
            *(
                (b"MPUB $t\n" + rest, HALF_CLOSE, *fatal(text))
                for rest, text in (
                    (b"", "E_BAD_BODY MPUB failed to read body size"),
                    (size(13), "E_BAD_BODY MPUB failed to read message count"),
                    (size(13) + size(2), "E_BAD_MESSAGE MPUB failed to read message(0) body size"),
                    (
                        size(13) + size(2) + size(1),
                        "E_BAD_MESSAGE MPUB failed to read message body",
                    ),
                    (
                        size(13) + size(2) + sized(b"a"),
                        "E_BAD_MESSAGE MPUB failed to read message(1) body size",
                    ),
                    (
                        size(13) + size(2) + sized(b"a") + size(9) + b"a",
                        "E_BAD_MESSAGE MPUB failed to read message body",
                    ),
                )
            ),
        ]
    ),
    Exchange(
        "an MPUB's messages come, and nothing of a broken one",
        (
            mpub("$t", b"a", b"bb", b"ccc"),
            OK,
            *by(
                "other",
                b"MPUB $t\n" + size(17) + size(2) + sized(b"a") + size(0),
                *fatal("E_BAD_MESSAGE MPUB invalid message(1) body size 0"),
            ),
            *subscribed(9),
            Came(b"$0", b"a"),
            Came(b"$1", b"bb"),
            Came(b"$2", b"ccc"),
            QUIET,
        ),
    ),
    Exchange(
        "a body size of an MPUB that is smaller than its contents",
        (b"MPUB $t\n" + size(5) + size(2) + sized(b"aaa") + sized(b"bbb"), OK, b"NOP\n", QUIET),
    ),
    Exchange(
        "a body size of an MPUB that is larger than its contents",
        (
            b"MPUB $t\n" + size(21) + size(1) + sized(b"aaa") + b"NOP\nBOGUS\n",
            OK,
            *fatal("E_INVALID invalid command BOGUS"),
        ),
    ),
    Exchange(
        "a DPUB comes later than one that is due",
        (
            *subscribed(5),
            *by("other", dpub("$t", 700, b"later"), OK, dpub("$t", 0, b"now"), OK),
            Came(b"$0", b"now"),
            Came(b"$1", b"later"),
        ),
    ),
]

CONSUMING = [
    Exchange(
        "SUB twice", (*subscribed(), b"SUB $t d\n", *fatal("E_INVALID cannot SUB in current state"))
    ),
    Exchange(
        "a subscriber publishes",
        (*subscribed(), *published(b"self"), b"RDY 1\n", Came(b"$0", b"self")),
    ),
    Exchange(
        "two channels have the same ids",
        (
            *subscribed(5),
            *by("b", *subscribed(5, "d")),
            *by("c", *published(b"x")),
            Came(b"$0", b"x"),
            By("b", Came(b"$0", b"x")),
        ),
    ),
    Exchange(
        "the first channel gets what the topic has kept",
        (
            *published(b"x", b"y"),
            *subscribed(5),
            Came(b"$0", b"x"),
            Came(b"$1", b"y"),
            *by("b", *subscribed(5, "d"), QUIET),
        ),
    ),
    *(
        Exchange(repr(line), (*subscribed(), line + b"\n", *answers))
        for line, answers in (
            *(
                (line, (QUIET,))
                for line in (
                    b"RDY",
                    b"RDY ",
                    b"RDY 0",
                    b"RDY 2500",
                    b"RDY 1 2",
                    b"RDY 18446744073709551617",
                )
            ),
            (b"RDY 2501", fatal("E_INVALID RDY count 2501 out of range 0-2500")),
            (b"RDY 18446744073709551615", fatal("E_INVALID RDY count -1 out of range 0-2500")),
            *(
                (b"RDY " + word, fatal(b"E_INVALID RDY could not parse count " + word))
                for word in (b"-1", b"x", b"1.0")
            ),
            *(
                (line, fatal(b"E_INVALID %b insufficient number of params" % line[:5].split()[0]))
                for line in (b"FIN", b"REQ", b"REQ " + NO_ID, b"TOUCH")
            ),
            *(
                (line, fatal("E_INVALID invalid message ID"))
                for line in (
                    b"FIN ",
                    b"FIN abc",
                    b"FIN " + b"0" * 17,
                    b"REQ abc 0",
                    b"REQ abc x",
                    b"TOUCH abc",
                )
            ),
            *(
                (
                    b"REQ " + NO_ID + b" " + word,
                    fatal(b"E_INVALID REQ could not parse timeout " + word),
                )
                for word in (b"x", b"-1")
            ),
            *(
                (
                    b"%b %b" % (name, words),
                    (
                        error(
                            b"E_%b_FAILED %b %b failed ID not in flight" % (name, name, words[:16])
                        ),
                        QUIET,
                    ),
                )
                for name, words in (
                    (b"FIN", NO_ID),
                    (b"FIN", b"z" * 16),
                    (b"FIN", b"\xff" * 16),
                    (b"FIN", NO_ID + b" more"),
                    (b"REQ", NO_ID + b" 0"),
                    (b"REQ", NO_ID + b" "),
                    (b"REQ", NO_ID + b" 99999999"),
                    (b"TOUCH", NO_ID),
                )
            ),
        )
    ),
    Exchange(
        "RDY is how many may be in flight",
        (
            *published(*(b"%d" % k for k in range(12))),
            *subscribed(),
            QUIET,
            b"RDY 2\n",
            Came(b"$0", b"0"),
            Came(b"$1", b"1"),
            QUIET,
            b"FIN $0\n",
            Came(b"$2", b"2"),
            QUIET,
            b"RDY 2\n",
            QUIET,
            b"RDY 3\n",
            Came(b"$3", b"3"),
            QUIET,
            b"RDY 1\nFIN $1\nFIN $2\n",
            QUIET,
            b"FIN $3\n",
            Came(b"$4", b"4"),
            QUIET,
            b"RDY 0\nFIN $4\n",
            QUIET,
            b"RDY\n",
            Came(b"$5", b"5"),
            QUIET,
        ),
    ),
    Exchange(
        "what is finished, or another's",
        (
            *published(b"a", b"b"),
            *subscribed(1),
            Came(b"$0", b"a"),
            b"FIN $0\n",
            Came(b"$1", b"b"),
            b"FIN $0\n",
            error("E_FIN_FAILED FIN $0 failed ID not in flight"),
            b"TOUCH $0\n",
            error("E_TOUCH_FAILED TOUCH $0 failed ID not in flight"),
            b"REQ $0 0\n",
            error("E_REQ_FAILED REQ $0 failed ID not in flight"),
            *by("b", *subscribed(1)),
            *(
                By("b", step)
                for name in ("FIN", "TOUCH", "REQ")
                for step in (
                    f"{name} $1 0\n".encode(),
                    Difference(
                        "FIN, REQ or TOUCH of another client's message",
                        (error(f"E_{name}_FAILED {name} $1 failed client does not own message"),),
                        (error(f"E_{name}_FAILED {name} $1 failed ID not in flight"),),
                    ),
                )
            ),
            *by(
                "c",
                *subscribed(1, "d"),
                b"FIN $1\n",
                error("E_FIN_FAILED FIN $1 failed ID not in flight"),
            ),
            b"FIN $1\n",
            QUIET,
        ),
    ),
    Exchange(
        "REQ",
        (
            *published(b"a"),
            *subscribed(1),
            Came(b"$0", b"a"),
            b"REQ $0 0\n",
            Came(b"$0", b"a", 2),
            b"REQ $0 0\n",
            Came(b"$0", b"a", 3),
            b"REQ $0 500\n",
            QUIET,
            b"FIN $0\n",
            error("E_FIN_FAILED FIN $0 failed ID not in flight"),
            Came(b"$0", b"a", 4),
            b"REQ $0 99999999\n",
            QUIET,
        ),
    ),
    Exchange(
        "a message that is not answered in time",
        (
            identify(msg_timeout=1000),
            OK,
            *published(b"a"),
            *subscribed(1),
            Came(b"$0", b"a"),
            b"RDY 0\n",
            *by("b", *subscribed(1), Came(b"$0", b"a", 2)),
            b"FIN $0\n",
            Difference(
                "FIN, REQ or TOUCH of another client's message",
                (error("E_FIN_FAILED FIN $0 failed client does not own message"),),
                (error("E_FIN_FAILED FIN $0 failed ID not in flight"),),
            ),
            *by("b", b"FIN $0\n", QUIET),
        ),
    ),
    Exchange(
        "at the time-out a place is free without a FIN",
        (
            identify(msg_timeout=1000),
            OK,
            *published(b"a", b"b"),
            *subscribed(1),
            Came(b"$0", b"a"),
            Difference(
                "the place of a message that comes again",
                (Came(b"$1", b"b"),),
                (Came(b"$0", b"a", 2),),
            ),
        ),
    ),
    Exchange(
        "CLS",
        (
            *published(b"a", b"b", b"c", b"d"),
            *subscribed(3),
            Came(b"$0", b"a"),
            Came(b"$1", b"b"),
            Came(b"$2", b"c"),
            b"CLS\n",
            CLOSE_WAIT,
            b"RDY 100\nRDY 9999999\nRDY x\n",
            QUIET,
            b"FIN $0\nTOUCH $1\nREQ $1 0\nFIN $2\n",
            QUIET,
            b"FIN $2\n",
            error("E_FIN_FAILED FIN $2 failed ID not in flight"),
            *published(b"e"),
            b"NOP\n",
            QUIET,
            b"CLS\n",
            *fatal("E_INVALID cannot CLS in current state"),
        ),
    ),
    *(
        Exchange(
            f"{name} behind CLS",
            (
                *subscribed(),
                b"CLS\n",
                CLOSE_WAIT,
                line,
                *fatal(f"E_INVALID cannot {name} in current state"),
            ),
        )
        for name, line in (("SUB", b"SUB $t c\n"), ("IDENTIFY", identify()))
    ),
    Exchange(
        "an ephemeral channel goes with its last client",
        (
            *subscribed(1, "e#ephemeral"),
            *by("b", *published(b"a", b"b")),
            Came(b"$0", b"a"),
            CLOSED,
            *by("c", *subscribed(None, "d")),
        ),
    ),
]

GROUPS = {
    "states": STATES,
    "identify": IDENTIFYING,
    "auth": AUTH,
    "names": NAMES,
    "publishing": PUBLISHING,
    "consuming": CONSUMING,
}


def titles() -> set[str]:
    """Of all differences, as docs/NSQ.md has them."""
    groups = (*GROUPS.values(), AUTH_REQUIRED)
    steps = [step for group in groups for exchange in group for step in exchange.steps]
    steps = [step.step if isinstance(step, By) else step for step in steps]
    return {step.title for step in steps if isinstance(step, Difference)}
