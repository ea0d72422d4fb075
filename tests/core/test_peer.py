"""The names in a client's certificate, in RabbitMQ's words."""

from __future__ import annotations

import pytest
from leveret.core.connection.peer import Peer, Subject, common_name, distinguished_name

ORGANIZED: Subject = (
    (("countryName", "NO"),),
    (("organizationName", "Hare, Leveret & Co"),),
    (("commonName", "backup"),),
)


def test_the_distinguished_name_has_the_last_part_first() -> None:
    assert distinguished_name(ORGANIZED) == "CN=backup,O=Hare\\, Leveret & Co,C=NO"


def test_the_common_name_is_that_alone() -> None:
    assert common_name(ORGANIZED) == "backup"


def test_several_common_names_are_joined() -> None:
    assert common_name(((("commonName", "a"),), (("commonName", "b"),))) == "a,b"


def test_a_subject_without_a_name_names_nobody() -> None:
    assert common_name(((("organizationName", "o"),),)) == ""
    assert (common_name(()), distinguished_name(())) == ("", "")


def test_parts_that_belong_together_are_joined_by_plus() -> None:
    assert distinguished_name(((("commonName", "a"), ("userId", "b")),)) == "CN=a+UID=b"


def test_an_attribute_without_a_short_name_keeps_its_own() -> None:
    assert distinguished_name(((("1.2.3.4", "x"),),)) == "1.2.3.4=x"


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (" x ", "\\ x\\ "),
        ("#x#", "\\#x#"),
        ('a"b+c;d<e>f\\g', 'a\\"b\\+c\\;d\\<e\\>f\\\\g'),
        ("\n", "\\0A"),
        ("ä~", "\\C3\\A4\\7E"),
    ],
)
def test_characters_with_a_meaning_are_escaped(value: str, shown: str) -> None:
    assert distinguished_name(((("commonName", value),),)) == f"CN={shown}"


def test_the_host_is_the_name_without_its_port() -> None:
    assert Peer("::1:5672").host == "::1"
