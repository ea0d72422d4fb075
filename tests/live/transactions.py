"""Clients in tx mode, and what they look for."""

from __future__ import annotations

from collections.abc import Callable

from leveret.amqp_frames.methods import TxCommit, TxCommitOk, TxSelect, TxSelectOk
from wire import Client, methods_of

COMMIT = methods_of(1, TxCommit())


def transactional(connect: Callable[..., Client]) -> Client:
    """A client with channel 1 in tx mode, and channel 2 to look from."""
    client = connect()
    client.open_channel(1)
    client.open_channel(2)
    assert client.ask(1, TxSelect()) == TxSelectOk()
    return client


def bodies(client: Client, queue: str = "q") -> list[bytes]:
    """Take all that is ready, on channel 2."""
    found = []
    while (got := client.get(queue, no_ack=True, channel=2)) is not None:
        found.append(got.body)
    return found


def commit(client: Client) -> None:
    assert client.ask(1, TxCommit()) == TxCommitOk()
