"""Which access a method needs where it is more than the live tests can tell apart."""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest
from leveret.amqp_frames.errors import SoftError
from leveret.amqp_frames.methods import (
    ExchangeBind,
    ExchangeDeclare,
    ExchangeDelete,
    Method,
    QueueBind,
    QueueDeclare,
    QueueDelete,
)
from leveret.core.topology.topology import Topology, needed_access
from leveret.core.users.access import Access
from leveret.core.users.accounts import Accounts, Permission, PutPermission


def access_of(configure: str = "", write: str = "", read: str = "") -> Access:
    accounts = Accounts()
    accounts.apply([PutPermission(Permission("ann", "/", configure, write, read))])
    return Access(accounts, "ann", Topology(itertools.count(1).__next__, bytes))


def check_permitted(access: Access, method: Method) -> None:
    for needed in needed_access(method):
        access.check(*needed)


def refusal(access: Access, method: Method) -> str:
    with pytest.raises(SoftError) as caught:
        check_permitted(access, method)
    return caught.value.reply_text.removeprefix("ACCESS_REFUSED - ")


@pytest.mark.parametrize(
    "method",
    [
        QueueDeclare(queue="q", passive=True),
        ExchangeDeclare(exchange="x", type="direct", passive=True),
        # Topology refuses these for what they are, as RabbitMQ does before it asks who is there.
        QueueDeclare(queue="amq.q"),
        ExchangeDeclare(exchange="", type="direct"),
        ExchangeDeclare(exchange="x", type="unknown"),
        ExchangeDelete(exchange=""),
        ExchangeDelete(exchange="amq.direct"),
    ],
)
def test_commands_that_are_refused_for_another_reason_need_no_permission(method: Method) -> None:
    check_permitted(access_of(), method)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda name: QueueDeclare(queue=name), "configure access to queue 'a'"),
        (lambda name: QueueDelete(queue=name), "configure access to queue 'a'"),
        (
            lambda name: ExchangeDeclare(exchange=name, type="direct"),
            "configure access to exchange 'a'",
        ),
        (lambda name: ExchangeDelete(exchange=name), "configure access to exchange 'a'"),
        (lambda name: QueueBind(queue=name), "write access to queue 'a'"),
        (lambda name: ExchangeBind(destination=name), "write access to exchange 'a'"),
    ],
)
def test_names_are_looked_at_without_their_line_breaks(
    make: Callable[[str], Method], named: str
) -> None:
    expected = f"{named} in vhost '/' refused for user 'ann'"
    assert refusal(access_of(), make("\na\r")) == expected


def test_a_binding_is_asked_for_its_destination_first() -> None:
    bind = QueueBind(queue="q", exchange="x")
    assert refusal(access_of(), bind).startswith("write access to queue 'q'")
    assert refusal(access_of(write="q"), bind).startswith("read access to exchange 'x'")
    check_permitted(access_of(write="q", read="x"), bind)


def test_a_binding_from_the_default_exchange_is_left_to_be_refused_for_that() -> None:
    check_permitted(access_of(write="q"), QueueBind(queue="q", exchange=""))


def test_a_reserved_exchange_is_configured_before_its_name_is_refused() -> None:
    declare = ExchangeDeclare(exchange="amq.mine", type="direct")
    assert refusal(access_of(), declare).startswith("configure access to exchange 'amq.mine'")
