"""Routing as channels see it, through every type of exchange."""

from __future__ import annotations

import pytest
from leveret.core.exchanges.table import carry_out


def test_missing_exchange_is_refused(commands, refused):
    with refused(404, "NOT_FOUND - no exchange 'x' in vhost '/'"):
        commands.route()


def test_internal_exchange_is_refused_whatever_the_key(commands, refused):
    commands.declare_exchange(internal=True)
    commands.declare_queue()
    commands.bind()
    for key in ("k", "other"):
        with refused(
            403,
            "ACCESS_REFUSED - cannot publish to internal exchange 'x' in vhost '/'",
        ):
            commands.route(key=key)


def test_predeclared_exchanges_are_durable(commands):
    assert {
        exchange.definition.name: exchange.definition.type_name
        for exchange in commands.table.exchanges()
        if exchange.definition.durable
    } == {
        "amq.direct": "direct",
        "amq.fanout": "fanout",
        "amq.topic": "topic",
        "amq.headers": "headers",
        "amq.match": "headers",
        "amq.leveret.delivery": "direct",
        "amq.rabbitmq.trace": "topic",
    }


def test_default_exchange_routes_by_queue_name(commands):
    for name in ("a", "b"):
        commands.declare_queue(name)
    assert (commands.route("", "a"), commands.route("", "c")) == (["a"], [])
    commands.delete_queue("a")
    assert commands.route("", "a") == []


def test_direct_exchange_routes_by_the_whole_key(commands):
    for name in ("a", "b"):
        commands.declare_queue(name)
        commands.bind(name, "amq.direct", "shared.*")
    commands.bind("a", "amq.direct", "")
    assert commands.route("amq.direct", "shared.*") == ["a", "b"]
    assert commands.route("amq.direct", "") == ["a"]
    assert commands.route("amq.direct", "shared.x") == []


def test_fanout_exchange_routes_to_each_queue_once(commands):
    for name in ("a", "b"):
        commands.declare_queue(name)
        commands.bind(name, "amq.fanout", "")
    commands.bind("a", "amq.fanout", "another key")
    assert commands.route("amq.fanout", "any") == ["a", "b"]
    commands.unbind("a", "amq.fanout", "")
    assert commands.route("amq.fanout", "any") == ["a", "b"]
    commands.unbind("a", "amq.fanout", "another key")
    assert commands.route("amq.fanout", "any") == ["b"]


def test_keys_that_are_not_utf8_are_keys_like_others(commands):
    key = b"\xff\xfe".decode("utf-8", "surrogateescape")
    commands.declare_queue()
    for exchange in ("amq.direct", "amq.topic"):
        commands.bind(exchange=exchange, key=key)
        assert commands.route(exchange, key) == ["q"]


def test_version_goes_up_with_every_change(commands):
    versions = [commands.table.version]

    def note() -> None:
        versions.append(commands.table.version)

    commands.declare_exchange(auto_delete=True)
    note()
    commands.declare_queue()
    note()
    commands.bind()
    note()
    commands.unbind()
    note()
    commands.delete_queue()
    note()
    assert versions == sorted(set(versions))


@pytest.mark.parametrize("exchange", ["amq.direct", "amq.fanout", "amq.topic"])
def test_a_route_is_the_same_tuple_until_something_changes(commands, exchange):
    for name in "abc":
        commands.declare_queue(name)
        commands.bind(name, exchange)
    route = carry_out(commands.table.route(exchange, "k"))
    assert carry_out(commands.table.route(exchange, "k")) is route
    commands.delete_queue("b")
    assert commands.route(exchange) == ["a", "c"]
