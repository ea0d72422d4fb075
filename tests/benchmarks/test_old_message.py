"""What passes by an old message is counted, and so is the directory's size; verdicts are right."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.brokers import Leveret, running
from benchmarks.old_message import BODY, CHUNK, show_pairs, sizes


def test_messages_pass_through_beside_an_unacked_one(tmp_path: Path) -> None:
    with running(["leveret"], tmp_path) as [broker]:
        assert isinstance(broker, Leveret)
        found = sizes(broker, 2 * CHUNK * len(BODY))
    assert found.passed_bytes >= CHUNK * len(BODY)
    # At least the old message is there.
    assert found.most_bytes >= found.last_bytes > len(BODY)


def test_the_medians_of_the_pairs_decide(capsys: pytest.CaptureFixture[str]) -> None:
    def figures(rate: float, p99_ms: float) -> dict[str, float]:
        return {"rate": rate, "p99_ms": p99_ms}

    without = figures(100, 10)
    pairs = [(figures(rate, p99), without) for rate, p99 in ((95, 11), (91, 12), (20, 90))]
    assert show_pairs("check", pairs)
    assert (
        "91 confirms/s beside it, 100 without: ratio 0.91 (>= 0.9); p99 ratio 1.20 (<= 1.2) pass"
        in (capsys.readouterr().out)
    )
    assert not show_pairs("check", [(figures(89, 10), without)])
    assert not show_pairs("check", [(figures(100, 12.1), without)])
