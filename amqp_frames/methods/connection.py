"""Methods of the classes connection, channel and access, RabbitMQ's extensions among them.

Names are the specification's, except that a reserved field which RabbitMQ still uses keeps its
name of 0-9, and that the class_id and method_id of a close, which name the culprit, are called
failing_class_id and failing_method_id here: class_id and method_id are those of the close itself.
"""

from __future__ import annotations

from dataclasses import field

from .wire_types import Bit, FieldTable, Long, LongString, Method, Octet, Short, ShortString, method


@method(10, 10)
class ConnectionStart(Method):
    """The server begins: what it is, which mechanisms and locales it offers (space-separated)."""

    version_major: Octet = 0
    version_minor: Octet = 9
    server_properties: FieldTable = field(default_factory=dict)
    mechanisms: LongString = b"PLAIN"
    locales: LongString = b"en_US"


@method(10, 11)
class ConnectionStartOk(Method):
    """The client's properties and its first authentication response."""

    client_properties: FieldTable = field(default_factory=dict)
    mechanism: ShortString = "PLAIN"
    response: LongString = b""
    locale: ShortString = "en_US"


@method(10, 20)
class ConnectionSecure(Method):
    """A further challenge of the mechanism."""

    challenge: LongString = b""


@method(10, 21)
class ConnectionSecureOk(Method):
    """The response to a challenge."""

    response: LongString = b""


@method(10, 30)
class ConnectionTune(Method):
    """The server's limits; 0 is none. The heartbeat is in seconds."""

    channel_max: Short = 0
    frame_max: Long = 0
    heartbeat: Short = 0


@method(10, 31)
class ConnectionTuneOk(Method):
    """The limits that the client has settled on."""

    channel_max: Short = 0
    frame_max: Long = 0
    heartbeat: Short = 0


@method(10, 40)
class ConnectionOpen(Method):
    """Open a virtual host."""

    virtual_host: ShortString = "/"
    reserved_1: ShortString = ""
    reserved_2: Bit = False


@method(10, 41)
class ConnectionOpenOk(Method):
    """The connection is open."""

    reserved_1: ShortString = ""


@method(10, 50)
class ConnectionClose(Method):
    """Either side closes the connection: why, and the method that was at fault (0, 0 if none)."""

    reply_code: Short = 200
    reply_text: ShortString = ""
    failing_class_id: Short = 0
    failing_method_id: Short = 0


@method(10, 51)
class ConnectionCloseOk(Method):
    """The last frame of a connection."""


@method(10, 60)
class ConnectionBlocked(Method):
    """RabbitMQ's: publishes are not read until connection.unblocked."""

    reason: ShortString = ""


@method(10, 61)
class ConnectionUnblocked(Method):
    """RabbitMQ's: publishes are read again."""


@method(10, 70)
class ConnectionUpdateSecret(Method):
    """RabbitMQ's: a fresh credential for a connection whose old one expires."""

    new_secret: LongString = b""
    reason: ShortString = ""


@method(10, 71)
class ConnectionUpdateSecretOk(Method):
    """RabbitMQ's: the fresh credential is taken."""


@method(20, 10)
class ChannelOpen(Method):
    """Open the channel that the frame names."""

    reserved_1: ShortString = ""


@method(20, 11)
class ChannelOpenOk(Method):
    """The channel is open."""

    reserved_1: LongString = b""


@method(20, 20)
class ChannelFlow(Method):
    """Stop or resume the flow of content."""

    active: Bit = True


@method(20, 21)
class ChannelFlowOk(Method):
    """The state that channel.flow asked for is in effect."""

    active: Bit = True


@method(20, 40)
class ChannelClose(Method):
    """Either side closes the channel: why, and the method that was at fault (0, 0 if none)."""

    reply_code: Short = 200
    reply_text: ShortString = ""
    failing_class_id: Short = 0
    failing_method_id: Short = 0


@method(20, 41)
class ChannelCloseOk(Method):
    """The channel is closed; its number is free."""


@method(30, 10)
class AccessRequest(Method):
    """Of AMQP 0-8; RabbitMQ still answers it for old clients."""

    realm: ShortString = "/data"
    exclusive: Bit = False
    passive: Bit = True
    active: Bit = True
    write: Bit = True
    read: Bit = True


@method(30, 11)
class AccessRequestOk(Method):
    """Of AMQP 0-8: a ticket that nobody looks at."""

    ticket: Short = 1
