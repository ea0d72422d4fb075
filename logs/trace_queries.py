"""The steps, in DuckDB's SQL, from a trace's lines to its figures; `trace_engine` runs them.

Events carry ranges, and so does everything here until the end: the ranges about one batch are cut
where any of them begins or ends, and such a segment, whose messages share all their moments, is one
row with a weight. A batch of a thousand messages that went one way together is one row.
"""

from __future__ import annotations

from typing import Final

from .trace_figures import QUANTILES, Hop

COLUMNS: Final = {
    "t_ns": "BIGINT",
    "boot": "VARCHAR",
    "event": "VARCHAR",
    "connection": "VARCHAR",
    "channel": "INTEGER",
    "batch": "BIGINT",
    "batches": "BIGINT[]",
    "messages": "BIGINT[][]",
    "seq_no": "BIGINT[][]",
    "queue": "VARCHAR",
    "queue_id": "BIGINT",
}
# Moments of a message, and those that it has in each of its queues.
OF_MESSAGE: Final = {
    "frame.received": "received",
    "command.assembled": "assembled",
    "message.routed": "routed",
    "confirm.sent": "sent",
}
OF_QUEUE: Final = {
    "message.enqueued": "enqueued",
    "journal.appended": "appended",
    "message.persisted": "persisted",
    "confirm.queued": "queued",
    "message.delivered": "delivered",
    "message.settled": "settled",
}
MOMENTS: Final = {**OF_MESSAGE, **OF_QUEUE, "journal.synced": "synced"}
# These do not name a message's place and queue themselves.
_ROUNDABOUT: Final = ("confirm.sent", "journal.appended", "journal.synced")

# What is no event has none; it is counted, and read again only to be told of.
LINES: Final = """
SELECT * REPLACE (CASE WHEN t_ns IS NOT NULL AND boot IS NOT NULL THEN event END AS event)
FROM read_json(
    ?, format = 'newline_delimited', columns = ?, ignore_errors = true, filename = true,
    maximum_object_size = 268435456
)
"""
COVERED: Final = """
SELECT coalesce(sum(events), 0), coalesce(sum(last - first), 0) FROM (
    SELECT count(*) AS events, min(t_ns) AS first, max(t_ns) AS last
    FROM line WHERE event IS NOT NULL GROUP BY boot
)
"""
BAD: Final = "SELECT filename, count(*) FROM line WHERE event IS NULL GROUP BY filename"
# A publish number's range, and the places that have these numbers. Both lists have the same
# ranges, since numbers are given in the order of the places. An address and channel may come
# again, with numbers that begin again: `life` counts them.
NUMBERED: Final = """
CREATE TEMP TABLE numbered AS
WITH given AS (
    SELECT boot, connection, channel, batch, t_ns,
        unnest(seq_no)[1] AS low, unnest(seq_no)[2] AS high, unnest(messages)[1] AS place
    FROM line WHERE event = 'command.assembled' AND len(seq_no) > 0
), begun AS (
    SELECT *, low <= lag(low, 1, 0) OVER (
        PARTITION BY boot, connection, channel ORDER BY t_ns, low
    ) AS is_first FROM given
)
SELECT * EXCLUDE (is_first), sum(is_first::INTEGER) OVER (
    PARTITION BY boot, connection, channel ORDER BY t_ns, low
) AS life FROM begun
"""
ANSWERED: Final = """
CREATE TEMP TABLE answered AS
WITH said AS (
    SELECT boot, connection, channel, t_ns, unnest(seq_no)[1] AS low, unnest(seq_no)[2] AS high
    FROM line WHERE event = 'confirm.sent'
)
SELECT said.*, numbered.life FROM said ASOF JOIN numbered
ON said.boot = numbered.boot AND said.connection = numbered.connection
    AND said.channel = numbered.channel AND said.t_ns >= numbered.t_ns
"""
# Ranges that were given and ranges that were answered, cut at the begins and ends of both. Behind
# each cut the range that began last is the one that holds the numbers, unless it has ended.
SENT: Final = """
CREATE TEMP TABLE sent AS
WITH cuts AS (
    SELECT boot, connection, channel, life, low AS cut,
        {'low': low, 'high': high, 'batch': batch, 'place': place, 't_ns': t_ns} AS given,
        NULL AS said
    FROM numbered
    UNION ALL
    SELECT boot, connection, channel, life, low, NULL, {'high': high, 't_ns': t_ns} FROM answered
    UNION ALL SELECT boot, connection, channel, life, high + 1, NULL, NULL FROM numbered
    UNION ALL SELECT boot, connection, channel, life, high + 1, NULL, NULL FROM answered
), filled AS (
    SELECT boot, cut,
        last_value(given IGNORE NULLS) OVER before AS given,
        last_value(said IGNORE NULLS) OVER before AS said,
        lead(cut) OVER (PARTITION BY boot, connection, channel, life ORDER BY cut) AS next
    FROM cuts
    WINDOW before AS (
        PARTITION BY boot, connection, channel, life ORDER BY cut
        RANGE BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
    )
)
SELECT boot, given.batch AS batch, 'confirm.sent' AS event, NULL::VARCHAR AS queue,
    said.t_ns AS t_ns,
    given.place + cut - given.low AS low, given.place + next - 1 - given.low AS high
FROM filled
WHERE next > cut AND given.high >= cut AND said.high >= cut AND said.t_ns >= given.t_ns
"""
SPANS: Final = """
CREATE TEMP TABLE span AS
WITH known AS (
    SELECT boot, queue_id, min(queue) AS queue FROM line
    WHERE event IN ('message.enqueued', 'message.recovered') GROUP BY ALL
)
SELECT boot, batch, event, CASE WHEN event IN ({of_queue}) THEN queue END AS queue, t_ns,
    unnest(messages)[1] AS low, unnest(messages)[2] AS high
FROM line WHERE event IN ({named})
UNION ALL
SELECT line.boot, batch, event, known.queue, t_ns, unnest(messages)[1], unnest(messages)[2]
FROM line JOIN known USING (boot, queue_id) WHERE event = 'journal.appended'
UNION ALL
SELECT boot, batch, event, queue, t_ns, low, high FROM sent
"""
SEGMENTS: Final = """
CREATE TEMP TABLE segment AS
SELECT boot, batch, cut,
    row_number() OVER within AS number, lead(cut) OVER within - cut AS messages
FROM (SELECT boot, batch, low AS cut FROM span UNION SELECT boot, batch, high + 1 FROM span)
WINDOW within AS (PARTITION BY boot, batch ORDER BY cut)
"""
PARTS: Final = """
CREATE TEMP TABLE part AS
SELECT span.boot, span.batch, event, queue, t_ns,
    unnest(range(begins.number, ends.number)) AS number
FROM span
JOIN segment AS begins
    ON span.boot = begins.boot AND span.batch = begins.batch AND span.low = begins.cut
JOIN segment AS ends
    ON span.boot = ends.boot AND span.batch = ends.batch AND span.high + 1 = ends.cut
"""
MESSAGES: Final = """
CREATE TEMP TABLE of_message AS
SELECT boot, batch, number, any_value(messages) AS messages, {moments}
FROM part JOIN segment USING (boot, batch, number)
WHERE queue IS NULL GROUP BY boot, batch, number
"""
QUEUES: Final = """
CREATE TEMP TABLE of_queue AS
WITH kept AS (
    SELECT boot, batch, queue, number, any_value(messages) AS messages, {moments}
    FROM part JOIN segment USING (boot, batch, number)
    WHERE queue IS NOT NULL GROUP BY boot, batch, queue, number
), sync AS (
    SELECT boot, unnest(batches) AS batch, t_ns AS synced
    FROM line WHERE event = 'journal.synced'
)
SELECT kept.*, CASE WHEN kept.appended IS NOT NULL THEN sync.synced END AS synced, {of_message}
FROM kept
ASOF LEFT JOIN sync
    ON kept.boot = sync.boot AND kept.batch = sync.batch AND kept.appended <= sync.synced
LEFT JOIN of_message
    ON kept.boot = of_message.boot AND kept.batch = of_message.batch
    AND kept.number = of_message.number
"""
COUNTS: Final = """
SELECT queue, {counts} FROM of_queue GROUP BY queue ORDER BY queue
""".format(
    counts=", ".join(
        f"coalesce(sum(messages) FILTER ({moment} IS NOT NULL), 0)::BIGINT"
        for moment in ("enqueued", "sent", "delivered", "settled")
    )
)
# Of all that took so long, up to this value: the first that reaches the rank is the quantile.
LATENCIES: Final = """
WITH took AS ({took}), summed AS (
    SELECT queue, hop, took_ns, sum(messages) AS messages FROM took
    WHERE took_ns IS NOT NULL GROUP BY ALL
), ranked AS (
    SELECT queue, hop, took_ns,
        sum(messages) OVER (PARTITION BY queue, hop ORDER BY took_ns) AS up_to,
        sum(messages) OVER (PARTITION BY queue, hop) AS count
    FROM summed
)
SELECT queue, hop, any_value(count)::BIGINT, {ranks}, max(took_ns)
FROM ranked GROUP BY queue, hop
"""


