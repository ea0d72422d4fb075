"""The benchmark of the codec measures each form that there is."""

from __future__ import annotations

from leveret.amqp_frames.compiled import FORM

from benchmarks.codec_cost import compared


def test_every_stage_has_a_figure_in_each_form() -> None:
    found = compared(1)
    assert set(found) == {FORM, "pure Python"}
    for costs in found.values():
        assert len(costs) > 10
        assert all(cost > 0 for cost in costs.values())
