"""The ways of reading: when messages are acked, what a task reads, how pika reaches brokers."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

from pyspark.sql.datasource import InputPartition

from ..connecting import parameters
from ..options import ReadOptions

if TYPE_CHECKING:
    import pika


# Said when the broker lists its connections.
CLIENT_PROPERTIES: Final = {"connection_name": "leveret.spark source", "product": "leveret.spark"}


class Share(InputPartition):
    """The share of one task: so many messages of one queue, numbered from `first`."""

    def __init__(self, address: str, queue: str, first: int, messages: int) -> None:
        super().__init__(None)
        self.address = address
        self.queue = queue
        self.first = first
        self.messages = messages


def parameters_by_address(
    options: ReadOptions,
) -> dict[str, Callable[[], pika.ConnectionParameters]]:
    """Say by address how pika reaches each broker; every call gives parameters for one login."""
    # What pika logs at length it raises as well, and that is said in one line.
    logging.getLogger("pika").setLevel(logging.CRITICAL)
    return {
        str(address): partial(parameters, options, address, CLIENT_PROPERTIES)
        for address in options.brokers.addresses
    }
