"""The differences in the names of the broker, and in logins over TLS."""

from __future__ import annotations

from difference import Difference
from standing_protocol import EARLY, said

TLS: list[Difference] = [
    said(
        EARLY,
        "EXTERNAL on the plain port",
        503,
        "COMMAND_INVALID - unknown authentication mechanism 'EXTERNAL'",
        10,
        11,
    ),
]

NAMES = "the names that the broker gives itself"
OF_THE_SERVER: list[Difference] = [
    Difference(
        "test_the_server_s_properties", NAMES, ["server property: cluster_name: longstr "], []
    ),
    Difference("test_the_server_s_properties", NAMES, [], ["server property: leveret: longstr "]),
]
