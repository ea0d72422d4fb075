from __future__ import annotations

from leveret.core.connection.draining import Draining


def test_the_connection_that_was_closed_first_gives_way_to_one_too_many() -> None:
    draining = Draining[str](sockets_max=2, timeout_ms=30_000)
    assert [draining.add(name) for name in ("a", "b", "c", "d")] == [None, None, "a", "b"]
    assert len(draining) == 2


def test_a_connection_whose_client_has_gone_makes_no_other_give_way() -> None:
    draining = Draining[str](sockets_max=2, timeout_ms=30_000)
    draining.add("a")
    draining.add("b")
    draining.discard("a")
    draining.discard("a")
    assert draining.add("c") is None
    assert [draining.oldest() for _ in range(3)] == ["b", "c", None]
