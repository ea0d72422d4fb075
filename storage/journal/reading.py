"""Messages that are read back from the journal while the broker runs."""

from __future__ import annotations

from typing import NamedTuple

from ...amqp_frames.messages.batch import Batch, Indexes


class ReadRow(NamedTuple):
    """Messages of one batch with consecutive entry ids, `first_entry_id` on."""

    batch: Batch
    indexes: Indexes
    first_entry_id: int
