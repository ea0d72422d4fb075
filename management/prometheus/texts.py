"""The text that a scrape gets; about many queues, one text serves all who ask within a moment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from typing import Final

from prometheus_client import Metric

from ...actors.messages import AskLoginAttempts, LoginAttemptsAnswer
from ...core.users.login_attempts import LoginCounts
from ..asking import ask
from ..pace import Pace
from ..snapshots import SNAPSHOT_ROWS_MIN, Body
from . import channels, messages, node, own, queues
from .asked import Asked, Form, Source
from .exposition import exposed

# Parts of a body: as many bytes as are written in one go.
_PART_BYTES_MIN: Final = 8192


class MetricTexts:
    """The texts of one node; `default_form` is what a client gets that does not ask for another.

    About many queues they are at most `age_seconds` old.
    """

    def __init__(self, source: Source, pace: Pace, default_form: Form, age_seconds: float) -> None:
        self._age_seconds = age_seconds
        self.default_form = default_form
        self._source = source
        self._pace = pace
        self._kept: dict[Asked, tuple[float, asyncio.Task[Body]]] = {}

    async def text(self, asked: Asked) -> Body:
        """The metrics that are asked for; that were made a moment ago, about many queues."""
        now = time.monotonic()
        self._kept = {
            each: kept for each, kept in self._kept.items() if kept[0] > now - self._age_seconds
        }
        queue_count = sum(len(each.table.queues()) for each in self._source.context.vhosts)
        if queue_count < SNAPSHOT_ROWS_MIN:
            return await self._make(asked)
        kept = self._kept.get(asked)
        if kept is None:
            kept = self._kept[asked] = now, asyncio.create_task(self._make(asked))
        # A client that goes away takes the text from nobody.
        return await asyncio.shield(kept[1])

    async def _make(self, asked: Asked) -> Body:
        source = self._source
        process = await asyncio.to_thread(node.of_process)
        logins = await _logins(source)
        of_channels = await channels.reports(source, asked, self._pace)

        def steps() -> Generator[None, None, Body]:
            metrics: list[Metric] = node.metrics(source, asked, process)
            metrics += yield from queues.metrics(source, asked)
            metrics += yield from channels.metrics(source, asked, of_channels)
            metrics += messages.metrics(source, asked, logins)
            metrics += own.metrics(source, asked)
            parts = yield from exposed(metrics)
            return Body((yield from _joined(parts)))

        return await self._pace.carry_out(steps())


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
