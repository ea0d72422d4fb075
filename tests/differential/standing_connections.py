"""The differences in handshakes of TLS, and in what an alarm stops."""

from __future__ import annotations

from difference import Difference
from standing_protocol import EARLY, said

ALERT = "a client certificate that is refused"
# As OpenSSL names the alerts that RabbitMQ sends.
ALERTS = {"expired": "SSLV3_ALERT_CERTIFICATE_EXPIRED", "unknown": "TLSV1_ALERT_UNKNOWN_CA"}

TLS_AND_ALARMS: list[Difference] = [
    *(
        Difference(
            f"certificate: {kind}, TLSv1_2",
            ALERT,
            [f"TLS's handshake: {alert}"],
            ["TLS's handshake: UNEXPECTED_EOF_WHILE_READING"],
        )
        for kind, alert in ALERTS.items()
    ),
    *(
        Difference(
            f"certificate: {kind}, TLSv1_3",
            ALERT,
            [f"connection 1: ended TLS: {alert}"],
            ["connection 1: closed the socket"],
        )
        for kind, alert in ALERTS.items()
    ),
    said(
        EARLY,
        "EXTERNAL on the plain port",
        503,
        "COMMAND_INVALID - unknown authentication mechanism 'EXTERNAL'",
        10,
        11,
    ),
    Difference(
        "blocked: the publish that meets it",
        "the publish that meets an alarm",
        ["connection 1: nothing for 5 s"],
        ["connection 1, channel 1: basic.ack(delivery_tag=1, multiple=False)"],
    ),
]
