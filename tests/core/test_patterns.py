"""Patterns of permissions: what fits, what is refused, and that no search takes long."""

from __future__ import annotations

import time

import pytest
from leveret.core.patterns import (
    PATTERN_CHARACTERS_MAX,
    PatternError,
    check_pattern,
    compiled_pattern,
)
from leveret.core.users.access import fits

# A matcher that tries again takes years for the first of these.
SLOW = [
    ("^(a|a)*$", "a" * 254 + "!"),
    ("^(a+)+$", "a" * 254 + "!"),
    ("^(([a-z])+.)+[A-Z]([a-z])+$", "a" * 255),
    ("(a?){500}a{500}", "a" * 255),
    (".*" * 1000 + "x", "a" * 255),
    ("(" * 2000 + "a" + ")" * 2000, "b" * 255),
]
SECONDS_MAX = 5.0


@pytest.mark.parametrize(("pattern", "name"), SLOW, ids=[pattern[:20] for pattern, _ in SLOW])
def test_no_pattern_takes_long_to_be_searched_for(pattern: str, name: str) -> None:
    begun = time.perf_counter()
    check_pattern(pattern)
    assert not fits(compiled_pattern(pattern), name)
    assert time.perf_counter() - begun < SECONDS_MAX


@pytest.mark.parametrize(
    ("pattern", "name", "is_found"),
    [
        ("", "", True),
        ("", "q", False),
        ("^q$", "q", True),
        ("^q$", "qq", False),
        ("é", "été", True),
        # Octets, as in RabbitMQ: this letter has two.
        ("^.$", "é", False),
        ("^..$", "é", True),
        # Not UTF-8 at all, as a short string may be.
        ("^.q", "\udcffq", True),
        ("(?i)^ORDERS", "orders.new", True),
        (r"^amq\.gen-[\w-]{22}$", "amq.gen-" + "x" * 22, True),
    ],
)
def test_a_pattern_is_searched_for_among_the_octets_of_a_name(
    pattern: str, name: str, is_found: bool
) -> None:
    check_pattern(pattern)
    assert fits(compiled_pattern(pattern), name) == is_found


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("(", "missing ): ("),
        ("(?=q)", "invalid perl operator: (?="),
        ("((a{1000}){1000}){1000}", "invalid repetition size"),
        ("a" * (PATTERN_CHARACTERS_MAX + 1), "at most 4096 characters"),
    ],
)
def test_an_unusable_pattern_is_refused_with_the_reason(pattern: str, reason: str) -> None:
    with pytest.raises(PatternError) as refused:
        check_pattern(pattern)
    assert reason in str(refused.value)


def test_a_stored_pattern_that_cannot_be_read_fits_nothing() -> None:
    assert not fits(compiled_pattern("(?!amq)"), "q")
