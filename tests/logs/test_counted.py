from __future__ import annotations

import pytest
from leveret.logs.counted import counted


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, "0 events"), (1, "1 event"), (2, "2 events"), (1000, "1,000 events")],
)
def test_one_is_singular_and_all_else_plural(count: int, expected: str) -> None:
    assert counted(count, "event") == expected


def test_a_plural_of_its_own_is_used_as_it_is() -> None:
    assert counted(1, "publish", "publishes") == "1 publish"
    assert counted(3, "publish", "publishes") == "3 publishes"
