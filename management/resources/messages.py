"""Messages published and fetched through the API. The answer to a publish waits for its confirm."""

from __future__ import annotations

import base64
import binascii
from typing import Final, NamedTuple

from ...amqp_frames.methods import (
    BasicAck,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicReject,
    BasicReturn,
    ConfirmSelect,
    ConfirmSelectOk,
)
from ...amqp_frames.properties import encode_properties
from ..direct import AmqpRefusedError, Content, DirectConnection, connect
from ..request import Action, Answer, ApiError, Request, bad_request, not_found, object_with
from ..rows import Row
from ..values import plain_properties, properties_from
from .topology import DEFAULT_EXCHANGE, refusal

# In the order in which an error names them.
_ACK_MODES: Final = (
    "ack_requeue_false",
    "ack_requeue_true",
    "reject_requeue_false",
    "reject_requeue_true",
)
# A get holds its messages in memory until it is answered; `get_bytes_max` bounds their bytes.
GET_COUNT_MAX: Final = 10_000


async def _publish(request: Request) -> Answer:
    names = ("routing_key", "payload", "payload_encoding", "properties")
    given = request.json(*names)
    key, payload, encoding, properties = [given[name] for name in names]
    if not isinstance(key, str) or not isinstance(payload, str):
        raise bad_request("routing_key and payload must be strings")
    content = Content(properties_from(properties), _octets(payload, encoding))
    exchange = request.names["exchange"]
    exchange = "" if exchange == DEFAULT_EXCHANGE else exchange
    method = BasicPublish(exchange=exchange, routing_key=key, mandatory=True)
    context, vhost = request.context, request.names["vhost"]
    try:
        async with connect(context, request.user.name, request.peer_host, vhost) as connection:
            await connection.call(ConfirmSelect(), ConfirmSelectOk)
            connection.send(method, content)
            is_routed = True
            # Return before confirm: the confirm comes last.
            while True:
                answer = await connection.expect(BasicReturn, BasicAck, BasicNack)
                if not isinstance(answer, BasicReturn):
                    break
                is_routed = False
    except AmqpRefusedError as refused:
        if refused.code == 404:
            raise bad_request(f"{refused.code} {refused.text}") from None
        raise refusal(refused) from None
    except ValueError as fault:
        raise bad_request(str(fault)) from None
    if isinstance(answer, BasicNack):
        raise ApiError(503, "nacked", "the broker cannot store the message")
    return Answer(200, {"routed": is_routed})


def _octets(payload: str, encoding: object) -> bytes:
    if encoding == "string":
        return payload.encode("utf-8", "surrogateescape")
    if encoding == "base64":
        try:
            return base64.b64decode(payload, validate=True)
        except (binascii.Error, ValueError):
            raise bad_request("payload is no base64") from None
    raise bad_request(["unsupported_encoding", encoding])


async def _get(request: Request) -> Answer:
    given = request.json("ackmode", "count", "encoding")
    ack_mode, encoding = given["ackmode"], given["encoding"]
    count = _number("count", given["count"])
    truncate = given.get("truncate")
    truncate = None if truncate is None else _number("truncate", truncate)
    if ack_mode not in _ACK_MODES:
        raise bad_request(f"Unsupported ackmode. Please use {', '.join(_ACK_MODES)}.")
    if encoding not in ("auto", "base64"):
        raise bad_request("Unsupported encoding. Please use auto or base64.")
    context, vhost = request.context, request.names["vhost"]
    if context.vhosts[vhost].table.find_queue(request.names["queue"]) is None:
        raise not_found()
    rows: list[Row] = []
    try:
        async with connect(context, request.user.name, request.peer_host, vhost) as connection:
            held_bytes = 0
            while len(rows) < min(count, GET_COUNT_MAX):
                found = await _get_one(connection, request.names["queue"], encoding, truncate)
                if found is None:
                    break
                rows.append(found.row)
                held_bytes += found.held_bytes
                if held_bytes >= request.about.get_bytes_max:
                    break
            if rows:
                await _answer_all(connection, ack_mode, len(rows))
    except AmqpRefusedError as refused:
        raise refusal(refused) from None
    return Answer(200, rows)


def _number(name: str, value: object) -> int:
    if isinstance(value, str) and value.isdecimal():
        try:
            value = int(value)
        except ValueError:
            # It has thousands of digits.
            value = None
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise bad_request(["not_int", name])
    return value


class _Got(NamedTuple):
    row: Row
    # Of the payload as it is shown, and of the properties.
    held_bytes: int


async def _get_one(
    connection: DirectConnection, queue: str, encoding: str, truncate: int | None
) -> _Got | None:
    answer = await connection.call(BasicGet(queue=queue), BasicGetOk, BasicGetEmpty)
    if isinstance(answer, BasicGetEmpty):
        return None
    assert isinstance(answer, BasicGetOk)
    properties, body = await connection.content()
    shown = body if truncate is None else body[:truncate]
    text = _text(shown) if encoding == "auto" else None
    row: Row = {
        "payload_bytes": len(body),
        "redelivered": answer.redelivered,
        "exchange": answer.exchange,
        "routing_key": answer.routing_key,
        "message_count": answer.message_count,
        "properties": plain_properties(properties),
        "payload": base64.b64encode(shown).decode() if text is None else text,
        "payload_encoding": "base64" if text is None else "string",
    }
    return _Got(row, len(shown) + len(encode_properties(properties)))


def _text(octets: bytes) -> str | None:
    try:
        return octets.decode()
    except UnicodeDecodeError:
        return None


async def _answer_all(connection: DirectConnection, ack_mode: str, count: int) -> None:
    """Ack or return the fetched messages: all under one answer where AMQP has that."""
    if ack_mode == "ack_requeue_false":
        connection.send(BasicAck(delivery_tag=count, multiple=True))
    elif ack_mode == "reject_requeue_false":
        for tag in range(1, count + 1):
            connection.send(BasicReject(delivery_tag=tag, requeue=False))
    else:
        connection.send(BasicNack(delivery_tag=count, multiple=True, requeue=True))
    # Behind the answers: the queue has them before the client's next request.
    await connection.call(ConfirmSelect(), ConfirmSelectOk)


ACTIONS: Final = (
    Action(
        "POST",
        "/api/exchanges/{vhost}/{exchange}/publish",
        "publish",
        _publish,
        body=object_with(
            "routing_key",
            "payload",
            "payload_encoding",
            "properties",
            routing_key="string",
            payload="string",
            payload_encoding="string",
            properties="object",
        ),
        answers_with_body=True,
    ),
    Action(
        "POST",
        "/api/queues/{vhost}/{queue}/get",
        "get",
        _get,
        body=object_with(
            "ackmode",
            "count",
            "encoding",
            ackmode="string",
            count="integer",
            encoding="string",
            truncate="integer",
        ),
        answers_with_body=True,
    ),
)
