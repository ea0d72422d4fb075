"""Faults of an expiration, in RabbitMQ's words."""

from __future__ import annotations

import pytest
from leveret.core.publishing.properties import expiration_fault


@pytest.mark.parametrize(
    ("expiration", "fault"),
    [
        ("", "no_integer"),
        ("abc", "no_integer"),
        (" 1", "no_integer"),
        ("-", "no_integer"),
        ("10x", '{leftover_string,"x"}'),
        ("10.5", '{leftover_string,".5"}'),
        ("-1", "{value_negative,-1}"),
        ("315360000001", "{value_too_large,315360000001}"),
        ("315360000000", None),
        ("+5", None),
        ("0", None),
    ],
)
def test_an_expiration_is_refused_with_rabbitmq_s_reason(
    expiration: str, fault: str | None
) -> None:
    assert expiration_fault(expiration) == fault
