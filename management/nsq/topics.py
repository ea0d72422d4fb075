"""Topics and channels made, deleted, emptied, paused: what an NSQ command or AMQP would do.

The broker's actor carries it out, and answers when it is on the disk where it is durable.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ...actors.messages import TopicAnswer, TopicCommand
from ...core.nsq.session import reason_of
from ...core.nsq.topics import (
    NoChannelError,
    NoTopicError,
    TopicAction,
    TopicUnusableError,
    is_topic,
)
from ...core.users.access import AccessRefusedError
from ..asking import ask
from ..request import Answer, ApiError
from .call import NsqRequest, channel_of, done, is_valid, refused, topic_of


async def carry_out(
    request: NsqRequest, action: TopicAction, topic: str, channel: str = ""
) -> None:
    """Have the broker do it; ApiError."""
    context, access = request.context, request.access()
    answer = await ask(
        context.runtime,
        context.broker,
        lambda me: TopicCommand(me, me, access, action, topic, channel),
    )
    assert isinstance(answer, TopicAnswer)
    error = answer.error
    if error is None:
        return
    raise _fault(error, reason_of(error))


def _fault(error: Exception, reason: str) -> ApiError:
    if isinstance(error, NoTopicError):
        return refused(404, "TOPIC_NOT_FOUND")
    if isinstance(error, NoChannelError):
        return refused(404, "CHANNEL_NOT_FOUND")
    if isinstance(error, AccessRefusedError):
        return refused(403, "FORBIDDEN", reason)
    if isinstance(error, TopicUnusableError):
        return refused(400, "INVALID_TOPIC", reason)
    return refused(503, "UNAVAILABLE", reason)


async def create_topic(request: NsqRequest) -> Answer:
    """/topic/create: also if it is there."""
    await carry_out(request, TopicAction.ENSURE_TOPIC, topic_of(request.query()))
    return done()


async def empty_topic(request: NsqRequest) -> Answer:
    """/topic/empty: what no channel has yet."""
    await carry_out(request, TopicAction.EMPTY_TOPIC, topic_of(request.query()))
    return done()


def of_topic(action: TopicAction) -> Callable[[NsqRequest], Awaitable[Answer]]:
    """A call whose topic must be there; a bad name is TOPIC_NOT_FOUND, too."""

    async def answer(request: NsqRequest) -> Answer:
        topic = request.query().get("topic")
        if topic is None:
            raise refused(400, "MISSING_ARG_TOPIC")
        if not is_valid(topic):
            raise refused(404, "TOPIC_NOT_FOUND")
        await carry_out(request, action, topic)
        return done()

    return answer


def of_channel(action: TopicAction) -> Callable[[NsqRequest], Awaitable[Answer]]:
    """A call whose topic must be there, and whose channel the action looks for, or makes."""

    async def answer(request: NsqRequest) -> Answer:
        topic, channel = channel_of(request.query())
        table = request.context.vhosts[request.settings.vhost].table
        if not is_topic(table, topic):
            raise refused(404, "TOPIC_NOT_FOUND")
        await carry_out(request, action, topic, channel)
        return done()

    return answer
