"""Methods as declared classes: the annotations are the wire types, the codec is made of them.

    @method(60, 30)
    class BasicCancel(Method):
        consumer_tag: ShortString = ""
        no_wait: Bit = False

At import, `method` makes the class a frozen dataclass and compiles its annotations into a Layout:
one step per field, neighbouring numbers as one struct, up to eight neighbouring bits as one octet.

Decoding follows RabbitMQ's generated decoder (rabbit_framing_amqp_0_9_1, rabbit_misc:frame_error):
- arguments that end early or late are 501 FRAME_ERROR "cannot decode <<...>>", before anything
  in them is looked at;
- a short string that is not UTF-8 is 501 FRAME_ERROR "Malformed UTF-8 in shortstr", except in
  methods with content (publish, return, deliver, get-ok), where it is taken as it is, with
  surrogate escapes (amqp_frames/values/field_table.py);
- bits beyond the last named one are ignored.
A malformed table inside is then 502 SYNTAX_ERROR, see amqp_frames/values/field_table.py. Long
strings are bytes.

A class or method id that is not known is HardError 540 NOT_IMPLEMENTED with those ids, as the
specification and LavinMQ have it. (RabbitMQ's reader crashes on it, in rabbit_command_assembler:
analyze_frame, so its clients see the socket close without a word.) A payload too short for the
ids is RabbitMQ's 501 FRAME_ERROR "unknown_frame".

Steps do not check bounds: positions only grow, so the check for the exact end finds all that
reach beyond it; and what they build of bytes behind the end is then thrown away.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from itertools import groupby
from struct import Struct
from struct import error as StructError  # noqa: N812 - an exception that struct spells small
from typing import (
    Annotated,
    ClassVar,
    Final,
    Protocol,
    TypeVar,
    dataclass_transform,
    get_args,
    get_type_hints,
)

from ..constants import (
    FRAME_END,
    FRAME_ERROR,
    FRAME_METHOD,
    NOT_IMPLEMENTED,
    SHORT_STRING_BYTES_MAX,
)
from ..errors import HardError
from ..values.field_table import (
    Table,
    decode_table,
    decode_text,
    encode_short_string,
    encode_table,
)

Octet = Annotated[int, "octet"]
Short = Annotated[int, "short"]
Long = Annotated[int, "long"]
LongLong = Annotated[int, "longlong"]
Bit = Annotated[bool, "bit"]
ShortString = Annotated[str, "shortstr"]
LongString = Annotated[bytes, "longstr"]
FieldTable = Annotated[Table, "table"]

_NUMBER_FORMATS: Final = {"octet": "B", "short": "H", "long": "I", "longlong": "Q"}
_BITS_PER_OCTET: Final = 8
_LENGTH: Final = Struct(">I")
_PREFIX: Final = Struct(">HH")


class Method:
    """Base of all methods. The class attributes say which one it is."""

    __slots__ = ()

    class_id: ClassVar[int]
    method_id: ClassVar[int]
    # As the specification spells it: "queue.declare-ok".
    name: ClassVar[str]
    # Whether a content header and body follow.
    has_content: ClassVar[bool]
    # class_id and method_id as a frame's payload begins.
    prefix: ClassVar[bytes]
    layout: ClassVar[Layout]


class _Step(Protocol):
    """Reads and writes one field, or several that lie in one octet or one struct."""

    def read(self, data: bytes, position: int, values: list[object]) -> int:
        """Decode the value at `position`, append it to `values`, and return the position after
        it."""

    def write(self, method: Method) -> bytes:
        """The octets of this step's fields."""


class _Numbers:
    def __init__(self, names: Sequence[str], wire_types: Sequence[str]) -> None:
        self._names = names
        self._struct = Struct(">" + "".join(_NUMBER_FORMATS[each] for each in wire_types))

    def read(self, data: bytes, position: int, values: list[object]) -> int:
        values.extend(self._struct.unpack_from(data, position))
        return position + self._struct.size

    def write(self, method: Method) -> bytes:
        return self._struct.pack(*[getattr(method, name) for name in self._names])


