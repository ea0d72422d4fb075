"""Dead letters: where they go and what their headers say."""

from __future__ import annotations

import pytest
from both_brokers import BothBrokers, Script, compared
from dead_letter_scripts import dead_lettered, get_all, number, reject, text, texts
from leveret.amqp_frames.methods import (
    BasicGet,
    BasicNack,
    ExchangeDeclare,
    QueueBind,
    QueueDeclare,
)
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Field
from scripted_session import Session


@compared
def test_a_rejected_message(session: Session) -> None:
    channel = session.channel()
    channel.ask(
        ExchangeDeclare(exchange="dlx", type="topic"),
        dead_lettered("q", "dlx"),
        QueueDeclare(queue="dead"),
        QueueBind(queue="dead", exchange="dlx", routing_key="#"),
    )
    everything = Properties(
        "text/plain", "utf-8", {"z": number(1), "a": text("b")}, 2, 3, "c", "r", None, "m", 7, "t"
    )
    for properties in (Properties(), everything, Properties(headers={})):
        channel.publish("q", b"body", properties, mandatory=True)
        reject(channel, "q")
        get_all(channel, "dead")
    channel.publish("q", bytes(200_000))
    reject(channel, "q", nacks=True)
    get_all(channel, "dead")


@compared
def test_many_at_once(session: Session) -> None:
    channel = session.channel()
    channel.ask(dead_lettered("q", key="dead"), QueueDeclare(queue="dead"))
    for index in range(5):
        channel.publish("q", b"%d" % index)
    channel.wait_for_counts("q", 5)
    for _ in range(5):
        channel.ask(BasicGet(queue="q"))
    channel.send(BasicNack(2, True, False), BasicNack(4, False, False), BasicNack(0, True, True))
    get_all(channel, "dead", 3)
    get_all(channel, "q", 2)


@compared
def test_keys(session: Session) -> None:
    """The queue's own key replaces the message's, and CC; without it they are heeded again."""
    channel = session.channel()
    channel.ask(
        ExchangeDeclare(exchange="dlx", type="direct"),
        dead_lettered("with", "dlx", "new"),
        dead_lettered("without", "dlx"),
        *(QueueDeclare(queue=name) for name in ("one", "two", "three")),
        QueueBind(queue="one", exchange="dlx", routing_key="new"),
        QueueBind(queue="two", exchange="dlx", routing_key="without"),
        QueueBind(queue="three", exchange="dlx", routing_key="copy"),
    )
    headers = {"CC": texts("copy", "with no queue"), "kept": number(1)}
    for name, targets in (("with", ["one"]), ("without", ["two", "three"])):
        channel.publish(name, b"1", Properties(headers=headers))
        reject(channel, name)
        for target in targets:
            get_all(channel, target)


@compared
def test_deaths_of_one_message(session: Session) -> None:
    """Twice in one queue it is counted; in another queue it is another entry."""
    channel = session.channel()
    channel.ask(dead_lettered("a", key="b"), dead_lettered("b", key="a"))
    channel.publish("a", b"1")
    for queue in ("a", "b", "a", "b"):
        reject(channel, queue)
    get_all(channel, "a")


@compared
def test_deaths_in_three_queues(session: Session) -> None:
    channel = session.channel()
    channel.ask(*(dead_lettered(name, key=key) for name, key in ("ab", "bc", "ca")))
    channel.publish("a", b"1")
    for queue in ("a", "b", "c", "a"):
        reject(channel, queue)
    get_all(channel, "b")


@compared
def test_another_reason_is_another_death(session: Session) -> None:
    channel = session.channel()
    channel.ask(
        dead_lettered("q", key="full"),
        dead_lettered("full", key="dead", x_max_length=number(0)),
        QueueDeclare(queue="dead"),
    )
    channel.publish("q", b"1")
    reject(channel, "q")
    get_all(channel, "dead")


@compared
def test_nowhere_to_go(session: Session) -> None:
    channel = session.channel()
    channel.confirm_select()
    channel.ask(
        ExchangeDeclare(exchange="dlx", type="direct"),
        dead_lettered("no-exchange", "missing"),
        dead_lettered("no-queue", "dlx"),
    )
    for queue in ("no-exchange", "no-queue"):
        channel.publish(queue, b"1", mandatory=True)
        channel.confirms(1)
        reject(channel, queue)
        channel.settled()
        channel.wait_for_counts(queue, 0)


@compared
def test_internal_and_alternate_exchanges(session: Session) -> None:
    channel = session.channel()
    channel.ask(
        ExchangeDeclare(exchange="last", type="fanout", internal=True),
        ExchangeDeclare(
            exchange="dlx",
            type="direct",
            internal=True,
            arguments={"alternate-exchange": text("last")},
        ),
        dead_lettered("q", "dlx"),
        QueueDeclare(queue="dead"),
        QueueBind(queue="dead", exchange="last"),
    )
    channel.publish("q", b"1")
    reject(channel, "q")
    get_all(channel, "dead")


