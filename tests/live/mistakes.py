"""A client's mistakes: the code and words of each, and how a test makes it.

A Mistake is a conversation: what goes well before (each method answered by its -ok), the frames
that are wrong, and the close that they bring, to the letter.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import pytest
from dashed import dashed
from leveret.amqp_frames.methods import (
    ChannelClose,
    ChannelCloseOk,
    ConnectionClose,
    ConnectionCloseOk,
    Method,
    QueueDeclare,
)
from leveret.amqp_frames.values.field_table import Field
from wire import Client, methods_of


class Mistake(NamedTuple):
    claim: str
    culprit: Method | bytes
    code: int
    text: str
    before: Sequence[Method] = ()
    # Class and method; of the culprit, if that is a method.
    ids: tuple[int, int] | None = None


def number(value: int) -> Field:
    return Field("signedint" if -(2**31) <= value < 2**31 else "long", value)


def text(value: str) -> Field:
    return Field("longstr", value)


def bad_argument(name: str, value: Field, reason: str, **others: Field) -> Mistake:
    """A declaration of q with this argument, refused for this reason."""
    arguments = {name: value} | dashed(others)
    words = f"PRECONDITION_FAILED - invalid arg '{name}' for queue 'q' in vhost '/': {reason}"
    return Mistake(
        f"{name} {value.value}", QueueDeclare(queue="q", arguments=arguments), 406, words
    )


def parametrized(*mistakes: Mistake) -> pytest.MarkDecorator:
    claims = [mistake.claim for mistake in mistakes]
    assert len(set(claims)) == len(claims)
    ids = [claim.replace(" ", "_") for claim in claims]
    return pytest.mark.parametrize("mistake", mistakes, ids=ids)


def make(client: Client, mistake: Mistake) -> tuple[int, str, int, int]:
    """Lead up to the mistake on channel 1 and make it; returns what its close must say."""
    for method in mistake.before:
        answer = client.ask(1, method)
        assert answer.name == method.name + "-ok", answer
    culprit = mistake.culprit
    if isinstance(culprit, Method):
        client.send(methods_of(1, culprit))
        class_id, method_id = mistake.ids or (culprit.class_id, culprit.method_id)
    else:
        client.send(culprit)
        class_id, method_id = mistake.ids or (0, 0)
    return mistake.code, mistake.text, class_id, method_id


def assert_closes_the_channel(client: Client, mistake: Mistake) -> None:
    """Its channel closes with exactly this, and can be opened again; the connection goes on."""
    client.open_channel(2)
    client.expect(1, ChannelClose(*make(client, mistake)))
    client.nothing_more(2)
    client.send_methods(1, ChannelCloseOk())
    client.open_channel(1)


def assert_closes_the_connection(client: Client, mistake: Mistake) -> None:
    """The connection closes with exactly this; the socket once the client has said close-ok."""
    client.expect(0, ConnectionClose(*make(client, mistake)))
    client.send_methods(0, ConnectionCloseOk())
    client.expect_closed()
