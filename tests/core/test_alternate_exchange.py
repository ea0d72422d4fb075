"""Alternate exchanges: what no binding takes goes on to them."""

from __future__ import annotations

from leveret.amqp_frames.properties import Properties
from leveret.amqp_frames.values.field_table import table_of
from leveret.core.definitions import ReplaceExchangeArguments
from leveret.core.exchanges.table import carry_out


def alternate(name: str) -> dict[str, object]:
    return {"arguments": table_of({"alternate-exchange": name})}


def declare_queues(commands, *names: str) -> None:
    for name in names:
        commands.declare_queue(name)


def test_messages_without_a_binding_go_to_the_alternate_exchange(commands):
    commands.declare_exchange("x", "direct", **alternate("spare"))
    declare_queues(commands, "q", "saved")
    commands.bind("q", "x", "k")
    # It need not exist.
    assert commands.route("x", "other") == []
    commands.declare_exchange("spare", "fanout")
    commands.bind("saved", "spare")
    assert commands.route("x", "other") == ["saved"]
    assert commands.route("x", "k") == ["q"]
    commands.delete_exchange("spare")
    assert commands.route("x", "other") == []


def test_alternate_exchanges_have_alternates_and_may_go_round(commands):
    commands.declare_exchange("x", "direct", **alternate("y"))
    commands.declare_exchange("y", "direct", **alternate("z"))
    commands.declare_exchange("z", "direct", **alternate("x"))
    commands.declare_exchange("self", "direct", **alternate("self"))
    declare_queues(commands, "q")
    for name in ("x", "y", "z", "self"):
        assert commands.route(name) == []
    commands.bind(exchange="z")
    for name in ("x", "y", "z"):
        assert commands.route(name) == ["q"]


def test_a_binding_that_leads_nowhere_is_a_binding(commands):
    """The alternate is for what no binding takes, not for what is lost behind one."""
    commands.declare_exchange("x", "fanout", **alternate("spare"))
    commands.declare_exchange("empty", "fanout")
    commands.declare_exchange("spare", "fanout")
    declare_queues(commands, "saved")
    commands.bind("saved", "spare")
    commands.bind_exchange("empty")
    assert commands.route() == []
    commands.unbind_exchange("empty")
    assert commands.route() == ["saved"]


def test_the_alternate_of_an_exchange_on_the_way_counts(commands):
    commands.declare_exchange("x", "fanout")
    commands.declare_exchange("empty", "fanout", **alternate("spare"))
    commands.declare_exchange("spare", "fanout", internal=True)
    declare_queues(commands, "q", "saved")
    commands.bind("q", "x")
    commands.bind_exchange("empty")
    commands.bind("saved", "spare")
    assert commands.route() == ["q", "saved"]


def test_the_alternate_is_for_messages_that_none_of_several_keys_finds_a_place(commands):
    commands.declare_exchange("x", "direct", **alternate("amq.fanout"))
    declare_queues(commands, "a", "b", "saved")
    commands.bind("a", "x", "1")
    commands.bind("b", "x", "2")
    commands.bind("saved", "amq.fanout")

    def names(*keys: str) -> list[str]:
        return [
            queue.name for queue in carry_out(commands.table.route_message("x", keys, Properties()))
        ]

    assert names("1", "2", "1") == ["a", "b"]
    assert names("1", "none") == ["a"]
    assert names("none", "nobody") == ["saved"]


def test_several_keys_on_the_default_exchange_are_several_queues(commands):
    declare_queues(commands, "a", "b")
    found = carry_out(commands.table.route_message("", ("b", "none", "a", "b"), Properties()))
    assert [queue.name for queue in found] == ["b", "a"]


def test_the_default_exchange_takes_nothing_as_an_alternate(commands):
    commands.declare_exchange("x", "direct", **alternate(""))
    declare_queues(commands, "k")
    assert commands.route("x", "k") == []


def test_an_alternate_exchange_must_be_a_name(commands, refused):
    with refused(
        406,
        "PRECONDITION_FAILED - invalid type 'signedint' for arg 'alternate-exchange' "
        "in exchange 'x' in vhost '/'",
    ):
        commands.declare_exchange(arguments=table_of({"alternate-exchange": 1}))


def test_declaring_an_exchange_with_another_alternate_is_refused(commands, refused):
    commands.declare_exchange(**alternate("one"))
    commands.declare_exchange(**alternate("one"))
    with refused(
        406,
        "PRECONDITION_FAILED - inequivalent arg 'alternate-exchange' for exchange 'x' "
        "in vhost '/': received 'other' but current is 'one'",
    ):
        commands.declare_exchange(**alternate("other"))


def test_the_alternate_of_a_live_exchange_is_replaced(commands):
    exchange = commands.declare_exchange("x", "direct", **alternate("amq.fanout"))
    commands.declare_exchange("behind", "fanout")
    declare_queues(commands, "saved", "other")
    commands.bind("saved", "amq.fanout")
    commands.bind("other", "amq.topic", "#")
    commands.bind_exchange("x", "behind")
    assert commands.route("behind") == ["saved"]
    version = commands.table.version
    commands.table.apply((ReplaceExchangeArguments(exchange, alternate("amq.topic")["arguments"]),))
    assert commands.table.version > version, "channels look their routes up anew"
    assert commands.route("x") == ["other"]
    assert commands.route("behind") == ["other"]
    commands.table.apply((ReplaceExchangeArguments(exchange, {}),))
    assert commands.route("x") == []
    assert commands.table.exchange("x").is_plain
    commands.table.apply(
        (ReplaceExchangeArguments(exchange, alternate("amq.fanout")["arguments"]),)
    )
    assert commands.route("x") == ["saved"]


def test_a_new_alternate_that_looks_into_headers_has_them_read(commands):
    exchange = commands.declare_exchange("x", "direct")
    assert not commands.table.routes_each_message("x")
    commands.table.apply(
        (ReplaceExchangeArguments(exchange, alternate("amq.headers")["arguments"]),)
    )
    assert commands.table.routes_each_message("x")
