"""nsqlookupd's calls: they name this broker as the producer of all its topics.

So clients that are configured with addresses of nsqlookupd find it. A broker that does not listen
for NSQ has topics, and is no producer of them.
"""

from __future__ import annotations

from typing import Any

from ...core.nsq.session import NSQD_VERSION
from ...core.nsq.topics import TopicParts, topics_of
from ..request import Answer
from .call import NsqRequest, is_valid, json_answer, refused


async def lookup(request: NsqRequest) -> Answer:
    """/lookup: the channels of a topic, and its producers."""
    name = _topic_name(request)
    found = await _topics(request, name) if is_valid(name) else []
    if not found:
        raise refused(404, "TOPIC_NOT_FOUND")
    return json_answer({"channels": sorted(found[0].channels), "producers": _producers(request)})


async def topics(request: NsqRequest) -> Answer:
    """/topics: all names."""
    return json_answer({"topics": [each.name for each in await _topics(request)]})


async def channels(request: NsqRequest) -> Answer:
    """/channels: those of a topic, if there is such a topic."""
    found = await _topics(request, _topic_name(request))
    return json_answer({"channels": sorted(found[0].channels) if found else []})


async def nodes(request: NsqRequest) -> Answer:
    """/nodes: this broker, with its topics."""
    producers = _producers(request)
    if producers:
        names = [each.name for each in await _topics(request)]
        producers[0] |= {"tombstones": [False] * len(names), "topics": names}
    return json_answer({"producers": producers})


def _topic_name(request: NsqRequest) -> str:
    name = request.query().get("topic")
    if name is None:
        raise refused(400, "MISSING_ARG_TOPIC")
    return name


async def _topics(request: NsqRequest, only: str | None = None) -> list[TopicParts]:
    table = request.context.vhosts[request.settings.vhost].table
    return await request.pace.carry_out(topics_of(table, only))


def _producers(request: NsqRequest) -> list[dict[str, Any]]:
    address = request.address
    if not address.tcp_port:
        return []
    return [
        {
            "remote_address": f"{address.broadcast_address}:{address.tcp_port}",
            "hostname": address.hostname,
            "broadcast_address": address.broadcast_address,
            "tcp_port": address.tcp_port,
            "http_port": address.http_port,
            "version": NSQD_VERSION,
        }
    ]
