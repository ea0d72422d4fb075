"""The arguments of dedup windows, refused in the words that RabbitMQ has for such mistakes."""

from __future__ import annotations

import pytest
from leveret.amqp_frames.methods import QueueDeclare
from mistakes import (
    Mistake,
    assert_closes_the_channel,
    bad_argument,
    number,
    parametrized,
    text,
)
from wire import Client


@pytest.fixture
def settings() -> dict[str, object]:
    return {"dedup_window_max": 1000}


@parametrized(
    bad_argument("x-dedup-window", number(0), "{value_zero,0}"),
    bad_argument("x-dedup-window", number(-1), "{value_negative,-1}"),
    bad_argument("x-dedup-window", number(1001), "{max_value_exceeded,1001}"),
    bad_argument("x-dedup-window", text("all"), '"expected integer, got longstr"'),
    bad_argument("x-dedup-age-ms", number(0), "{value_zero,0}", x_dedup_window=number(1)),
    bad_argument("x-dedup-age-ms", number(-1), "{value_negative,-1}", x_dedup_window=number(1)),
    bad_argument(
        "x-dedup-age-ms", text("1"), '"expected integer, got longstr"', x_dedup_window=number(1)
    ),
    bad_argument(
        "x-dedup-age-ms",
        number(315_360_000_001),
        "{value_too_large,315360000001}",
        x_dedup_window=number(1),
    ),
    bad_argument("x-dedup-age-ms", number(7), "dedup_age_but_no_window_defined"),
)
def test_a_bad_argument_of_leverets_own(client: Client, mistake: Mistake) -> None:
    assert_closes_the_channel(client, mistake)


def test_the_largest_window_that_the_settings_allow_is_taken(client: Client) -> None:
    client.declare("q", arguments={"x-dedup-window": number(1000)})


@parametrized(
    Mistake(
        "x-dedup-window again otherwise",
        QueueDeclare(queue="q", arguments={"x-dedup-window": number(2)}),
        406,
        "PRECONDITION_FAILED - inequivalent arg 'x-dedup-window' for queue 'q' in vhost '/': "
        "received '2' but current is '1'",
        [QueueDeclare(queue="q", arguments={"x-dedup-window": number(1)})],
    ),
    Mistake(
        "x-dedup-age-ms again without",
        QueueDeclare(queue="q", arguments={"x-dedup-window": number(9)}),
        406,
        "PRECONDITION_FAILED - inequivalent arg 'x-dedup-age-ms' for queue 'q' in vhost '/': "
        "received none but current is the value '5' of type 'signedint'",
        [
            QueueDeclare(
                queue="q", arguments={"x-dedup-window": number(9), "x-dedup-age-ms": number(5)}
            )
        ],
    ),
)
def test_a_window_that_differs_from_the_first_declaration(client: Client, mistake: Mistake) -> None:
    assert_closes_the_channel(client, mistake)
