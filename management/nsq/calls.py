"""The table of calls: nsqd's, and nsqlookupd's that nsqd does not have."""

from __future__ import annotations

from typing import Final

from ...actors.nsq.settings import NsqSettings
from ...core.nsq.session import NSQD_VERSION, OUTPUT_BUFFER_BYTES_MAX, OUTPUT_BUFFER_TIMEOUT_MS_MAX
from ...core.nsq.topics import TopicAction
from ..request import Answer
from . import lookup
from .call import TEXT, Call, Needs, NsqRequest, json_answer
from .publishing import publish, publish_many
from .stats import health, stats
from .topics import create_topic, empty_topic, of_channel, of_topic

_NS_PER_MS: Final = 1_000_000


async def _ping(request: NsqRequest) -> Answer:
    """OK, or 500 while publishes are not taken."""
    text = health(request.context)
    return Answer(200 if text == "OK" else 500, text.encode(), {"content-type": TEXT})


async def _info(request: NsqRequest) -> Answer:
    address, limits = request.address, request.settings.limits
    return json_answer(
        {
            "version": NSQD_VERSION,
            "broadcast_address": address.broadcast_address,
            "hostname": address.hostname,
            "http_port": address.http_port,
            "tcp_port": address.tcp_port,
            "start_time": int(request.about.started_seconds),
            "max_heartbeat_interval": limits.heartbeat_ms_max * _NS_PER_MS,
            "max_output_buffer_size": OUTPUT_BUFFER_BYTES_MAX,
            "max_output_buffer_timeout": OUTPUT_BUFFER_TIMEOUT_MS_MAX * _NS_PER_MS,
            "max_deflate_level": limits.deflate_level_max,
        }
    )


def _message_bytes_max(settings: NsqSettings) -> int:
    # A request is in memory as a whole before it is one.
    limits = settings.publish_limits
    return min(limits.message_bytes_max, limits.body_bytes_max)


def _body_bytes_max(settings: NsqSettings) -> int:
    return settings.publish_limits.body_bytes_max


def _topic(name: str, action: TopicAction) -> Call:
    return Call("POST", f"/topic/{name}", of_topic(action), Needs.VHOST)


def _channel(name: str, action: TopicAction) -> Call:
    return Call("POST", f"/channel/{name}", of_channel(action), Needs.VHOST)


CALLS: Final = (
    Call("GET", "/ping", _ping, Needs.NOTHING),
    Call("GET", "/info", _info, Needs.VHOST),
    Call("GET", "/stats", stats, Needs.MANAGEMENT),
    Call("POST", "/pub", publish, Needs.VHOST, _message_bytes_max, "MSG_TOO_BIG"),
    Call("POST", "/mpub", publish_many, Needs.VHOST, _body_bytes_max),
    Call("POST", "/topic/create", create_topic, Needs.VHOST),
    Call("POST", "/topic/empty", empty_topic, Needs.VHOST),
    _topic("delete", TopicAction.DELETE_TOPIC),
    _topic("pause", TopicAction.PAUSE_TOPIC),
    _topic("unpause", TopicAction.RESUME_TOPIC),
    _channel("create", TopicAction.ENSURE_CHANNEL),
    _channel("delete", TopicAction.DELETE_CHANNEL),
    _channel("empty", TopicAction.EMPTY_CHANNEL),
    _channel("pause", TopicAction.PAUSE_CHANNEL),
    _channel("unpause", TopicAction.RESUME_CHANNEL),
    Call("GET", "/lookup", lookup.lookup, Needs.VHOST),
    Call("GET", "/topics", lookup.topics, Needs.VHOST),
    Call("GET", "/channels", lookup.channels, Needs.VHOST),
    Call("GET", "/nodes", lookup.nodes, Needs.VHOST),
)
