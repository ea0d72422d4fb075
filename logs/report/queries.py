"""The steps, in DuckDB's SQL, from a trace's lines to its figures.

engine.py runs them over a whole trace; Spark's tasks run the same ones over parts of it: those
of channels over the lines of some channels, those of batches over the lines of some batches.

Events carry ranges, and so does everything here until the end: the ranges about one batch are cut
where any of them begins or ends, and such a segment, whose messages share all their moments, is one
row with a weight. A batch of a thousand messages that went one way together is one row.
"""

from __future__ import annotations

from typing import Final

from .figures import HOPS, QUANTILES, QUEUE_HOPS

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
    "vhost": "VARCHAR",
    "queue_id": "BIGINT",
    "late": "BOOLEAN",
}
# Moments of a message, and those that it has in each of its queues.
OF_MESSAGE: Final = {
    "frame.received": "received",
    "command.assembled": "assembled",
    "message.routed": "routed",
    "confirm.sent": "sent",
    # From here on it is traced because something went wrong with it, so it is not in the sample.
    "late": "late",
}
OF_QUEUE: Final = {
    "message.enqueued": "enqueued",
    "journal.appended": "appended",
    "message.persisted": "persisted",
    "confirm.queued": "confirm_queued",
    "message.delivered": "delivered",
    "message.settled": "settled",
}
MOMENTS: Final = {**OF_MESSAGE, **OF_QUEUE, "journal.synced": "synced"}
# Moments of which a queue's messages are counted.
COUNTED: Final = ("enqueued", "sent", "delivered", "settled")
# These do not name a message's place and queue themselves.
_ROUNDABOUT: Final = ("confirm.sent", "journal.appended", "journal.synced", "late")

# A line that is no event has a null here; it is counted, and read again only for the report of it.
LINES: Final = """
SELECT * REPLACE (CASE WHEN t_ns IS NOT NULL AND boot IS NOT NULL THEN event END AS event)
FROM read_json(
    ?, format = 'newline_delimited', columns = ?, ignore_errors = true, filename = true,
    maximum_object_size = 268435456
)
"""
# The parts of the trace, for `figures.totals_of`.
READ: Final = """
SELECT filename, CASE WHEN event IS NOT NULL THEN boot END AS boot, count(*), min(t_ns), max(t_ns)
FROM line GROUP BY ALL
"""
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
SELECT boot, given.batch AS batch, said.t_ns AS t_ns,
    given.place + cut - given.low AS low, given.place + next - 1 - given.low AS high
FROM filled
WHERE next > cut AND given.high >= cut AND said.high >= cut AND said.t_ns >= given.t_ns
"""
# The name of each queue number of a boot.
NAMES: Final = """
SELECT boot, queue_id, min(coalesce(vhost, '')) AS vhost, min(queue) AS queue FROM line
WHERE event IN ('message.enqueued', 'message.recovered') AND queue_id IS NOT NULL GROUP BY ALL
"""
KNOWN: Final = f"CREATE TEMP TABLE known AS {NAMES}"
SPANS: Final = """
CREATE TEMP TABLE span AS
SELECT boot, batch, event, CASE WHEN event IN ({of_queue}) THEN coalesce(vhost, '') END AS vhost,
    CASE WHEN event IN ({of_queue}) THEN queue END AS queue, t_ns,
    unnest(messages)[1] AS low, unnest(messages)[2] AS high
FROM line WHERE event IN ({named})
UNION ALL
SELECT line.boot, batch, event, known.vhost, known.queue, t_ns,
    unnest(messages)[1], unnest(messages)[2]
FROM line JOIN known USING (boot, queue_id) WHERE event = 'journal.appended'
UNION ALL
SELECT boot, batch, 'late', NULL, NULL, t_ns, unnest(messages)[1], unnest(messages)[2]
FROM line WHERE late
UNION ALL
SELECT boot, batch, 'confirm.sent', NULL, NULL, t_ns, low, high FROM sent
"""
# So many messages each of a batch stands for: as the trace was when it was first heard of.
WEIGHTS: Final = """
CREATE TEMP TABLE weight AS
SELECT begun.boot, begun.batch, greatest(coalesce(choice.one_of, 1), 1) AS one_of
FROM (SELECT boot, batch, min(t_ns) AS t_ns FROM span GROUP BY ALL) AS begun
ASOF LEFT JOIN choice ON begun.boot = choice.boot AND begun.t_ns >= choice.t_ns
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
SELECT span.boot, span.batch, event, vhost, queue, t_ns,
    unnest(range(begins.number, ends.number)) AS number
FROM span
JOIN segment AS begins
    ON span.boot = begins.boot AND span.batch = begins.batch AND span.low = begins.cut
