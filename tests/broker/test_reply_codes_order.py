"""Of several mistakes in one publish, the one that RabbitMQ looks for first is told.

The order of SEMANTICS, "Confirm and mandatory", 2a: each publish here makes one mistake and all
that are looked for behind it.
"""

from __future__ import annotations

from collections.abc import Iterator

import leveret
import pytest
from leveret.amqp_frames.methods import ExchangeDeclare, ExchangeDeclareOk
from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import Field
from leveret.commands.control_client import ask_broker
from leveret.open_accounts import new_password_hash
from mistakes import (
    Mistake,
    assert_closes_the_channel,
    assert_closes_the_connection,
    parametrized,
)
from replies import REPLY_TO
from wire import Client, publish

PUBLISH = (60, 40)
ANOTHER_USER = Properties(user_id="other")
NO_KEYS = ANOTHER_USER._replace(headers={"CC": Field("longstr", "k")})
NO_TIME = NO_KEYS._replace(expiration="abc")
NO_REPLIES = NO_TIME._replace(reply_to=REPLY_TO)
ALL = NO_REPLIES
LARGE = bytes(21)


@pytest.fixture
def settings() -> dict[str, object]:
    return {"message_size_max_bytes": 20}


@pytest.fixture
def client(broker: leveret.Broker) -> Iterator[Client]:
    """Logged in as one who may write to some exchanges only, one of which is internal."""
    data_dir = broker.configuration.data_dir
    user = {"user": "narrow", "password_hash": new_password_hash("secret", 10)}
    ask_broker(data_dir, "user add", user | {"tags": []})
    allowed = {"configure": ".*", "write": "^(amq.topic|inside|missing)$", "read": ""}
    ask_broker(data_dir, "permissions set", {"user": "narrow", "vhost": "/"} | allowed)
    with Client(broker.host, broker.port) as connected:
        connected.log_in(user="narrow", password="secret").open_channel(1, confirms=True)
        inside = ExchangeDeclare(exchange="inside", internal=True)
        assert connected.ask(1, inside) == ExchangeDeclareOk()
        yield connected


def mistake(claim: str, culprit: bytes, code: int, text: str) -> Mistake:
    return Mistake(claim, culprit, code, text, ids=PUBLISH)


def test_immediate_comes_before_all(client: Client) -> None:
    culprit = publish("k", LARGE, ALL, exchange="denied", immediate=True)
    first = mistake("", culprit, 540, "NOT_IMPLEMENTED - immediate=true")
    assert_closes_the_connection(client, first)


@parametrized(
    mistake(
        "size",
        publish("k", LARGE, ALL, exchange="denied"),
        406,
        "PRECONDITION_FAILED - message size 21 is larger than configured max size 20",
    ),
    mistake(
        "permission",
        publish("k", b"", ALL, exchange="denied"),
        403,
        "ACCESS_REFUSED - write access to exchange 'denied' in vhost '/' refused for user 'narrow'",
    ),
    mistake(
        "exchange",
        publish("k", b"", ALL, exchange="missing"),
        404,
        "NOT_FOUND - no exchange 'missing' in vhost '/'",
    ),
    mistake(
        "internal",
        publish("k", b"", ALL, exchange="inside"),
        403,
        "ACCESS_REFUSED - cannot publish to internal exchange 'inside' in vhost '/'",
    ),
    mistake(
        "reply-to",
        publish("k", b"", NO_REPLIES, exchange="amq.topic"),
        406,
        "PRECONDITION_FAILED - fast reply consumer does not exist",
    ),
    mistake(
        "expiration",
        publish("k", b"", NO_TIME, exchange="amq.topic"),
        406,
        "PRECONDITION_FAILED - invalid expiration 'abc': no_integer",
    ),
    mistake(
        "message",
        publish("k", b"", NO_KEYS, exchange="amq.topic"),
        406,
        'PRECONDITION_FAILED - invalid message: {unacceptable_type_in_header,"CC",longstr}',
    ),
    mistake(
        "user-id",
        publish("k", b"", ANOTHER_USER, exchange="amq.topic", mandatory=True),
        406,
        "PRECONDITION_FAILED - user_id property set to 'other' but authenticated user was 'narrow'",
    ),
)
def test_the_others_come_in_their_order(client: Client, mistake: Mistake) -> None:
    assert_closes_the_channel(client, mistake)
