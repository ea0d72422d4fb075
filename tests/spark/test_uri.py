from __future__ import annotations

import pickle

import pytest
from leveret.spark.uri import Address, Brokers, Secret, Tls, UriError, parse_uri

LOCAL = Address("localhost", 5672)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("amqp://", Brokers((LOCAL,))),
        ("amqp://localhost", Brokers((LOCAL,))),
        ("amqp://localhost/", Brokers((LOCAL,))),
        ("AMQP://localhost:5672/%2F", Brokers((LOCAL,))),
        ("amqp://h:1/v", Brokers((Address("h", 1),), "v")),
        ("amqp://u:p@h/v%2fw", Brokers((Address("h", 5672),), "v/w", "u", Secret("p"))),
        ("amqp://u%40x:p%3a%2F%40@h", Brokers((Address("h", 5672),), "/", "u@x", Secret("p:/@"))),
        ("amqp://u@h", Brokers((Address("h", 5672),), "/", "u", Secret(""))),
        ("amqp://[::1]:99", Brokers((Address("::1", 99),))),
        ("amqp://[::1]", Brokers((Address("::1", 5672),))),
        ("amqps://h", Brokers((Address("h", 5671),), tls=Tls())),
        (
            "amqps://h?cacertfile=%2Fca.pem&certfile=c&keyfile=k",
            Brokers((Address("h", 5671),), tls=Tls("/ca.pem", "c", "k")),
        ),
    ],
)
def test_a_uri_is_read_as_rabbitmq_specifies(text: str, expected: Brokers) -> None:
    assert parse_uri(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "amqp://u:p@a:1,b:2/v",
        "amqp://u:p@a:1,amqp://b:2",
        "amqp://u:p@a:1/v, amqp://u:p@b:2/v",
        "amqp://u:p@a:1/,amqp://u@b:2/%2f",
    ],
)
def test_several_addresses_share_the_first_ones_login(text: str) -> None:
    brokers = parse_uri(text)
    assert brokers.addresses == (Address("a", 1), Address("b", 2))
    assert (brokers.user, brokers.password) == ("u", Secret("p"))


def test_partitions_are_spread_over_the_addresses_and_each_tries_all() -> None:
    a, b, c = parse_uri("amqp://a,b,c").addresses
    brokers = Brokers((a, b, c))
    assert [brokers.in_turn(partition)[0] for partition in range(4)] == [a, b, c, a]
    assert brokers.in_turn(1) == (b, c, a)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("localhost:5672", "uri must begin with amqp:// or amqps://"),
        ("http://u:secret@h", "uri must begin with amqp:// or amqps://"),
        ("amqp://h:0", "a port must be a number from 1 to 65535"),
        ("amqp://h:65536", "a port must be"),
        ("amqp://u:secret@x:secret@h:secret", "a port must be"),
        ("amqp://h:\u0663", "a port must be"),
        ("amqp://h/a/b", "more than one path segment"),
        ("amqp://[::1", "bracket is not closed"),
        ("amqp://h?certfile=x", "its scheme is amqp, not amqps"),
        ("amqps://h?verify=none", "uri parameter 'verify' is none of"),
        ("amqp://u:12?secret@h", "uri has an @ behind a / or ?"),
        ("amqp://u:12/secret@h", "uri has an @ behind a / or ?"),
        ("amqp://u:p@12?secret@h", "uri has an @ behind a / or ?"),
        ("amqp://u:secret@h,amqps://i", "uri number 2 is of another scheme than the first"),
        ("amqp://u:secret@a,amqp://v@b", "uri number 2 says another user than the first"),
        ("amqp://a,amqp://b,amqp://u:secret@c", "uri number 3 says another user than the first"),
        ("amqp://u:secret@a,amqp://u:secret2@b", "uri number 2 says another password than the"),
        ("amqp://u@a,amqp://u:secret@b", "uri number 2 says another password than the first"),
        ("amqp://a/v,amqp://b/", "uri number 2 says another vhost than the first"),
        ("amqp://a,amqp://b/v", "uri number 2 says another vhost than the first: all brokers"),
        ("amqps://a,amqps://b?certfile=x", "uri number 2 says other files for TLS than the"),
    ],
)
def test_a_uri_that_cannot_be_says_why_without_its_password(text: str, said: str) -> None:
    with pytest.raises(UriError) as caught:
        parse_uri(text)
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)


def test_no_text_of_an_address_shows_the_password_but_a_worker_gets_it() -> None:
    brokers = parse_uri("amqps://u:secret@a,b:1/v")
    assert str(brokers) == "amqps://u@a:5671,b:1/v"
    assert "secret" not in f"{brokers} {brokers!r} {brokers.password} {vars(brokers)}"
    assert pickle.loads(pickle.dumps(brokers)).password.reveal() == "secret"
