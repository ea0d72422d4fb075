"""Reply texts: RabbitMQ's form, never more than a short string holds."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from leveret.amqp_frames import constants
from leveret.amqp_frames.errors import AmqpError, HardError, SoftError


def test_the_text_is_name_dash_explanation() -> None:
    error = SoftError(constants.NOT_FOUND, "no queue 'q' in vhost '/'", 50, 10)
    assert error.reply_text == "NOT_FOUND - no queue 'q' in vhost '/'"
    assert (error.reply_code, error.class_id, error.method_id) == (404, 50, 10)
    assert str(error) == "404 NOT_FOUND - no queue 'q' in vhost '/'"


def test_soft_and_hard_errors_are_amqp_errors_and_name_no_method_unless_told() -> None:
    for error in (SoftError(406, "x"), HardError(530, "x")):
        assert isinstance(error, AmqpError)
        assert (error.class_id, error.method_id) == (0, 0)


def test_a_soft_error_cannot_carry_a_code_that_closes_the_connection() -> None:
    with pytest.raises(AssertionError):
        SoftError(constants.NOT_ALLOWED, "x")


def test_a_refused_login_is_a_hard_error_with_a_soft_code() -> None:
    assert HardError(constants.ACCESS_REFUSED, "Login").reply_text == "ACCESS_REFUSED - Login"


def test_a_text_of_255_octets_is_whole_and_one_of_256_is_cut_with_dots() -> None:
    room = 255 - len("NOT_FOUND - ")
    assert SoftError(404, "x" * room).reply_text == "NOT_FOUND - " + "x" * room
    cut = SoftError(404, "x" * (room + 1)).reply_text
    assert cut == "NOT_FOUND - " + "x" * (room - 3) + "..."
    assert len(cut) == 255


@pytest.mark.parametrize("character", ["é", "€", "🐇"])
@pytest.mark.parametrize("shift", range(4))
def test_the_cut_never_splits_a_character(character: str, shift: int) -> None:
    text = SoftError(404, "x" * shift + character * 200).reply_text
    assert text.endswith(character + "...")
    assert 255 - 4 < len(text.encode()) <= 255


def test_octets_that_were_not_utf_8_show_as_question_marks() -> None:
    name = b"a\xffb".decode("utf-8", "surrogateescape")
    assert SoftError(404, f"no queue '{name}'").reply_text == "NOT_FOUND - no queue 'a?b'"


@given(st.text(st.characters(), max_size=400), st.sampled_from(sorted(constants.REPLY_NAMES)))
def test_every_explanation_gives_a_text_that_fits_a_short_string(text: str, code: int) -> None:
    assert len(HardError(code, text).reply_text.encode("utf-8")) <= 255


def test_every_reply_code_has_a_name_and_the_soft_ones_are_the_specifications() -> None:
    from pika import spec

    assert set(constants.REPLY_NAMES) == {
        code for code in vars(constants).values() if isinstance(code, int) and 311 <= code <= 541
    }
    for code, name in constants.REPLY_NAMES.items():
        assert getattr(spec, name, code) == code
        assert getattr(constants, name) == code
    assert {311, 312, 313, 403, 404, 405, 406} == constants.SOFT_REPLY_CODES
