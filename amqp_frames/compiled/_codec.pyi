from array import array
from collections.abc import Iterable, Sequence

from ..messages.batch import Batch, Columns

_Column = array[int]

REVISION: int

# The end of the run, the bytes that it needs, the flagged, the largest frame's bytes, and columns
# where there is a publish: decode_batch of PublishRun. New keys come to `numbers` and `distinct`.
def publishes(
    wire: bytes,
    position: int,
    channel_number: int,
    frame_max_bytes: int,
    body_bytes_max: int,
    numbers: dict[bytes, int],
    distinct: list[bytes],
    /,
) -> tuple[int, int, list[int] | None, int, Columns | None]: ...

# Channel number, distinct keys, the flagged, the largest frame's bytes and columns, if the data is
# nothing but publishes of one channel: decode_alone of PublishRun.
def publishes_alone(
    data: bytes, frame_max_bytes: int, body_bytes_max: int, /
) -> tuple[int, list[bytes], list[int] | None, int, Columns] | None: ...

# The end of the run, its tags and bits: decode_acks in amqp_frames/decoder.py.
def acks(data: bytes, position: int, /) -> tuple[int, _Column, bytearray]: ...

# `begin` is the methods' payload up to the tag: encode_deliveries.
def deliveries(
    wire: bytes,
    headers: _Column,
    ends: _Column,
    keys: _Column,
    distinct: list[bytes],
    indexes: Sequence[int],
    channel_number: int,
    has_other_channel: bool,
    begin: bytes,
    first_delivery_tag: int,
    redelivered: bool,
    /,
) -> bytes: ...

# `begin` is the methods' payload up to the names: encode_returns.
def returns(
    wire: bytes,
    headers: _Column,
    ends: _Column,
    keys: _Column,
    distinct: list[bytes],
    indexes: Sequence[int],
    channel_number: int,
    has_other_channel: bool,
    begin: bytes,
    first_seq_no: int,
    /,
) -> bytes: ...

# encode_answers.
def answers(
    channel_number: int,
    method_id: int,
    bits: int,
    cumulative: int,
    singles: Iterable[tuple[int, int]],
    /,
) -> bytes: ...

# Wire, channel number, starts, headers, ends, keys, distinct, persistent and the largest frame's
# bytes of the merged batch: merged in amqp_frames/messages/merging.py.
def merge(
    batches: Sequence[Batch], /
) -> tuple[bytes, int, _Column, _Column, _Column, _Column, list[bytes], bytearray, int]: ...

# rows_of in amqp_frames/messages/indexes.py.
def rows(keys: _Column, row_of_key: _Column, row_count: int, count: int, /) -> list[_Column]: ...

# split, divided and ranges_of in the same module.
def split(
    indexes: Sequence[int], flags: bytes | bytearray, first_number: int, /
) -> tuple[_Column, _Column, _Column]: ...
def divide(indexes: Sequence[int], chosen: Sequence[int], /) -> tuple[_Column, _Column]: ...
def ranges(indexes: Sequence[int], first_number: int, /) -> list[tuple[int, int]]: ...

# The end of a run of such commands, topics, keys, begins, ends, counts and delays: decode_run in
# nsq_frames/publishes.py.
def nsq_bodies(
    data: bytes,
    position: int,
    command: bytes,
    message_bytes_max: int,
    body_bytes_max: int,
    delay_ms_max: int,
    /,
) -> tuple[int, list[bytes], _Column, _Column, _Column, _Column, _Column]: ...

# Wire, starts, headers, ends, persistent and the largest frame's bytes: encode_publishes.
def nsq_publishes(
    data: bytes, topics: list[bytes], keys: _Column, begins: _Column, ends: _Column, /
) -> tuple[bytes, _Column, _Column, _Column, bytearray, int]: ...

# decode_finishes in nsq_frames/finishes.py.
def nsq_finishes(data: bytes, position: int, /) -> tuple[list[tuple[int, int]], int]: ...

# encode_messages in nsq_frames/deliveries.py.
def nsq_messages(
    wire: bytes,
    headers: Sequence[int],
    ends: Sequence[int],
    indexes: Sequence[int],
    first_entry_id: int,
    attempts: int,
    timestamp_ns: int,
    /,
) -> bytes: ...