def _listed(events: dict[str, str]) -> str:
    return ", ".join(f"'{event}'" for event in events)


def _moments(events: dict[str, str]) -> str:
    return ", ".join(
        f"min(t_ns) FILTER (event = '{event}') AS {name}" for event, name in events.items()
    )


def steps() -> list[str]:
    """Make the tables `of_message` and `of_queue` of the table `line`, in this order."""
    named = {event: name for event, name in MOMENTS.items() if event not in _ROUNDABOUT}
    of_message = ", ".join(f"of_message.{name}" for name in OF_MESSAGE.values())
    return [
        NUMBERED,
        ANSWERED,
        SENT,
        SPANS.format(of_queue=_listed(OF_QUEUE), named=_listed(named)),
        SEGMENTS,
        PARTS,
        MESSAGES.format(moments=_moments(OF_MESSAGE)),
        QUEUES.format(moments=_moments(OF_QUEUE), of_message=of_message),
    ]


def latencies(hops: tuple[Hop, ...], by_queue: bool) -> str:
    """A query of (queue, hop, count, quantiles, greatest); without queues theirs is empty."""
    took = " UNION ALL ".join(
        f"SELECT {'queue' if by_queue else repr('')} AS queue, '{hop.name}' AS hop, messages, "
        f"{MOMENTS[hop.end]} - {MOMENTS[hop.begin]} AS took_ns "
        f"FROM {'of_queue' if hop.is_per_queue else 'of_message'}"
        for hop in hops
    )
    # Whole numbers, so that no rank is off by one.
    ranks = ", ".join(
        f"min(took_ns) FILTER (up_to * 1000 >= count * {round(quantile * 1000)})"
        for quantile in QUANTILES
    )
    return LATENCIES.format(took=took, ranks=ranks)
