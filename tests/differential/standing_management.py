"""Fields of the management API that one broker has and the other has not, or of another type.

`test_management.py` finds them anew, and fails when either broker changes. Fields that come with
traffic and time (SOMETIMES) may be there or not; where both have one, its type is the same.
"""

from __future__ import annotations

import re

SOMETIMES = re.compile(
    r"message_stats|_details$|_rates$|_oct$|_cnt$|send_pend|idle_since"
    r"|consumer_(utilisation|capacity)"
    r"|message_bytes|messages_(paged_out|persistent|ram|ready_ram|unacknowledged_ram)"
    r"|(closed|created|declared|deleted)$|^node \.(io|mnesia|msg_store|queue_index|fd|gc|proc)_"
    r"|(incoming|outgoing|deliveries|publishes)(\[\]|$)|policy|policies|context_switches"
    r"|sample_retention|(acks|messages)_uncommitted|mem_|sockets_|^node \.(uptime|disk)"
    r"|head_message_timestamp|single_active|ssl|peer_cert|user_provided_name|run_queue"
)

# Field of a resource -> its types in RabbitMQ, and in Leveret; "-": it is not there.
STANDING: dict[str, tuple[str, str]] = {
    # Of Erlang's processes, sockets and web server.
    "overview .contexts[].cowboy_opts": ("string", "-"),
    "overview .leveret_version": ("-", "string"),
    "overview .listeners[].socket_opts": ("array|object", "-"),
    "overview .release_series_support_status": ("string", "-"),
    "node .auth_mechanisms": ("array", "-"),
    "node .cluster_links": ("array", "-"),
    "node .config_files[]": ("string", "-"),
    "node .contexts[].cowboy_opts": ("string", "-"),
    "node .contexts[].node": ("-", "string"),
    "node .log_files": ("array", "-"),
    "node .metrics_gc_queue_length": ("object", "-"),
    "node .net_ticktime": ("number", "-"),
    "node .ra_open_file_metrics": ("object", "-"),
    "connection .garbage_collection": ("object", "-"),
    "connection .reductions": ("number", "-"),
    "channel .garbage_collection": ("object", "-"),
    "channel .pending_raft_commands": ("number", "-"),
    "channel .reductions": ("number", "-"),
    "queue .backing_queue_status": ("object", "-"),
    "queue .garbage_collection": ("object", "-"),
    "queue .leader": ("string", "-"),
    "queue .members": ("array", "-"),
    "queue .online": ("array", "-"),
    "queue .recoverable_slaves": ("null", "-"),
    "queue .reductions": ("number", "-"),
    # A hash is scrypt's, which RabbitMQ cannot read.
    "user .hashing_algorithm": ("string", "-"),
    "user .password_hash": ("string", "-"),
}

# Paths of RabbitMQ's that its description of the API does not name.
UNLISTED = (
    "/api/feature-flags",
    "/api/feature-flags/x/enable",
    "/api/healthchecks/node",
    "/api/healthchecks/node/x",
    "/api/login",
    "/api/nodes/x/memory",
    "/api/nodes/x/memory/relative",
    "/api/nodes/x/memory/ets",
    "/api/nodes/x/memory/ets/relative",
    "/api/nodes/x/memory/ets/x",
    "/api/nodes/x/memory/ets/x/relative",
    "/api/reset",
    "/api/reset/x",
    "/api/topic-permissions/{vhost}/x/x",
)
# Path -> its methods in RabbitMQ, and in Leveret. HEAD, which goes with GET, is left out.
METHODS: dict[str, tuple[str, str]] = {
    # Erlang's tables.
    **{
        f"/api/nodes/x/memory/ets{rest}": ("GET", "")
        for rest in ("", "/relative", "/x", "/x/relative")
    },
    # Gives the web page a cookie.
    "/api/login": ("POST", ""),
    # Of a plugin that is not there.
    "/api/federation-links": ("GET", ""),
    "/api/federation-links/{vhost}": ("GET", ""),
    # Users of these names can be asked for.
    "/api/users/bulk-delete": ("POST", "DELETE GET POST PUT"),
    "/api/users/without-permissions": ("GET", "DELETE GET PUT"),
}
# Path -> the answers of both to a user that is no monitor.
_NOT_AUTHORISED = (401, "User not authorised to access object")
REFUSED: dict[str, tuple[object, object]] = {
    "connections/username/guest": (500, _NOT_AUTHORISED),
    "connections/username/none": (500, _NOT_AUTHORISED),
}

# Changes that a user without permission asks for, and the answers of both.
UNANSWERED: dict[tuple[str, str], tuple[object, object]] = {
    ("POST", "/api/login"): ((401, "Login failed"), 404),
}
# The same where RabbitMQ knows the user as one of its API.
FAULTS: dict[tuple[str, str], tuple[object, object]] = {
    ("DELETE", "/api/connections/x"): (500, 404),
    ("DELETE", "/api/connections/username/x"): (500, _NOT_AUTHORISED),
}

Sides = tuple[tuple[int, object], tuple[int, object]]

# A call of CHANGES, by its number there -> the answers of both.
_FAULT = (500, None)
_MISSING = (404, {"error": "Object Not Found", "reason": "Not Found"})
ANSWERS: dict[str, Sides] = {
    # A binding is of a queue, q, or of an exchange, e.
    "56 GET bindings/%2F/e/amq.direct/x/y": (_FAULT, _MISSING),
    "57 GET bindings/%2F/e/amq.direct/x/y/z": (_FAULT, _MISSING),
    # Its lines are broken, and the missing keys are named in another order.
    "12 POST exchanges/%2F/amq.default/publish": (
        (
            400,
            {
                "error": "bad_request",
                "reason": "[{key_missing,routing_key},\n {key_missing,properties},\n "
                "{key_missing,payload},\n {key_missing,payload_encoding}]",
            },
        ),
        (
            400,
            {
                "error": "bad_request",
                "reason": "[{key_missing,routing_key},{key_missing,payload},"
                "{key_missing,payload_encoding},{key_missing,properties}]",
            },
        ),
    ),
}
