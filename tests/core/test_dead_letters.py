"""Dead letters: what they become, where they go, and when the original may be settled."""

from __future__ import annotations

import itertools

import pytest
from batches import batch_of
from leveret.amqp_frames.properties import Properties, decode_properties
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.dead_letters.letters import DeadLetters
from leveret.core.definitions import QueueDefinition
from leveret.core.exchanges.table import carry_out
from leveret.core.queue.span import Span
from wire import PERSISTENT, publish

TIME_SECONDS = 1_700_000_000


def published(letters: DeadLetters, *made_of):
    """What `publish` returns when all its steps are carried out."""
    return carry_out(letters.publish(*made_of))


@pytest.fixture
def letters(commands) -> DeadLetters:
    return DeadLetters({"/": commands.table}.get, itertools.count(7).__next__)


def source_of(commands, exchange: str = "dlx", key: str | None = None) -> QueueDefinition:
    arguments = {"x-dead-letter-exchange": exchange}
    if key is not None:
        arguments["x-dead-letter-routing-key"] = key
    return commands.declare_queue("source", durable=True, arguments=table_of(arguments))


def target(commands, name: str = "dead", key: str = "k") -> QueueDefinition:
    if commands.table.find_exchange("dlx") is None:
        commands.declare_exchange("dlx")
    queue = commands.declare_queue(name, durable=True)
    commands.bind(name, "dlx", key)
    return queue


def span_of(*wires: bytes, first: int = 11, stored: bool = True) -> Span:
    return Span(batch_of(*wires), range(len(wires)), first, 1, stored)


def contents(batch) -> list[tuple[str, str, Properties, bytes]]:
    """Exchange, key, properties and body of each message."""
    found = []
    for index in range(len(batch)):
        wire = batch.wire[batch.headers[index] : batch.ends[index]]
        size = int.from_bytes(wire[3:7], "big")
        key = batch.distinct[batch.keys[index]]
        exchange, routing_key = key[1 : 1 + key[0]], key[2 + key[0] : -1]
        assert key[-1] == 0
        body = wire[size + 8 + 7 : -1]
        properties = decode_properties(wire, 19, 7 + size)
        found.append((exchange.decode(), routing_key.decode(), properties, body))
    return found


def test_a_dead_letter_goes_to_the_exchange_with_its_old_key(commands, letters) -> None:
    source, dead = source_of(commands), target(commands)
    made = published(letters, source, [(span_of(publish("k", b"1", PERSISTENT)), "rejected")], 5)
    assert made.by_queue == {dead: range(1)} or list(made.by_queue[dead]) == [0]
    assert (made.batch.number, made.batch.durable) == (7, None)
    ((exchange, key, properties, body),) = contents(made.batch)
    assert (exchange, key, body) == ("dlx", "k", b"1")
    assert properties.delivery_mode == 2
    entry = properties.headers["x-death"].value[0].value
    assert entry["time"].value == 5
    assert entry["exchange"].value == ""
    assert [key.value for key in entry["routing-keys"].value] == ["k"]
    assert properties.headers["x-first-death-queue"].value == "source"


def test_the_queues_own_key_replaces_that_of_the_message_and_its_cc(commands, letters) -> None:
    source, dead = source_of(commands, key="new"), target(commands, key="new")
    headers = table_of({"CC": ["other"], "mine": 1})
    message = publish("k", b"1", Properties(headers=headers, expiration="0"))
    made = published(letters, source, [(span_of(message), "rejected")], 5)
    assert list(made.by_queue) == [dead]
    ((_, key, properties, _),) = contents(made.batch)
    assert key == "new"
    assert "CC" not in properties.headers
    assert properties.headers["mine"].value == 1
    assert properties.expiration is None
    entry = properties.headers["x-death"].value[0].value
    assert [key.value for key in entry["routing-keys"].value] == ["k", "other"]
    assert entry["original-expiration"].value == "0"


def test_without_a_key_of_its_own_those_of_cc_are_heeded_again(commands, letters) -> None:
    source = source_of(commands)
    queues = [target(commands, name, name) for name in ("a", "b", "c")][:2]
    headers = table_of({"CC": ["b", "a"]})
    made = published(
        letters, source, [(span_of(publish("a", b"1", Properties(headers=headers))), "rejected")], 5
    )
    assert list(made.by_queue) == queues
    ((_, _, properties, _),) = contents(made.batch)
    assert [key.value for key in properties.headers["CC"].value] == ["b", "a"]
    entry = properties.headers["x-death"].value[0].value
    assert [key.value for key in entry["routing-keys"].value] == ["a", "b", "a"]


