"""Who may receive, how much, and who is next."""

from __future__ import annotations

from holding import parts
from hypothesis import given
from hypothesis import strategies as st
from leveret.core.connection.channel_credit import UNLIMITED, ChannelCredit
from leveret.core.queue.consumers import Consumer, Consumers, Line

WINDOW = 1000


def consumer(
    channel: str = "channel",
    tag: bytes = b"\1t",
    prefetch: int = 0,
    credit: ChannelCredit | None = None,
    no_ack: bool = False,
    exclusive: bool = False,
    priority: int = 0,
) -> Consumer:
    return Consumer(channel, tag, prefetch, credit or ChannelCredit(), no_ack, exclusive, priority)


def test_credit_is_the_lesser_of_the_consumers_and_its_channels() -> None:
    credit = ChannelCredit()
    limited = consumer(prefetch=5, credit=credit)
    assert limited.room() == 5
    limited.hand_over(2, 0)
    assert limited.room() == 3
    credit.set_limit(4)
    assert limited.room() == 2
    assert consumer(credit=credit).room() == 2
    consumer(credit=credit).hand_over(7, 0)
    assert limited.room() == 0
    assert consumer().room() == UNLIMITED


def test_without_acks_there_is_no_limit_while_the_channel_s_is_not_used_up() -> None:
    credit = ChannelCredit()
    credit.set_limit(2)
    free = consumer(prefetch=1, credit=credit, no_ack=True)
    credit.reserve("queue", 1)
    assert free.room() == UNLIMITED
    free.hand_over(5, 100)
    assert (credit.in_use, free.in_flight, free.window_bytes) == (1, 0, 100)
    credit.reserve("queue", 1)
    assert free.room() == 0


def test_consumers_are_known_by_channel_and_tag() -> None:
    consumers = Consumers(WINDOW)
    one, other, third = consumer("a"), consumer("b"), consumer("a", b"\1u", exclusive=True)
    for each in (one, other, third):
        consumers.add(each)
    assert (len(consumers), consumers.all()) == (3, [one, other, third])
    assert consumers.get("b", b"\1t") is other
    assert consumers.get("b", b"\1u") is None
    assert consumers.is_refused(consumer("c"))
    assert consumers.remove("b", b"\1u") is None
    assert consumers.remove("b", b"\1t") is other
    assert consumers.remove_channel("a") == [one, third]
    assert not consumers.is_refused(consumer("c", exclusive=True))
    assert consumers.next() is None


def test_a_consumer_without_room_is_passed_over_until_its_room_changes() -> None:
    consumers = Consumers(WINDOW)
    full, blocked, shared = consumer("a", prefetch=1), consumer("b"), consumer("c")
    for each in (full, blocked, shared):
        consumers.add(each)
    full.in_flight = 1
    blocked.window_bytes = WINDOW
    shared.channel_credit.set_limit(1)
    shared.channel_credit.reserve("other", 1)
    assert consumers.next() is None
    full.in_flight = 0
    consumers.changed(full)
    assert consumers.next() == (full, 1, 1)
    full.in_flight = 1
    blocked.window_bytes = WINDOW - 1
    consumers.changed(blocked)
    choice = consumers.next()
    assert choice is not None
    assert choice[0] is blocked
    blocked.window_bytes = WINDOW
    assert list(shared.channel_credit.release(1)) == [None]
    consumers.all_changed()
    choice = consumers.next()
    assert choice is not None
    assert choice[:2] == (shared, 1)


def test_a_consumer_that_holds_its_prefetch_is_not_asked_for_its_room_again() -> None:
    consumers = Consumers(WINDOW)
    one, other = consumer("a", prefetch=1), consumer("b", prefetch=2)
    for each in (one, other):
        consumers.add(each)
    assert consumers.next() == (one, 1, 2)
    one.hand_over(1, 0)
    assert one.is_full()
    consumers.filled(one)
    # Else it would wait for its socket.
    one.window_bytes = WINDOW
    assert consumers.next() == (other, 2, 1)
    other.hand_over(1, 0)
    assert not other.is_full()
    assert not one.waits_for_socket
    one.get_back(1)
    one.window_bytes = 0
    consumers.changed(one)
    assert consumers.next() == (one, 1, 2)
    consumers.remove("a", one.consumer_tag)
    consumers.filled(one)
    assert consumers.next() == (other, 1, 1)


def test_a_consumer_that_is_gone_does_not_come_back_by_a_change() -> None:
    consumers = Consumers(WINDOW)
    gone, again = consumer("a"), consumer("a")
    consumers.add(gone)
    consumers.remove("a", b"\1t")
    consumers.changed(gone)
    assert consumers.next() is None
    consumers.add(again)
    gone.in_flight = -1
    consumers.changed(gone)
    choice = consumers.next()
    assert choice is not None
    assert choice[0] is again


