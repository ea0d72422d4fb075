"""Settings that all NSQ connections of a node share."""

from __future__ import annotations

from collections.abc import Callable
from ssl import SSLContext
from typing import NamedTuple

from ...core.nsq.session import SessionLimits
from ...nsq_frames.publishes import PublishLimits


class NsqSettings(NamedTuple):
    """`user` is who a client on this machine is that sends no AUTH.

    `tls` gives the context for a client that asks for TLS; None if the broker has no certificate.
    """

    vhost: str
    user: str
    limits: SessionLimits
    publish_limits: PublishLimits
    tls: Callable[[], SSLContext | None]
    random_bytes: Callable[[int], bytes]
