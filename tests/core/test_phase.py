"""A connection is in one phase, and only the listed transitions happen."""

from __future__ import annotations

import pytest
from leveret.core.connection.phase import ConnectionPhase, Phase

# What leads to each phase, from the first byte.
OPENED = ["start", "log_in", "tune", "settle_limits", "open"]
PATHS = {
    Phase.HEADER: [],
    Phase.STARTING: OPENED[:1],
    Phase.SECURING: OPENED[:2],
    Phase.TUNING: OPENED[:3],
    Phase.OPENING: OPENED[:4],
    Phase.RUNNING: OPENED,
    Phase.CLOSING: [*OPENED, "close"],
    Phase.CLIENT_CLOSING: [*OPENED, "close_for_client"],
    Phase.DRAINING: [*OPENED, "close_for_client", "drain"],
    Phase.ENDED: ["end"],
}
ALLOWED = {
    Phase.HEADER: {"start"},
    Phase.STARTING: {"log_in", "close"},
    Phase.SECURING: {"tune", "close"},
    Phase.TUNING: {"settle_limits", "close"},
    Phase.OPENING: {"open", "close"},
    Phase.RUNNING: {"close", "close_for_client"},
    Phase.CLOSING: set(),
    Phase.CLIENT_CLOSING: {"drain"},
    Phase.DRAINING: set(),
    Phase.ENDED: set(),
}
EVENTS = sorted(set().union(*ALLOWED.values()))


def phase_at(now: Phase) -> ConnectionPhase:
    phase = ConnectionPhase()
    for event in PATHS[now]:
        getattr(phase, event)()
    assert phase.now is now
    return phase


@pytest.mark.parametrize("now", Phase)
@pytest.mark.parametrize("event", EVENTS)
def test_only_the_listed_transitions_happen(now: Phase, event: str) -> None:
    phase = phase_at(now)
    if event in ALLOWED[now]:
        getattr(phase, event)()
        assert phase.now is not now
    else:
        with pytest.raises(AssertionError, match=f"{event} while the connection is {now.value}"):
            getattr(phase, event)()
        assert phase.now is now


@pytest.mark.parametrize("now", Phase)
def test_a_connection_ends_from_every_phase(now: Phase) -> None:
    phase = phase_at(now)
    phase.end()
    assert phase.now is Phase.ENDED


def test_each_phase_is_before_open_or_running_or_ending() -> None:
    handshake = {Phase.STARTING, Phase.SECURING, Phase.TUNING, Phase.OPENING}
    assert {now for now in Phase if phase_at(now).is_handshake()} == handshake
    before = {now for now in Phase if phase_at(now).is_before_open()}
    assert before == handshake | {Phase.HEADER}
    ending = {now for now in Phase if phase_at(now).is_ending()}
    assert ending == set(Phase) - before - {Phase.RUNNING}
    drained = {now for now in Phase if phase_at(now).awaits_close_ok()}
    assert drained == {Phase.CLOSING, Phase.DRAINING}
