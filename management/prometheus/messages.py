"""RabbitMQ's counters of messages, of openings and closings, and of logins: since the node's start.

The channels count, once a batch (core/statistics). Counters of messages have no label `queue_type`:
the node's totals are those of all queues.
"""

from __future__ import annotations

from typing import Final

from prometheus_client import Metric

from ...core.users.login_attempts import AMQP, HTTP, LoginCounts
from .asked import Asked, Form, Source
from .families import counter, counters, histograms

_CHURN: Final = {
    "connections_opened": ("connection_created", "AMQP connections that have opened a vhost"),
    "connections_closed": ("connection_closed", "AMQP connections that have ended"),
    "channels_opened": ("channel_created", "Channels that were opened"),
    "channels_closed": ("channel_closed", "Channels that have ended"),
    "queues_declared": ("queue_declared", "Declares of queues, also of those that were there"),
    "queues_created": ("queue_created", "Queues that were made"),
    "queues_deleted": ("queue_deleted", "Queues that were deleted"),
}
_MESSAGES: Final = {
    "received": ("publish", "Messages that were published"),
    "received_confirm": ("publish_numbered", "Messages that were published in confirm mode"),
    "confirmed": ("confirm", "Messages that were confirmed to their publishers"),
    "unroutable_dropped": ("drop_unroutable", "Messages that no queue got, not mandatory"),
    "unroutable_returned": ("return_unroutable", "Mandatory messages that no queue got"),
    "delivered": ("deliver_get", "Messages that clients got, by whatever method"),
    "delivered_consume_manual_ack": ("deliver", "Messages that consumers got, to be acknowledged"),
    "delivered_consume_auto_ack": ("deliver_no_ack", "Messages that consumers got for good"),
    "delivered_get_manual_ack": ("get", "Messages that basic.get brought, to be acknowledged"),
    "delivered_get_auto_ack": ("get_no_ack", "Messages that basic.get brought for good"),
    "get_empty": ("get_empty", "Times that basic.get found an empty queue"),
    "redelivered": ("redeliver", "Messages that clients got once more"),
    "acknowledged": ("ack", "Messages that clients have acknowledged"),
}


def metrics(source: Source, asked: Asked, logins: dict[str, LoginCounts]) -> list[Metric]:
    """Those that the request asks for."""
    counts, prefix = source.context.counts, asked.prefix
    made = []
    if asked.wants("connection_churn_metrics"):
        made += [
            counter(f"{prefix}{name}_total", text, counts.churn[key])
            for name, (key, text) in _CHURN.items()
        ]
    if asked.wants("auth_attempt_metrics"):
        made += _logins(prefix, logins)
    if asked.form is not Form.DETAILED:
        made += _messages(counts.totals)
        made.append(_sizes(source))
    return made


def _logins(prefix: str, logins: dict[str, LoginCounts]) -> list[Metric]:
    both = [(protocol, logins.get(protocol, LoginCounts())) for protocol in (AMQP, HTTP)]
    labels = ("protocol",)
    return [
        counters(
            f"{prefix}auth_attempts_total",
            "Logins that were decided",
            labels,
            [((name,), each.succeeded + each.failed) for name, each in both],
        ),
        counters(
            f"{prefix}auth_attempts_succeeded_total",
            "Logins that were right",
            labels,
            [((name,), each.succeeded) for name, each in both],
        ),
        counters(
            f"{prefix}auth_attempts_failed_total",
            "Logins that were wrong",
            labels,
            [((name,), each.failed) for name, each in both],
        ),
    ]


def _sizes(source: Source) -> Metric:
    return histograms(
        "rabbitmq_message_size_bytes",
        "Sizes of published messages, an estimate: one of each batch stands for all of it",
        ("protocol",),
        [(("amqp091",), source.context.message_sizes.sizes)],
    )


def _messages(totals: dict[str, int]) -> list[Metric]:
    routed = sum(
        sign * totals.get(name, 0)
        for name, sign in (("publish", 1), ("drop_unroutable", -1), ("return_unroutable", -1))
    )
    values = {name: (totals.get(key, 0), text) for name, (key, text) in _MESSAGES.items()}
    values["routed"] = routed, "Messages that a queue got, or several"
    return [
        counters(
            f"rabbitmq_global_messages_{name}_total", text, ("protocol",), [(("amqp091",), value)]
        )
        for name, (value, text) in values.items()
    ]
