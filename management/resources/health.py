"""RabbitMQ's health checks, and the aliveness test: 200 with "ok", or 503 and why not."""

from __future__ import annotations

import asyncio
import ssl
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final

from ...amqp_frames.methods import (
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicPublish,
    QueueDeclare,
    QueueDeclareOk,
)
from ...amqp_frames.properties import Properties
from ...core.alarms import Resource
from ..direct import AmqpRefusedError, Content, connect
from ..request import Action, Answer, Request, Tag, bad_request
from .topology import refusal

_OK: Final = {"status": "ok"}
_ALIVENESS_QUEUE: Final = "aliveness-test"
_DAYS: Final = {"days": 1, "weeks": 7, "months": 30, "years": 365}


def _failed(reason: str, **more: object) -> Answer:
    return Answer(503, {"status": "failed", "reason": reason, **more})


async def _aliveness(request: Request) -> Answer:
    """Publish a message and fetch it again, by a queue that stays."""
    context, vhost = request.context, request.names["vhost"]
    try:
        async with connect(context, request.user.name, request.peer_host, vhost) as connection:
            await connection.call(QueueDeclare(queue=_ALIVENESS_QUEUE), QueueDeclareOk)
            method = BasicPublish(routing_key=_ALIVENESS_QUEUE)
            connection.send(method, Content(Properties(), b"test_message"))
            get = BasicGet(queue=_ALIVENESS_QUEUE, no_ack=True)
            answer = await connection.call(get, BasicGetOk, BasicGetEmpty)
    except AmqpRefusedError as refused:
        raise refusal(refused) from None
    if isinstance(answer, BasicGetEmpty):
        return _failed("the message did not come back")
    return Answer(200, _OK)


async def _alarms(where: str, request: Request) -> Answer:
    alarms = request.context.alarms
    if not alarms.reason:
        return Answer(200, _OK)
    # One alarm fails the check; of two alarms the answer names that of memory.
    low = Resource.MEMORY if alarms.is_low(Resource.MEMORY) else Resource.DISK
    alarm = {"node": request.about.node_name, "resource": low.value}
    return _failed(f"There are alarms in effect {where}", alarms=[alarm])


async def _port(request: Request) -> Answer:
    text = request.names["port"]
    if not text.isdecimal():
        raise bad_request("Invalid port")
    port = int(text)
    ports = [each.port for each in request.about.listeners]
    if port in ports:
        return Answer(200, {**_OK, "port": port})
    return _failed("No active listener", missing=port, ports=ports)


async def _protocol(request: Request) -> Answer:
    wanted = request.names["protocol"]
    protocols = [each.protocol for each in request.about.listeners]
    if _protocol_name(wanted) in protocols:
        return Answer(200, {**_OK, "protocol": wanted})
    return _failed("No active listener", missing=wanted, protocols=protocols)


def _protocol_name(name: str) -> str:
    """What the listener is called: RabbitMQ knows several names of a protocol."""
    lower = name.lower()
    others = {"amqp091": "amqp", "amqp0.9.1": "amqp", "amqps": "amqp/ssl", "management": "http"}
    return others.get(lower, lower)


async def _virtual_hosts(_request: Request) -> Answer:
    """All of them are there from the start on."""
    return Answer(200, _OK)


async def _certificates(request: Request) -> Answer:
    within, unit = request.names["within"], request.names["unit"]
    if unit not in _DAYS:
        supported = ", ".join(_DAYS)
        raise bad_request(f"Time unit not recognised. Supported units: {supported}.")
    if not within.isdecimal():
        raise bad_request("Invalid expiration value.")
    path = request.about.certificate_path
    if not path:
        return Answer(200, _OK)
    expires = await asyncio.to_thread(_expiry_of, path)
    days = (expires - datetime.now(UTC)).days
    if days >= int(within) * _DAYS[unit]:
        return Answer(200, _OK)
    tls = [each for each in request.about.listeners if each.protocol == "amqp/ssl"]
    expired = [
        {
            "node": request.about.node_name,
            "protocol": each.protocol,
            "port": each.port,
            "interface": each.address,
            "certfile": path,
            "certfile_expires_on": [expires.isoformat()],
        }
        for each in tls
    ]
    return _failed("Certificates expiring", expired=expired)


def _expiry_of(path: str) -> datetime:
    """When the certificate in the file ceases to be valid; in a thread, because it reads a file."""
    Path(path).stat()
    # The standard library decodes certificates for its own tests, and has no other way.
    decode: Any = getattr(ssl, "_ssl")._test_decode_cert  # noqa: B009
    seconds = ssl.cert_time_to_seconds(decode(path)["notAfter"])
    return datetime.fromtimestamp(seconds, UTC)


async def _node(request: Request) -> Answer:
    """Deprecated in RabbitMQ, and still asked: the alarms, by another name."""
    request.check_node()
    reason = request.context.alarms.reason
    # 200 all the same, as in RabbitMQ.
    return Answer(200, {"status": "failed", "reason": reason} if reason else _OK)


async def _single_node(_request: Request) -> Answer:
    return Answer(200, {**_OK, "reason": "single node cluster"})


def _check(name: str, answer: Any, tag: Tag = Tag.MANAGEMENT) -> Action:
    return Action("GET", f"/api/health/checks/{name}", "health check", answer, tag)


ACTIONS: Final = (
    Action("GET", "/api/aliveness-test/{vhost}", "aliveness test", _aliveness),
    Action("GET", "/api/healthchecks/node", "health check", _node),
    Action("GET", "/api/healthchecks/node/{node}", "health check", _node),
    _check("alarms", partial(_alarms, "in the cluster")),
    _check("local-alarms", partial(_alarms, "on the node")),
    _check("port-listener/{port}", _port),
    _check("protocol-listener/{protocol}", _protocol),
    _check("virtual-hosts", _virtual_hosts),
    _check("certificate-expiration/{within}/{unit}", _certificates),
    _check("node-is-mirror-sync-critical", _single_node),
    _check("node-is-quorum-critical", _single_node),
)
