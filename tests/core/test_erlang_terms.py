"""Values as Erlang prints them."""

from __future__ import annotations

import pytest
from leveret.amqp_frames.values.field_table import Field, field_of
from leveret.core.erlang_terms import erlang_plain, erlang_term


@pytest.mark.parametrize(
    ("field", "term", "plain"),
    [
        (5, "5", "5"),
        (-1.5, "-1.5", "-1.5"),
        (True, "true", "true"),
        (None, "undefined", "undefined"),
        ("text", '<<"text">>', "text"),
        ("", "<<>>", ""),
        ('"\\\n', '<<"\\"\\\\\\n">>', '"\\\n'),
        ("é", '<<"é">>', "é"),
        # Octets that Latin-1 does not print.
        ("兔", "<<229,133,148>>", "兔"),
        (b"\x00\x7f", "<<0,127>>", "\x00\x7f"),
        (b"octets", '<<"octets">>', "octets"),
        (Field("longstr", b"\xff"), '<<"\udcff">>', "\udcff"),
        (Field("decimal", (2, 314)), "{2,314}", "{2,314}"),
        ([1, "a"], '[{signedint,1},{longstr,<<"a">>}]', '[{signedint,1},{longstr,<<"a">>}]'),
        ({"a": 1}, '[{<<"a">>,signedint,1}]', '[{<<"a">>,signedint,1}]'),
        ([], "[]", "[]"),
    ],
)
def test_terms(field, term, plain):
    value = field_of(field).value
    assert (erlang_term(value), erlang_plain(value)) == (term, plain)
