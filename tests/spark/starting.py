"""Starts queries that read with a Python process of their own, on a machine however busy.

Spark gives that process ten seconds to begin and connect, which nothing can change.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql.streaming import DataStreamWriter, StreamingQuery

POLL_SECONDS = 0.01
TOO_LATE = "Python worker failed to connect back"


def started(writer: DataStreamWriter) -> StreamingQuery:
    """Start the query, and again if Spark would not wait for its process any longer."""
    pause = threading.Event()
    while True:
        query = writer.start()
        while query.isActive and query.status["message"].startswith("Initializing"):
            pause.wait(POLL_SECONDS)
        if query.isActive or TOO_LATE not in str(query.exception()):
            return query