@pytest.mark.parametrize("exchange", ["dlx", "missing", "amq.headers"])
def test_dead_messages_without_a_route_are_settled_at_once(commands, letters, exchange) -> None:
    target(commands, key="another")
    source = source_of(commands, exchange)
    assert published(letters, source, [(span_of(publish("k"), publish("k")), "expired")], 5) is None
    assert list(letters.settled[source]) == [11, 12]
    assert len(letters) == 0


def test_a_dead_letter_finds_its_way_by_headers_and_by_alternates(commands, letters) -> None:
    source = source_of(commands)
    alternate = table_of({"alternate-exchange": "inside"})
    commands.declare_exchange("dlx", "headers", arguments=alternate)
    commands.declare_exchange("inside", "fanout", internal=True)
    matching = commands.declare_queue("matching")
    other = commands.declare_queue("other")
    # Its new headers count, too.
    commands.bind(
        "matching", "dlx", **{"x-match": "all-with-x", "n": 1, "x-first-death-queue": "source"}
    )
    commands.bind("other", "inside")
    messages = [publish("k", b"", Properties(headers=table_of({"n": n}))) for n in (1, 2, 1)]
    made = published(letters, source, [(span_of(*messages), "rejected")], 5)
    assert {queue: list(indexes) for queue, indexes in made.by_queue.items()} == {
        matching: [0, 2],
        other: [1],
    }


def test_the_default_exchange_leads_to_the_queue_of_the_keys_name(commands, letters) -> None:
    source = source_of(commands, "", "dead")
    dead = commands.declare_queue("dead")
    made = published(letters, source, [(span_of(publish("k")), "rejected")], 5)
    assert list(made.by_queue) == [dead]


def test_an_original_is_settled_when_its_last_queue_has_the_dead_letter(commands, letters) -> None:
    source = source_of(commands)
    target(commands, "a", "k")
    target(commands, "b", "k")
    target(commands, "c", "l")
    span = span_of(publish("k"), publish("l"), publish("k"))
    made = published(letters, source, [(span, "rejected")], 5)
    told = {queue.name: (queue, list(indexes)) for queue, indexes in made.by_queue.items()}
    assert {name: indexes for name, (_, indexes) in told.items()} == {
        "a": [0, 2],
        "b": [0, 2],
        "c": [1],
    }
    a, b, c = (told[name][0] for name in "abc")
    letters.confirm(a, made.batch, told["a"][1])
    assert letters.settled == {}
    letters.confirm(c, made.batch, [1])
    assert list(letters.settled.pop(source)) == [12]
    letters.confirm(b, made.batch, [2])
    assert list(letters.settled.pop(source)) == [13]
    assert len(letters) == 1
    letters.confirm(b, made.batch, [0])
    assert list(letters.settled.pop(source)) == [11]
    assert len(letters) == 0
    # Nobody owes it any more: what is said now is nothing.
    letters.confirm(a, made.batch, [0])
    letters.failed(a, made.batch, [0])
    assert letters.settled == {}


def test_a_queue_s_answer_counts_once_and_only_for_the_letters_that_it_got(
    commands, letters
) -> None:
    source = source_of(commands)
    a, b, c = target(commands, "a"), target(commands, "b"), target(commands, "c", "l")
    made = published(letters, source, [(span_of(publish("k"), publish("k")), "rejected")], 5)
    assert letters.confirm(a, made.batch, [0]) == [0]
    # It fails and is deleted at once, and answers for all that it was told; c never was.
    assert letters.confirm(a, made.batch, [0, 1]) == [1]
    assert letters.confirm(a, made.batch, [0, 1]) == []
    assert letters.confirm(c, made.batch, [0, 1]) == []
    assert letters.failed(c, made.batch, [0, 1]) == []
    assert letters.settled == {}
    assert letters.confirm(b, made.batch, [0, 1]) == [0, 1]
    assert list(letters.settled[source]) == [11, 12]
    assert letters.stranded == []