def test_the_highest_priority_goes_first_while_it_has_room() -> None:
    consumers = Consumers(WINDOW)
    low, high, none = (consumer(str(p), prefetch=2, priority=p) for p in (-3, 7, 0))
    for each in (low, high, none):
        consumers.add(each)
    # Busier or not: among how many it was chosen says that it shares with nobody.
    for left in (2, 1):
        assert consumers.next() == (high, left, 1)
        high.in_flight += 1
    assert consumers.next() == (none, 2, 1)
    none.window_bytes = WINDOW
    assert consumers.next() == (low, 2, 1)
    high.in_flight = 0
    consumers.changed(high)
    assert consumers.next() == (high, 2, 1)
    assert consumers.remove("7", b"\1t") is high
    assert consumers.next() == (low, 2, 1)
    consumers.add(consumer("again", priority=7))
    choice = consumers.next()
    assert choice is not None
    assert choice[0].channel == "again"


def test_room_in_a_channel_s_credit_is_its_highest_priority_s_first() -> None:
    consumers = Consumers(WINDOW)
    credit = ChannelCredit()
    credit.set_limit(2)
    credit.reserve("other", 2)
    low = consumer(tag=b"\1l", credit=credit)
    high = consumer(tag=b"\1h", credit=credit, priority=1)
    for each in (low, high):
        consumers.add(each)
    low.in_flight = high.in_flight = 1
    assert consumers.next() is None
    low.in_flight = 0
    credit.release(1)
    consumers.changed(low)
    assert consumers.next() == (high, 1, 1)


def assert_lines_are_kept_short(consumers: Consumers) -> None:
    priorities = [each.priority for each in consumers.all()]
    # One list has them in the order of their priorities.
    rows = [each for each in parts(consumers, list) if each and isinstance(each[0], Line)]
    lines: list[Line] = rows[0] if rows else []
    assert [line.priority for line in lines] == sorted({*priorities}, reverse=True)
    for line in lines:
        assert line.member_count == priorities.count(line.priority)
        # Those that wait for their turn, in a heap of places.
        assert max(map(len, parts(line, list))) <= 2 * line.member_count + 17


@given(
    st.lists(st.sampled_from((0, 0, 0, 5, -5)), min_size=5, max_size=5),
    st.lists(
        st.tuples(
            st.sampled_from(["next", "next", "less", "window", "sent", "remove", "add"]),
            st.integers(0, 4),
            st.integers(1, 5),
        ),
        max_size=80,
    ),
)
def test_the_least_busy_is_next_and_of_equals_the_one_served_longest_ago(
    priorities: list[int],
    steps: list[tuple[str, int, int]],
) -> None:
    consumers = Consumers(WINDOW)
    everyone = [
        consumer(f"channel {number}", prefetch=6, priority=priority)
        for number, priority in enumerate(priorities)
    ]
    # The model: what each served last, and in which order they came.
    served = dict.fromkeys(everyone[:3], 0)
    for each in everyone[:3]:
        consumers.add(each)
    turn = 0
    for step, number, count in steps:
        one = everyone[number]
        if step == "next":
            able = [each for each in served if each.room() > 0 and each.window_bytes < WINDOW]
            choice = consumers.next()
            assert (choice is None) == (not able)
            if choice is not None:
                chosen, room, eligible = choice
                assert chosen in able
                # The highest priority, whatever the others are: least busy and longest ago there.
                assert chosen.priority == max(each.priority for each in able)
                able = [each for each in able if each.priority == chosen.priority]
                least = min((each.in_flight, served[each]) for each in able)
                assert (chosen.in_flight, served[chosen]) == least
                assert room == chosen.room()
                assert len(able) <= eligible <= len(served)
                turn += 1
                served[chosen] = turn
                chosen.in_flight += min(count, room)
        elif step == "less":
            one.in_flight -= min(count, one.in_flight)
            consumers.changed(one)
        elif step == "window":
            one.window_bytes = WINDOW
        elif step == "sent":
            one.window_bytes = 0
            consumers.changed(one)
        elif step == "remove":
            removed = consumers.remove(one.channel, one.consumer_tag)
            assert (removed is one) == (one in served)
            served.pop(one, None)
        elif one not in served:
            served[one] = one.turn
            consumers.add(one)
        assert_lines_are_kept_short(consumers)


def test_room_in_a_channels_credit_is_looked_for_among_its_own() -> None:
    consumers = Consumers(WINDOW)
    credits = [ChannelCredit() for _ in range(3)]
    for number, credit in enumerate(credits):
        credit.set_limit(1)
        credit.reserve("other", 1)
        for tag in (b"\1t", b"\1u"):
            consumers.add(consumer(f"channel {number}", tag, credit=credit))
    assert consumers.next() is None
    for credit in credits[1:]:
        assert list(credit.release(1)) == [None]
    consumers.channel_changed("channel 1")
    choice = consumers.next()
    assert choice is not None
    assert (choice[0].channel, choice[1:]) == ("channel 1", (1, 2))
    credits[1].reserve(None, 1)
    assert consumers.next() is None
    consumers.channel_changed("channel 2")
    choice = consumers.next()
    assert choice is not None
    assert choice[0].channel == "channel 2"
    for tag in (b"\1t", b"\1u"):
        consumers.remove("channel 2", tag)
    consumers.channel_changed("channel 2")
    assert consumers.next() is None
