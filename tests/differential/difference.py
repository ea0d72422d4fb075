"""A place where the answers of the two brokers differ, and may."""

from __future__ import annotations

from typing import NamedTuple


class Difference(NamedTuple):
    """In the transcript of this script, these lines of RabbitMQ's are those of Leveret's."""

    script: str
    row: str
    rabbitmq: list[str]
    leveret: list[str]
