"""A channel waits for one thing at a time, and only the listed transitions happen."""

from __future__ import annotations

import pytest
from leveret.amqp_frames.methods import BasicGet, QueueDeclare
from leveret.core.channel.waiting import State, Waiting

GET = BasicGet(queue="q")
# What leads to each state, from the beginning.
PATHS = {
    State.FREE: [],
    State.ANSWER: ["ask"],
    State.OUTLET: ["ask", "wait_for_outlet"],
    State.ROUTING: ["route_in_steps"],
    State.COMMIT: ["commit"],
    State.COMMIT_ROUTING: ["commit", "route_in_steps"],
    State.ENDED: ["end"],
}
ALLOWED = {
    State.FREE: {"ask", "route_in_steps", "commit"},
    State.ANSWER: {"ask", "answered", "wait_for_outlet"},
    State.OUTLET: {"outlet_opened"},
    State.ROUTING: {"routed"},
    State.COMMIT: {"route_in_steps", "committed"},
    State.COMMIT_ROUTING: {"routed"},
    State.ENDED: set(),
}
EVENTS = sorted(set().union(*ALLOWED.values()))


def step(waiting: Waiting, event: str) -> None:
    if event == "ask":
        waiting.ask(GET)
    else:
        getattr(waiting, event)()


def waiting_in(state: State) -> Waiting:
    waiting = Waiting()
    for event in PATHS[state]:
        step(waiting, event)
    assert waiting.state is state
    return waiting


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("event", EVENTS)
def test_only_the_listed_transitions_happen(state: State, event: str) -> None:
    waiting = waiting_in(state)
    if event in ALLOWED[state]:
        step(waiting, event)
        assert waiting.state is not State.ENDED
    else:
        with pytest.raises(AssertionError, match=f"{event} while the channel is in state"):
            step(waiting, event)
        assert waiting.state is state


@pytest.mark.parametrize("state", State)
def test_a_channel_ends_from_every_state(state: State) -> None:
    waiting = waiting_in(state)
    assert waiting.is_routing() == (state in (State.ROUTING, State.COMMIT_ROUTING))
    waiting.end()
    assert (waiting.state, waiting.method) == (State.ENDED, None)


def test_a_command_is_remembered_until_it_is_answered() -> None:
    waiting = Waiting()
    declare = QueueDeclare(queue="q", passive=True)
    waiting.ask(declare)
    waiting.ask(declare)
    assert waiting.method is declare
    waiting.answered()
    assert (waiting.method, waiting.state) == (None, State.FREE)
    waiting.ask(GET)
    waiting.wait_for_outlet()
    assert waiting.method is None
    waiting.outlet_opened()
    assert waiting.state is State.FREE


def test_a_commit_goes_on_when_a_part_of_it_is_routed() -> None:
    waiting = waiting_in(State.COMMIT_ROUTING)
    waiting.routed()
    assert waiting.state is State.COMMIT
    waiting.committed()
    assert waiting.state is State.FREE