class _Bits:
    def __init__(self, names: Sequence[str]) -> None:
        assert len(names) <= _BITS_PER_OCTET, names
        self._names = names
        self._mask = (1 << len(names)) - 1
        # What each octet says, looked up instead of computed.
        self._values = [
            tuple(bool(octet >> bit & 1) for bit in range(len(names)))
            for octet in range(1 << len(names))
        ]

    def read(self, data: bytes, position: int, values: list[object]) -> int:
        values.extend(self._values[data[position] & self._mask])
        return position + 1

    def write(self, method: Method) -> bytes:
        octet = sum(bool(getattr(method, name)) << bit for bit, name in enumerate(self._names))
        return bytes((octet,))


class _ShortString:
    """Leaves the text's octets, which Layout decodes once it knows that the end is right."""

    def __init__(self, name: str) -> None:
        self._name = name

    def read(self, data: bytes, position: int, values: list[object]) -> int:
        end = position + 1 + data[position]
        values.append(data[position + 1 : end])
        return end

    def write(self, method: Method) -> bytes:
        return encode_short_string(getattr(method, self._name))


class _LongString:
    def __init__(self, name: str) -> None:
        self._name = name

    def read(self, data: bytes, position: int, values: list[object]) -> int:
        end: int = position + 4 + _LENGTH.unpack_from(data, position)[0]
        values.append(data[position + 4 : end])
        return end

    def write(self, method: Method) -> bytes:
        octets: bytes = getattr(method, self._name)
        return _LENGTH.pack(len(octets)) + octets


class _FieldTable:
    """Leaves the table's octets, which Layout decodes once it knows that the end is right."""

    def __init__(self, name: str) -> None:
        self._name = name

    def read(self, data: bytes, position: int, values: list[object]) -> int:
        end: int = position + 4 + _LENGTH.unpack_from(data, position)[0]
        values.append(data[position:end])
        return end

    def write(self, method: Method) -> bytes:
        return encode_table(getattr(method, self._name))


class Layout:
    """The argument list of one method, compiled."""

    def __init__(self, made: type[Method]) -> None:
        hints = get_type_hints(made, include_extras=True)
        wire_types = [(each.name, get_args(hints[each.name])[1]) for each in fields(made)]  # type: ignore[arg-type]
        self._made = made
        self._steps = _steps_of(wire_types)
        self._tables = [at for at, (_, wire) in enumerate(wire_types) if wire == "table"]
        self._strings = [at for at, (_, wire) in enumerate(wire_types) if wire == "shortstr"]
        self._has_checked_strings = not made.has_content

    def decode(self, data: bytes, start: int, end: int) -> Method:
        """The method whose arguments are exactly data[start:end]."""
        values: list[object] = []
        position = start
        try:
            for step in self._steps:
                position = step.read(data, position, values)
        except (IndexError, StructError):
            raise self._cannot_decode(data[start:end]) from None
        if position != end:
            raise self._cannot_decode(data[start:end])
        for at in self._strings:
            octets = values[at]
            assert isinstance(octets, bytes)
            if not self._has_checked_strings:
                values[at] = decode_text(octets)
                continue
            try:
                values[at] = octets.decode()
            except UnicodeDecodeError:
                # RabbitMQ names no method here.
                raise HardError(FRAME_ERROR, "Malformed UTF-8 in shortstr") from None
        for at in self._tables:
            octets = values[at]
            assert isinstance(octets, bytes)
            # Most tables are empty: nothing but their length.
            values[at] = self._decode_table(octets) if len(octets) > _LENGTH.size else {}
        return self._made(*values)

    def _decode_table(self, octets: bytes) -> Table:
        try:
            return decode_table(octets, 0, len(octets))
        except HardError as error:
            error.class_id = self._made.class_id
            error.method_id = self._made.method_id
            raise

    def encode(self, method: Method) -> bytes:
        """The octets of the arguments; ValueError if one does not fit its type."""
        try:
            return b"".join([step.write(method) for step in self._steps])
        except StructError as error:
            raise ValueError(f"{error}: {method!r}") from error

    def _cannot_decode(self, arguments: bytes) -> HardError:
        # As Erlang prints a binary. Of a longer one the reply text has no room to show more.
        octets = ",".join(map(str, arguments[:SHORT_STRING_BYTES_MAX]))
        return self._frame_error(f"cannot decode <<{octets}>>")

    def _frame_error(self, explanation: str) -> HardError:
        return HardError(FRAME_ERROR, explanation, self._made.class_id, self._made.method_id)


