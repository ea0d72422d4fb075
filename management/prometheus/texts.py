"""The text that a scrape gets; about many queues, one text serves all who ask within a moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from typing import Final

from prometheus_client import Metric

from ...actors.messages import AskLoginAttempts, LoginAttemptsAnswer
from ...core.users.login_attempts import LoginCounts
from ..asking import ask
from ..snapshots import SNAPSHOT_ROWS_MIN, Body, Snapshots
from . import channels, messages, node, own, queues
from .asked import Asked, Form, Source
from .exposition import exposed

# Parts of a body: as many bytes as are written in one go.
_PART_BYTES_MIN: Final = 8192


class MetricTexts:
    """The texts of one node; `default_form` is what a client gets that does not ask for another.

    About many queues they are kept as long lists are, and are as old at most.
    """

    def __init__(self, source: Source, snapshots: Snapshots, default_form: Form) -> None:
        self.default_form = default_form
        self._source = source
        self._snapshots = snapshots

    async def text(self, asked: Asked) -> Body:
        """The metrics that are asked for; that were made a moment ago, about many queues."""

        def make() -> Awaitable[Body]:
            return self._make(asked)

        queue_count = sum(len(each.table.queues()) for each in self._source.context.vhosts)
        if queue_count < SNAPSHOT_ROWS_MIN:
            return await make()
        return await self._snapshots.recent(("metrics", asked), None, make)

    async def _make(self, asked: Asked) -> Body:
        source, pace = self._source, self._snapshots.pace
        process = await asyncio.to_thread(node.of_process)
        logins = await _logins(source)
        of_channels = await channels.reports(source, asked, pace)

        def steps() -> Generator[None, None, Body]:
            metrics: list[Metric] = yield from node.metrics(source, asked, process)
            metrics += yield from queues.metrics(source, asked)
            metrics += yield from channels.metrics(source, asked, of_channels)
            yield
            metrics += messages.metrics(source, asked, logins)
            yield
            metrics += own.metrics(source, asked)
            yield
            parts = yield from exposed(metrics)
            return Body((yield from _joined(parts)))

        return await pace.carry_out(steps())


async def _logins(source: Source) -> dict[str, LoginCounts]:
    context = source.context
    answer = await ask(context.runtime, context.logins, AskLoginAttempts)
    assert isinstance(answer, LoginAttemptsAnswer)
    return answer.counts


def _joined(parts: list[bytes]) -> Generator[None, None, list[bytes]]:
    """Fewer and longer ones."""
    joined: list[bytes] = []
    size, begin = 0, 0
    for at, part in enumerate(parts, 1):
        size += len(part)
        if size >= _PART_BYTES_MIN or at == len(parts):
            joined.append(b"".join(parts[begin:at]))
            size, begin = 0, at
            yield
    return joined