JOIN segment AS ends
    ON span.boot = ends.boot AND span.batch = ends.batch AND span.high + 1 = ends.cut
"""
MESSAGES: Final = """
CREATE TEMP TABLE of_message AS
SELECT boot, batch, number, any_value(cut) AS place, any_value(messages) AS messages,
    any_value(one_of) AS one_of, {moments}
FROM part JOIN segment USING (boot, batch, number) JOIN weight USING (boot, batch)
WHERE queue IS NULL GROUP BY boot, batch, number
"""
QUEUES: Final = """
CREATE TEMP TABLE of_queue AS
WITH kept AS (
    SELECT boot, batch, vhost, queue, number, any_value(cut) AS place,
        any_value(messages) AS messages, any_value(one_of) AS one_of, {moments}
    FROM part JOIN segment USING (boot, batch, number) JOIN weight USING (boot, batch)
    WHERE queue IS NOT NULL GROUP BY boot, batch, vhost, queue, number
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
# Of the sample, and of all messages as far as it stands for them.
COUNTS: Final = """
SELECT vhost, queue, {counts} FROM of_queue WHERE late IS NULL GROUP BY vhost, queue
""".format(
    counts=", ".join(
        f"coalesce(sum({weight}) FILTER ({moment} IS NOT NULL), 0)::BIGINT AS {moment}{name}"
        for weight, name in (("messages", ""), ("messages * one_of", "_estimated"))
        for moment in COUNTED
    )
)
# How many messages took so long for a hop: in each queue, and (queue null) in all.
TOOK: Final = """
SELECT vhost, queue, hop, took_ns, sum(messages)::BIGINT AS messages,
    sum(messages * one_of)::BIGINT AS estimated
FROM ({took}) WHERE took_ns IS NOT NULL GROUP BY ALL
"""
# Of all that took so long, up to this value: the first that reaches the rank is the quantile.
LATENCIES: Final = """
WITH summed AS (
    SELECT vhost, queue, hop, took_ns, sum(messages) AS messages, sum(estimated) AS estimated
    FROM took GROUP BY ALL
), ranked AS (
    SELECT *,
        sum(messages) OVER (PARTITION BY vhost, queue, hop ORDER BY took_ns) AS up_to,
        sum(messages) OVER (PARTITION BY vhost, queue, hop) AS count
    FROM summed
)
SELECT vhost, queue, hop, any_value(count)::BIGINT AS messages,
    sum(estimated)::BIGINT AS estimated, {ranks}, max(took_ns) AS max_ns
FROM ranked GROUP BY vhost, queue, hop
""".format(
    # Whole numbers, so that no rank is off by one.
    ranks=", ".join(
        f"min(took_ns) FILTER (up_to * 1000 >= count * {round(quantile * 1000)}) AS q{number}"
        for number, quantile in enumerate(QUANTILES)
    )
)


def _listed(events: dict[str, str]) -> str:
    return ", ".join(f"'{event}'" for event in events)


def _moments(events: dict[str, str]) -> str:
    return ", ".join(
        f"min(t_ns) FILTER (event = '{event}') AS {name}" for event, name in events.items()
    )


def channel_steps() -> list[str]:
    """Make the table `sent` of the table `line`, which has all lines of its channels."""
    return [NUMBERED, ANSWERED, SENT]


def batch_steps() -> list[str]:
    """Make `of_message` and `of_queue`, in this order.

    Of the tables `line`, which has all lines of its batches, `sent`, `known` and `choice` (the rate
    from each moment on: boot, t_ns, one_of).
    """
    named = {event: name for event, name in MOMENTS.items() if event not in _ROUNDABOUT}
    of_message = ", ".join(f"of_message.{name}" for name in OF_MESSAGE.values())
    return [
        SPANS.format(of_queue=_listed(OF_QUEUE), named=_listed(named)),
        WEIGHTS,
        SEGMENTS,
        PARTS,
        MESSAGES.format(moments=_moments(OF_MESSAGE)),
        QUEUES.format(moments=_moments(OF_QUEUE), of_message=of_message),
    ]


def took() -> str:
    """A query of how long each hop took (TOOK), of the tables that `batch_steps` makes."""
    parts = []
    for hop in HOPS:
        ns = f"{MOMENTS[hop.end]} - {MOMENTS[hop.begin]} AS took_ns"
        table = "of_queue" if hop.is_per_queue else "of_message"
        scopes = ["NULL AS vhost, NULL AS queue"]
        if hop.name in QUEUE_HOPS:
            scopes.append("vhost, queue")
        parts += [
            f"SELECT {scope}, '{hop.name}' AS hop, messages, one_of, {ns} "
            f"FROM {table} WHERE late IS NULL"
            for scope in scopes
        ]
    return TOOK.format(took=" UNION ALL ".join(parts))