@compared
def test_cycles(session: Session) -> None:
    """Nobody rejects: dropped. Somebody did: round once more, and then dropped."""
    channel = session.channel()
    channel.ask(
        dead_lettered("alone", key="alone", x_max_length=number(0)),
        dead_lettered("one", key="two", x_max_length=number(0)),
        dead_lettered("two", key="one", x_max_length=number(0)),
        dead_lettered("begin", key="one"),
    )
    for queue in ("alone", "one"):
        channel.publish(queue, b"1")
    channel.publish("begin", b"1")
    reject(channel, "begin")
    for queue in ("alone", "one", "two", "begin"):
        channel.wait_for_counts(queue, 0)


@compared
def test_expired_and_refused(session: Session) -> None:
    """An expiration is kept in the death only; a full queue that rejects may dead-letter."""
    channel = session.channel()
    channel.confirm_select()
    channel.ask(
        dead_lettered("old", key="dead", x_message_ttl=number(0)),
        dead_lettered("plain", key="dead"),
        dead_lettered(
            "full", key="dead", x_max_length=number(0), x_overflow=text("reject-publish-dlx")
        ),
        QueueDeclare(queue="dead"),
    )
    for queue, properties in (
        ("old", Properties()),
        ("old", Properties(expiration="100000")),
        ("plain", Properties(expiration="0")),
        ("plain", Properties(expiration="1", headers={"CC": texts("nowhere")})),
        ("full", Properties(expiration="1000")),
    ):
        channel.publish(queue, b"1", properties)
        channel.confirms(1)
        get_all(channel, "dead")


@compared
def test_a_cycle_of_time(session: Session) -> None:
    """A retry as many build it: rejected, then expired back into the queue; never dropped."""
    channel = session.channel()
    channel.ask(
        dead_lettered("work", key="wait"),
        dead_lettered("wait", key="work", x_message_ttl=number(1)),
    )
    channel.publish("work", b"1")
    for _ in range(3):
        reject(channel, "work")
    get_all(channel, "work")


@compared
def test_headers_that_a_client_made_up(session: Session) -> None:
    channel = session.channel()
    channel.ask(dead_lettered("q", key="dead"), QueueDeclare(queue="dead"))
    mine = {"queue": text("q"), "reason": text("rejected"), "count": Field("long", 41)}
    other = {"queue": text("other"), "reason": text("expired"), "mine": number(1)}
    for made_up in (
        text("a text"),
        Field("array", []),
        Field("array", [Field("table", mine), Field("table", other)]),
        Field("array", [Field("table", other), Field("table", mine)]),
    ):
        headers = {"x-death": made_up, "x-first-death-queue": text("made up")}
        channel.publish("q", b"1", Properties(headers=headers))
        reject(channel, "q")
        get_all(channel, "dead")


def entry(queue: str, reason: str, **more: Field) -> Field:
    return Field("table", {"queue": text(queue), "reason": text(reason), **more})


SEVEN, NINE = Field("long", 7), Field("long", 9)
ANOTHER, ITS_OWN = entry("o", "expired"), entry("q", "rejected")
MADE_UP = {
    "one of another queue": [ANOTHER],
    "one of its own": [ITS_OWN],
    "three equal of another queue": [ANOTHER] * 3,
    "three equal of its own": [ITS_OWN] * 3,
    "both in turn": [ANOTHER, ITS_OWN] * 2 + [ANOTHER],
    "with counts": [
        *(entry("o", "expired", count=count) for count in (SEVEN, NINE)),
        *(entry("q", "rejected", count=count) for count in (NINE, SEVEN)),
    ],
    "some with counts": [ANOTHER, entry("o", "expired", count=SEVEN), ITS_OWN],
    "with other fields": [entry("o", "expired", mine=number(each)) for each in (1, 2)],
    "a count of another type": [entry("q", "rejected", count=number(4))],
    "no reason": [Field("table", {"queue": text("o")})] * 2,
    "no field at all": [Field("table", {})] * 2,
    "a name of another type": [
        Field("table", {"queue": Field("binary", b"q"), "reason": text("rejected")})
    ],
    "numbers for names": [
        Field("table", {"queue": number(1)}),
        Field("table", {"queue": Field("long", 1)}),
    ],
    "void and missing": [Field("table", {"queue": Field("void", None)}), Field("table", {})],
}


def made_up(entries: list[Field]) -> Script:
    def script(session: Session) -> None:
        channel = session.channel()
        channel.ask(dead_lettered("q", key="dead"), QueueDeclare(queue="dead"))
        channel.publish("q", b"1", Properties(headers={"x-death": Field("array", entries)}))
        reject(channel, "q")
        get_all(channel, "dead")

    return script


@pytest.mark.parametrize("claim", MADE_UP)
def test_deaths_that_a_client_made_up(both: BothBrokers, claim: str) -> None:
    both.compare(f"made up: {claim}", made_up(MADE_UP[claim]))
