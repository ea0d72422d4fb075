"""The queue against a list of messages: none lost, none twice, order kept, credit kept to.

Its arguments are fixed here, and Hypothesis shortens a history that fails. With arguments of every
kind, changed in mid-history, the same model is in test_queue_combinations.py.
"""

from __future__ import annotations

from random import Random

import pytest
from examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from queue_history import NARROW, History
from queue_model import Arguments

STEPS = 40


@pytest.mark.parametrize(
    "arguments",
    [{}, {"x-max-priority": 5}, {"x-single-active-consumer": True}, {"x-in-flight-timeout": 10}],
    ids=lambda arguments: ", ".join(arguments) or "none",
)
@settings(deadline=None, max_examples=examples(30))
@given(random=st.randoms(use_true_random=False))
def test_any_history_of_a_queue_is_that_of_the_model(arguments: Arguments, random: Random) -> None:
    History(random, [arguments], NARROW).run(STEPS)
