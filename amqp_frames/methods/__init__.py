"""All methods of AMQP 0-9-1 and RabbitMQ's extensions, their encoding and decoding.

The classes are declared in connection.py, topology.py and basic.py; the
codec they are compiled into is in wire_types.py, which also says what malformed arguments give.

A class or method id that is not known is HardError 540 NOT_IMPLEMENTED with those ids, as the
specification and LavinMQ have it. (RabbitMQ's reader crashes on it, in rabbit_command_assembler:
analyze_frame, so its clients see the socket close without a word.) A payload too short for the
ids is RabbitMQ's 501 FRAME_ERROR "unknown_frame".
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from ..constants import FRAME_END, FRAME_ERROR, FRAME_METHOD, NOT_IMPLEMENTED
from ..errors import HardError
from .basic import (
    BasicAck,
    BasicCancel,
    BasicCancelOk,
    BasicConsume,
    BasicConsumeOk,
    BasicDeliver,
    BasicGet,
    BasicGetEmpty,
    BasicGetOk,
    BasicNack,
    BasicPublish,
    BasicQos,
    BasicQosOk,
    BasicRecover,
    BasicRecoverAsync,
    BasicRecoverOk,
    BasicReject,
    BasicReturn,
    ConfirmSelect,
    ConfirmSelectOk,
    TxCommit,
    TxCommitOk,
    TxRollback,
    TxRollbackOk,
    TxSelect,
    TxSelectOk,
)
from .connection import (
    AccessRequest,
    AccessRequestOk,
    ChannelClose,
    ChannelCloseOk,
    ChannelFlow,
    ChannelFlowOk,
    ChannelOpen,
    ChannelOpenOk,
    ConnectionBlocked,
    ConnectionClose,
    ConnectionCloseOk,
    ConnectionOpen,
    ConnectionOpenOk,
    ConnectionSecure,
    ConnectionSecureOk,
    ConnectionStart,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUnblocked,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
)
from .topology import (
    ExchangeBind,
    ExchangeBindOk,
    ExchangeDeclare,
    ExchangeDeclareOk,
    ExchangeDelete,
    ExchangeDeleteOk,
    ExchangeUnbind,
    ExchangeUnbindOk,
    QueueBind,
    QueueBindOk,
    QueueDeclare,
    QueueDeclareOk,
    QueueDelete,
    QueueDeleteOk,
    QueuePurge,
    QueuePurgeOk,
    QueueUnbind,
    QueueUnbindOk,
)
from .wire_types import METHODS, Method

__all__ = [
    "AccessRequest",
    "AccessRequestOk",
    "BasicAck",
    "BasicCancel",
    "BasicCancelOk",
    "BasicConsume",
    "BasicConsumeOk",
    "BasicDeliver",
    "BasicGet",
    "BasicGetEmpty",
    "BasicGetOk",
    "BasicNack",
    "BasicPublish",
    "BasicQos",
    "BasicQosOk",
    "BasicRecover",
    "BasicRecoverAsync",
    "BasicRecoverOk",
    "BasicReject",
    "BasicReturn",
    "ChannelClose",
    "ChannelCloseOk",
    "ChannelFlow",
    "ChannelFlowOk",
    "ChannelOpen",
    "ChannelOpenOk",
    "ConfirmSelect",
    "ConfirmSelectOk",
    "ConnectionBlocked",
    "ConnectionClose",
    "ConnectionCloseOk",
    "ConnectionOpen",
    "ConnectionOpenOk",
    "ConnectionSecure",
    "ConnectionSecureOk",
    "ConnectionStart",
    "ConnectionStartOk",
    "ConnectionTune",
    "ConnectionTuneOk",
    "ConnectionUnblocked",
    "ConnectionUpdateSecret",
    "ConnectionUpdateSecretOk",
    "ExchangeBind",
    "ExchangeBindOk",
    "ExchangeDeclare",
    "ExchangeDeclareOk",
    "ExchangeDelete",
    "ExchangeDeleteOk",
    "ExchangeUnbind",
    "ExchangeUnbindOk",
    "Method",
    "QueueBind",
    "QueueBindOk",
    "QueueDeclare",
    "QueueDeclareOk",
    "QueueDelete",
    "QueueDeleteOk",
    "QueuePurge",
    "QueuePurgeOk",
    "QueueUnbind",
    "QueueUnbindOk",
    "TxCommit",
    "TxCommitOk",
    "TxRollback",
    "TxRollbackOk",
    "TxSelect",
    "TxSelectOk",
    "decode_method",
    "encode_method",
]

_FRAME_START: Final = Struct(">BHI")
_FRAME_END: Final = bytes((FRAME_END,))
_PREFIX_BYTES: Final = 4


def decode_method(data: bytes, start: int, end: int) -> Method:
    """The method whose frame has the payload data[start:end]."""
    arguments_at = start + _PREFIX_BYTES
    made = METHODS.get(data[start:arguments_at])
    if made is None or arguments_at > end:
        raise _unknown(data[start:end])
    return made.layout.decode(data, arguments_at, end)


def encode_method(channel: int, method: Method) -> bytes:
    """The whole frame; ValueError if a field does not fit its wire type."""
    arguments = method.layout.encode(method)
    size = _PREFIX_BYTES + len(arguments)
    frame_start = _FRAME_START.pack(FRAME_METHOD, channel, size)
    return b"".join((frame_start, method.prefix, arguments, _FRAME_END))


def _unknown(payload: bytes) -> HardError:
    if len(payload) < _PREFIX_BYTES:
        octets = ",".join(map(str, payload))
        text = f"type {FRAME_METHOD}, all octets = <<{octets}>>: unknown_frame"
        return HardError(FRAME_ERROR, text)
    class_id = int.from_bytes(payload[:2], "big")
    method_id = int.from_bytes(payload[2:4], "big")
    return HardError(
        NOT_IMPLEMENTED, f"unknown method {class_id}, {method_id}", class_id, method_id
    )