_STRING_STEPS: Final[dict[str, Callable[[str], _Step]]] = {
    "shortstr": _ShortString,
    "longstr": _LongString,
    "table": _FieldTable,
}


def _steps_of(wire_types: list[tuple[str, str]]) -> list[_Step]:
    """One step per field, but one for all neighbouring numbers and one for neighbouring bits."""
    steps: list[_Step] = []
    for wire, neighbours in groupby(wire_types, lambda each: _shared_step(each[1])):
        names, kinds = zip(*neighbours, strict=True)
        if wire == "number":
            steps.append(_Numbers(names, kinds))
        elif wire == "bit":
            steps.append(_Bits(names))
        else:
            steps.extend(_STRING_STEPS[wire](name) for name in names)
    return steps


def _shared_step(wire: str) -> str:
    return "number" if wire in _NUMBER_FORMATS else wire


# All methods by the four octets that their payload begins with.
METHODS: Final[dict[bytes, type[Method]]] = {}

_M = TypeVar("_M", bound=Method)


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def method(
    class_id: int, method_id: int, *, has_content: bool = False
) -> Callable[[type[_M]], type[_M]]:
    """Make the class a frozen dataclass, give it its ids and name and compile its layout."""

    def make(declared: type[_M]) -> type[_M]:
        made = dataclass(frozen=True, slots=True)(declared)
        made.class_id = class_id
        made.method_id = method_id
        made.has_content = has_content
        made.prefix = _PREFIX.pack(class_id, method_id)
        # QueueDeclareOk -> queue.declare-ok
        family, *words = re.findall("[A-Z][a-z]+", declared.__name__)
        made.name = f"{family}.{'-'.join(words)}".lower()
        made.layout = Layout(made)
        METHODS[made.prefix] = made
        return made

    return make


_FRAME_START: Final = Struct(">BHI")
_FRAME_END: Final = bytes((FRAME_END,))
_PREFIX_BYTES: Final = 4


def decode_method(data: bytes, start: int, end: int) -> Method:
    """The method whose frame has the payload data[start:end]."""
    arguments_at = start + _PREFIX_BYTES
    made = METHODS.get(data[start:arguments_at])
    if made is None or arguments_at > end:
        raise _unknown(data[start:end])
    return made.layout.decode(data, arguments_at, end)


def encode_method(channel: int, method: Method) -> bytes:
    """The whole frame; ValueError if a field does not fit its wire type."""
    arguments = method.layout.encode(method)
    size = _PREFIX_BYTES + len(arguments)
    frame_start = _FRAME_START.pack(FRAME_METHOD, channel, size)
    return b"".join((frame_start, method.prefix, arguments, _FRAME_END))


def _unknown(payload: bytes) -> HardError:
    if len(payload) < _PREFIX_BYTES:
        octets = ",".join(map(str, payload))
        text = f"type {FRAME_METHOD}, all octets = <<{octets}>>: unknown_frame"
        return HardError(FRAME_ERROR, text)
    class_id = int.from_bytes(payload[:2], "big")
    method_id = int.from_bytes(payload[2:4], "big")
    return HardError(
        NOT_IMPLEMENTED, f"unknown method {class_id}, {method_id}", class_id, method_id
    )