def test_letters_that_a_failed_queue_owes_are_stranded(commands, letters) -> None:
    source = source_of(commands)
    a, b = target(commands, "a"), target(commands, "b", "l")
    first = span_of(publish("k", b"1"), publish("nowhere", b"2"), publish("l", b"3"))
    second = span_of(publish("k", b"4"), publish("k", b"5"), first=20, stored=False)
    made = published(letters, source, [(first, "rejected"), (second, "expired")], 5)
    letters.failed(a, made.batch, [0, 3])
    letters.confirm(a, made.batch, [2])
    letters.confirm(b, made.batch, [1])
    assert len(letters) == 0
    assert [(each.target, each.source) for each in letters.stranded] == [(a, source)] * 2
    found = [(each.dead[0].first_entry_id, each.dead[1]) for each in letters.stranded]
    assert found == [(11, "rejected"), (21, "expired")]
    assert [each.dead[0].stored for each in letters.stranded] == [True, False]
    again = published(letters, source, [each.dead for each in letters.stranded], 5)
    assert [body for *_, body in contents(again.batch)] == [b"1", b"5"]


def test_the_original_of_a_letter_that_a_failed_queue_owes_is_never_settled(
    commands, letters
) -> None:
    source = source_of(commands)
    a, b = target(commands, "a"), target(commands, "b")
    made = published(letters, source, [(span_of(publish("k"), publish("k")), "rejected")], 5)
    letters.failed(a, made.batch, [0])
    letters.confirm(b, made.batch, [0, 1])
    assert letters.settled == {}
    letters.confirm(a, made.batch, [1])
    assert list(letters.settled[source]) == [12]
    assert len(letters) == 0


def test_messages_that_the_journal_does_not_know_are_not_settled(commands, letters) -> None:
    source, dead = source_of(commands), target(commands)
    made = published(letters, source, [(span_of(publish("k"), stored=False), "rejected")], 5)
    letters.confirm(dead, made.batch, [0])
    assert letters.settled == {}


def test_a_cycle_is_broken_unless_a_consumer_has_rejected(commands, letters) -> None:
    source = source_of(commands, "", "source")
    assert published(letters, source, [(span_of(publish("k")), "expired")], 5) is None
    made = published(letters, source, [(span_of(publish("k")), "rejected")], 5)
    assert list(made.by_queue) == [source]
    # Told once.
    assert published(letters, source, [(span_of(publish("l")), "maxlen")], 5) is None
    assert letters.cycles == [("/", "source", "source")]


def test_messages_of_several_spans_and_reasons_are_one_batch(commands, letters) -> None:
    source, dead = source_of(commands), target(commands)
    spans = [
        (span_of(publish("k", b"1"), publish("k", b"2", PERSISTENT)), "rejected"),
        (span_of(publish("k", b"3"), first=20), "maxlen"),
    ]
    made = published(letters, source, spans, 5)
    assert list(made.by_queue[dead]) == [0, 1, 2]
    assert list(made.batch.durable) == [1]
    assert [
        (body, properties.headers["x-first-death-reason"].value)
        for _, _, properties, body in contents(made.batch)
    ] == [(b"1", "rejected"), (b"2", "rejected"), (b"3", "maxlen")]
    letters.confirm(dead, made.batch, [2])
    assert list(letters.settled[source]) == [20]


def test_a_body_of_many_frames_is_kept(commands, letters) -> None:
    source, _ = source_of(commands), target(commands)
    body = bytes(range(256)) * 64
    made = published(letters, source, [(span_of(publish("k", body)), "rejected")], 5)
    wire = made.batch.wire
    header = made.batch.headers[0]
    at = header + 8 + int.from_bytes(wire[header + 3 : header + 7], "big")
    got = b""
    while at < len(wire):
        size = int.from_bytes(wire[at + 3 : at + 7], "big")
        got += wire[at + 7 : at + 7 + size]
        at += 8 + size
    assert got == body


def test_each_key_is_a_step_and_before_the_last_nothing_is_owed_or_settled(
    commands, letters
) -> None:
    source, dead = source_of(commands), target(commands)
    commands.bind("dead", "dlx", "l")
    messages = [publish(key) for key in ("k", "nowhere", "l", "k")]
    steps = letters.publish(source, [(span_of(*messages), "expired")], 5)
    for _ in range(3):
        next(steps)
        assert (len(letters), letters.settled) == (0, {})
    made = carry_out(steps)
    assert list(made.by_queue[dead]) == [0, 1, 2]
    assert len(letters) == 3
    assert list(letters.settled[source]) == [12]
