"""Who gives way to one more: of the address with most of them, the one that is silent longest."""

from __future__ import annotations

from collections import Counter

import pytest
from holding import object_count, parts
from hypothesis import given
from hypothesis import strategies as st
from leveret.core.connection.waiting_peers import Crowds, WaitingPeers, network_of

SILENT_SECONDS_MIN = 1.0


def waiting(*hosts: str) -> WaitingPeers[int]:
    """Sockets 0, 1, ... of these hosts, one each second."""
    peers = WaitingPeers[int](SILENT_SECONDS_MIN)
    for socket, host in enumerate(hosts):
        peers.add(socket, host, socket)
    return peers


def test_the_address_that_has_most_gives_way_by_its_oldest() -> None:
    peers = waiting("few", "many", "many", "few", "many")
    assert peers.evict("new", 4) == 1
    assert len(peers) == 4


def test_an_address_that_has_most_gives_way_to_itself() -> None:
    peers = waiting("few", "many", "many")
    assert peers.evict("many", 10) == 1


def test_a_socket_that_has_just_sent_something_does_not_give_way() -> None:
    peers = waiting("few", "many", "many")
    peers.note_progress(1, 9.5)
    peers.note_progress(2, 9.6)
    assert peers.evict("many", 10) is None
    assert peers.evict("many", 10.5) == 1
    # To another address it does.
    assert peers.evict("other", 10.5) in (0, 2)


def test_the_socket_that_sent_something_last_gives_way_last() -> None:
    peers = waiting("a", "a", "a")
    peers.note_progress(0, 5)
    assert [peers.evict("b", 9) for _ in range(3)] == [1, 2, 0]
    assert peers.evict("b", 9) is None


def test_a_socket_that_waits_for_the_broker_does_not_give_way() -> None:
    peers = waiting("many", "many", "few")
    peers.is_served(0)
    peers.is_served(1)
    assert peers.evict("new", 10) == 2
    assert peers.evict("new", 10) is None
    peers.note_progress(1, 11)
    assert peers.evict("new", 11) == 1


def test_a_socket_with_unread_bytes_is_passed_over() -> None:
    heard = {0}
    peers = WaitingPeers[int](SILENT_SECONDS_MIN, lambda socket: socket not in heard)
    for socket in range(3):
        peers.add(socket, "a", socket)
    assert peers.evict("new", 10) == 1
    heard.add(2)
    assert peers.evict("new", 10) is None
    assert len(peers) == 2


def test_the_largest_crowd_that_can_gives_way_for_all() -> None:
    crowds = Crowds()
    gone: list[tuple[str, int, str]] = []
    for name, hosts in (("small", "ab"), ("large", "cccc"), ("served", "ddddd")):
        peers = waiting(*hosts)
        crowds.add(peers, lambda socket, limit, name=name: gone.append((name, socket, limit)))
        if name == "served":
            for socket in range(5):
                peers.is_served(socket)
    assert [crowds.make_room("new", 10, "few") for _ in range(8)] == [True] * 6 + [False] * 2
    assert [name for name, *_ in gone[:2]] == ["large"] * 2
    assert gone[0] == ("large", 0, "few")


def test_a_peer_that_has_gone_does_not_count_and_may_go_twice() -> None:
    peers = waiting("a", "a", "b")
    for _ in range(2):
        peers.discard(0)
    peers.note_progress(0, 5)
    peers.is_served(0)
    assert len(peers) == 2
    assert peers.evict("c", 9) in (1, 2)
    peers.discard(1)
    peers.discard(2)
    assert (len(peers), peers.evict("c", 9)) == (0, None)


def test_a_thousand_sockets_of_one_address_leave_each_other_address_its_share() -> None:
    peers = waiting(*["attacker"] * 1000)
    for number in range(500):
        assert peers.evict(f"client {number}", 2000) == number
        peers.add(1000 + number, f"client {number}", 2000)
    # However often it comes again, it takes from itself.
    for number in range(500):
        assert peers.evict("attacker", 3000) == 500 + number
        peers.add(10_000 + number, "attacker", 3000)
    kept = set(parts(peers, str))
    assert all(f"client {number}" in kept for number in range(500))


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        ("127.0.0.1", "127.0.0.2", False),
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff::2", True),
        ("2001:db8:1:2::1", "2001:db8:1:3::1", False),
        ("::ffff:192.0.2.1", "192.0.2.1", True),
        ("::ffff:192.0.2.1", "::ffff:192.0.2.2", False),
        ("fe80::1%eth0", "fe80::2%eth1", True),
        ("::1", "127.0.0.1", False),
        ("what is this: nothing", "what is this: something", False),
    ],
)
def test_a_network_of_ipv6_counts_as_one_address(one: str, other: str, is_same: bool) -> None:
    assert (network_of(one) == network_of(other)) is is_same


HOSTS = st.sampled_from(["a", "b", "c"])


@given(st.lists(st.tuples(st.sampled_from(["add", "go", "heard", "served", "full"]), HOSTS)))
def test_no_address_with_fewer_than_another_gives_way_to_it(steps: list[tuple[str, str]]) -> None:
    peers = WaitingPeers[int](SILENT_SECONDS_MIN)
    host_of: dict[int, str] = {}
    for now, (step, host) in enumerate(steps):
        own = [socket for socket, its in host_of.items() if its == host]
        if step == "add":
            peers.add(now, host, now)
            host_of[now] = host
        elif step == "full":
            gone = peers.evict(host, now)
            counts = Counter(host_of.values())
            if gone is not None:
                its = host_of.pop(gone)
                assert its == host or counts[its] >= counts[host] + 1
        elif own:
            socket = own[0]
            if step == "go":
                peers.discard(socket)
                del host_of[socket]
            elif step == "heard":
                peers.note_progress(socket, now)
            else:
                peers.is_served(socket)
        assert len(peers) == len(host_of)
    for socket in host_of:
        peers.note_progress(socket, len(steps))
    while host_of:
        counts = Counter(host_of.values())
        gone = peers.evict("another", 2 * len(steps))
        assert gone is not None
        assert counts[host_of.pop(gone)] == max(counts.values())
    assert object_count(peers) == object_count(WaitingPeers[int](SILENT_SECONDS_MIN))
