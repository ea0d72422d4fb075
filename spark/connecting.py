"""How pika is told to reach a broker; the one place where a password is revealed."""

from __future__ import annotations

import ssl
from typing import TYPE_CHECKING

import pika

from .options import ConnectionOptions, OptionError
from .uri import Address, Tls

if TYPE_CHECKING:
    from collections.abc import Mapping


def parameters(
    options: ConnectionOptions, address: Address, client_properties: Mapping[str, str]
) -> pika.ConnectionParameters:
    """pika's parameters to connect to this address once, because the caller decides on retries."""
    brokers = options.brokers
    timeout_s = options.connect_timeout_ms / 1000
    return pika.ConnectionParameters(
        host=address.host,
        port=address.port,
        virtual_host=brokers.vhost,
        credentials=pika.PlainCredentials(
            brokers.user, brokers.password.reveal(), erase_on_connect=True
        ),
        heartbeat=options.heartbeat_s,
        socket_timeout=timeout_s,
        stack_timeout=timeout_s,
        blocked_connection_timeout=None,
        connection_attempts=1,
        ssl_options=_tls(brokers.tls, address) if brokers.tls else None,
        client_properties=dict(client_properties),
    )


def _tls(tls: Tls, address: Address) -> pika.SSLOptions:
    try:
        context = ssl.create_default_context(cafile=tls.ca_file)
        if tls.cert_file:
            context.load_cert_chain(tls.cert_file, tls.key_file)
    except OSError as error:
        # It does not say which; and nobody shall wait until it passes.
        named = ", ".join(filter(None, (tls.ca_file, tls.cert_file, tls.key_file)))
        raise OptionError(f"TLS with {named}: {error}") from None
    return pika.SSLOptions(context, address.host)
