"""Permissions: every method that needs access is refused without it, and allowed with it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import leveret
import pytest
from client_frames import TRANSIENT, publish
from leveret.amqp_frames.methods import (
    BasicAck,
    BasicConsume,
    BasicGet,
    ChannelClose,
    ChannelCloseOk,
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    ExchangeUnbind,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueuePurge,
    QueueUnbind,
)
from leveret.amqp_frames.values.field_table import table_of
from leveret.commands.offline_accounts import offline_accounts
from leveret.configuration import Configuration
from leveret.open_accounts import new_password_hash
from wire import Client

CONFIGURE, WRITE, READ = "configure", "write", "read"


class Need(NamedTuple):
    """One access: what for, to what kind of thing, by what name."""

    wanted: str
    kind: str
    name: str


class Row(NamedTuple):
    claim: str
    method: Method | bytes
    needs: Sequence[Need]


Q, X, Y = Need(READ, "queue", "q"), Need(READ, "exchange", "x"), Need(WRITE, "exchange", "y")
ALTERNATE = table_of({"alternate-exchange": "y"})
DEAD_LETTER = table_of({"x-dead-letter-exchange": "y"})

ROWS = [
    Row("queue.declare", QueueDeclare(queue="q"), [Need(CONFIGURE, "queue", "q")]),
    Row("queue.declare of a new queue", QueueDeclare(queue="n"), [Need(CONFIGURE, "queue", "n")]),
    Row(
        "queue.declare with dead letters",
        QueueDeclare(queue="d", arguments=DEAD_LETTER),
        [Need(CONFIGURE, "queue", "d"), Need(READ, "queue", "d"), Y],
    ),
    Row("queue.declare passive", QueueDeclare(queue="q", passive=True), []),
    Row("queue.delete", QueueDelete(queue="gone"), [Need(CONFIGURE, "queue", "gone")]),
    Row("queue.bind", QueueBind(queue="q", exchange="x"), [Need(WRITE, "queue", "q"), X]),
    Row("queue.unbind", QueueUnbind(queue="q", exchange="x"), [Need(WRITE, "queue", "q"), X]),
    Row("queue.purge", QueuePurge(queue="q"), [Q]),
    Row("basic.get", BasicGet(queue="q"), [Q]),
    Row("basic.consume", BasicConsume(queue="q"), [Q]),
    Row(
        "exchange.declare",
        ExchangeDeclare(exchange="x", type="fanout"),
        [Need(CONFIGURE, "exchange", "x")],
    ),
    Row(
        "exchange.declare with an alternate",
        ExchangeDeclare(exchange="a", type="fanout", arguments=ALTERNATE),
        [Need(CONFIGURE, "exchange", "a"), Need(READ, "exchange", "a"), Y],
    ),
    Row("exchange.declare passive", ExchangeDeclare(exchange="x", passive=True), []),
    Row("exchange.delete", ExchangeDelete(exchange="gone"), [Need(CONFIGURE, "exchange", "gone")]),
    Row("exchange.bind", ExchangeBind(destination="y", source="x"), [Y, X]),
    Row("exchange.unbind", ExchangeUnbind(destination="y", source="x"), [Y, X]),
    Row("basic.publish", publish("k", b"", TRANSIENT, exchange="x"), [X._replace(wanted=WRITE)]),
    Row(
        "basic.publish to the default exchange",
        publish("k", b"", TRANSIENT),
        [Need(WRITE, "exchange", "amq.default")],
    ),
]
REFUSED = [(row, missing) for row in ROWS for missing in row.needs]


def user_of(row: Row, missing: Need | None = None) -> str:
    return f"{row.claim}{' without ' + missing.wanted if missing else ''}"


def patterns(needs: Sequence[Need]) -> dict[str, str]:
    """The patterns that allow exactly these, by their kind of access."""
    names = {
        wanted: [need.name for need in needs if need.wanted == wanted]
        for wanted in (CONFIGURE, WRITE, READ)
    }
    return {
        wanted: f"^({'|'.join(map(re.escape, each))})$" if each else ""
        for wanted, each in names.items()
    }


USERS = {user_of(row): patterns(row.needs) for row in ROWS} | {
    user_of(row, missing): patterns([need for need in row.needs if need != missing])
    for row, missing in REFUSED
}
USERS["generated"] = {CONFIGURE: "^amq\\.gen-", WRITE: "", READ: ""}
USERS["no generated"] = {CONFIGURE: "^q", WRITE: "", READ: ""}
USERS["toucher"] = {CONFIGURE: "", WRITE: r"^amq\.leveret\.delivery$", READ: ""}
USERS["invisible"] = {CONFIGURE: "", WRITE: "", READ: ""}


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[leveret.Broker]:
    """A broker with a user for each row, and another for each access that a row may lack."""
    directory: Path = tmp_path_factory.mktemp("data")
    configuration = Configuration(
        data_dir=directory, port=0, log_level="error", password_hash_cost=10
    )
    with offline_accounts(configuration) as offline:
        password_hash = new_password_hash("secret", 10)
        for user, allowed in USERS.items():
            offline.change("user add", {"user": user, "password_hash": password_hash, "tags": []})
            offline.change("permissions set", {"user": user, "vhost": "/"} | allowed)
    with leveret.Broker(configuration) as running:
        with Client(running.host, running.port) as guest:
            guest.log_in().open_channel(1)
            for method in (
                QueueDeclare(queue="q"),
                ExchangeDeclare(exchange="x", type="fanout"),
                ExchangeDeclare(exchange="y", type="fanout"),
            ):
                guest.ask(1, method)
            guest.close()
        yield running


@contextmanager
def logged_in(broker: leveret.Broker, user: str) -> Iterator[Client]:
    with Client(broker.host, broker.port) as client:
        client.log_in(user=user, password="secret").open_channel(1, confirms=True)
        yield client


def answer_to(client: Client, method: Method | bytes) -> Method:
    if isinstance(method, Method):
        return client.ask(1, method)
    client.send(method)
    return client.read_method(1)


def refused(need: Need, user: str, method: Method | bytes) -> ChannelClose:
    text = f"{need.wanted} access to {need.kind} '{need.name}' in vhost '/' refused for user"
    ids = (method.class_id, method.method_id) if isinstance(method, Method) else (60, 40)
    return ChannelClose(403, f"ACCESS_REFUSED - {text} '{user}'", *ids)


@pytest.mark.parametrize(
    ("row", "missing"), REFUSED, ids=[f"{row.claim}-{need.wanted}" for row, need in REFUSED]
)
def test_without_the_access_it_is_refused(broker: leveret.Broker, row: Row, missing: Need) -> None:
    user = user_of(row, missing)
    with logged_in(broker, user) as client:
        assert answer_to(client, row.method) == refused(missing, user, row.method)
        client.send_methods(1, ChannelCloseOk())
        # The channel only.
        client.open_channel(1)


@pytest.mark.parametrize("row", ROWS, ids=[row.claim for row in ROWS])
def test_with_exactly_that_access_it_is_allowed(broker: leveret.Broker, row: Row) -> None:
    with logged_in(broker, user_of(row)) as client:
        answer = answer_to(client, row.method)
        if isinstance(row.method, bytes):
            assert answer == BasicAck(1)
        elif isinstance(row.method, BasicGet):
            assert answer.name == "basic.get-empty"
        else:
            assert answer.name == f"{row.method.name}-ok"


def test_a_name_that_the_broker_gives_must_be_allowed_too(broker: leveret.Broker) -> None:
    with logged_in(broker, "generated") as client:
        answer = client.ask(1, QueueDeclare(queue="", exclusive=True))
        assert isinstance(answer, QueueDeclareOk)
        assert answer.queue.startswith("amq.gen-")
    with logged_in(broker, "no generated") as client:
        close = client.ask(1, QueueDeclare(queue="", exclusive=True))
        assert isinstance(close, ChannelClose)
        words = (
            r"ACCESS_REFUSED - configure access to queue 'amq\.gen-[\w-]{22}' in vhost '/' "
            "refused for user 'no generated'"
        )
        assert re.fullmatch(words, close.reply_text)


def test_a_command_about_a_delivery_needs_the_access_to_its_exchange(
    broker: leveret.Broker,
) -> None:
    exchange = "amq.leveret.delivery"
    properties = TRANSIENT._replace(headers=table_of({"delivery-tag": 1}))
    touch = publish("touch", b"", properties, exchange=exchange)
    with logged_in(broker, "invisible") as client:
        missing = Need(WRITE, "exchange", exchange)
        assert answer_to(client, touch) == refused(missing, "invisible", touch)
    with logged_in(broker, "toucher") as client:
        # It may; but nothing was delivered.
        text = "PRECONDITION_FAILED - unknown delivery tag 1"
        assert answer_to(client, touch) == ChannelClose(406, text, 60, 40)


def test_what_a_user_may_not_read_it_is_not_told_about(broker: leveret.Broker) -> None:
    missing = Need(READ, "queue", "never declared")
    with logged_in(broker, "invisible") as client:
        get = BasicGet(queue="never declared")
        assert client.ask(1, get) == refused(missing, "invisible", get)
    with logged_in(broker, "invisible") as client:
        frames = publish("k", b"", TRANSIENT, exchange="never declared")
        expected = refused(Need(WRITE, "exchange", "never declared"), "invisible", frames)
        assert answer_to(client, frames) == expected


def test_messages_before_the_one_that_is_refused_are_published(broker: leveret.Broker) -> None:
    row = next(row for row in ROWS if row.claim == "basic.publish")
    assert isinstance(row.method, bytes)
    with logged_in(broker, user_of(row)) as client:
        client.send(row.method, row.method, publish("q", b"", TRANSIENT))
        client.expect_acks(range(1, 3))
        missing = Need(WRITE, "exchange", "amq.default")
        client.expect(1, refused(missing, user_of(row), b""))
