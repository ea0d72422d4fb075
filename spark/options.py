"""Every option of `format("amqp")`: names, defaults, and the errors of invalid values.

Spark hands options over with their keys in lower case and all values as text; here capitals, `_`
and `-` in a name make no difference. An unknown name is an error that names the closest one. All of
it is checked in the planner, before any task. No message repeats a value that may be a secret.

For each kind of value there is a parser. It raises OptionError, whose message continues behind the
option's name, if the text is no such value.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Final, TypeVar

from ..amqp_frames.constants import SHORT_STRING_BYTES_MAX
from .errors import PlainError
from .uri import Address, Brokers, Secret, UriError, parse_port, parse_uri

SHORT_MAX: Final = 0xFFFF
LONG_MAX: Final = (1 << 63) - 1
# The values of ackMode.
AFTER_COMMIT: Final = "after-commit"
PEEK: Final = "peek"
DRAIN: Final = "drain"

# How s3://..., file:/... and their like begin.
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


class OptionError(PlainError, ValueError):
    """An option that cannot be; one line for people, without any secret."""


def parse_text(text: str) -> str:
    """Any text."""
    return text


def parse_boolean(text: str) -> bool:
    """true or false, in any capitals."""
    if text.lower() not in ("true", "false"):
        raise OptionError(f"must be true or false, not {text!r}")
    return text.lower() == "true"


def whole_number(least: int, most: int = LONG_MAX) -> Callable[[str], int]:
    """Make the parser of a whole number from `least` to `most`."""

    def parse(text: str) -> int:
        if not (text.isascii() and text.isdecimal() and least <= int(text) <= most):
            raise OptionError(f"must be a whole number from {least} to {most}, not {text!r}")
        return int(text)

    return parse


def one_of(*choices: str) -> Callable[[str], str]:
    """Make the parser of one of these words, in any capitals."""

    def parse(text: str) -> str:
        if text.lower() not in choices:
            raise OptionError(f"must be one of {', '.join(choices)}, not {text!r}")
        return text.lower()

    return parse


def parse_short_string(text: str) -> str:
    """A text of at most 255 octets: AMQP stores its length in one octet."""
    if len(text.encode()) > SHORT_STRING_BYTES_MAX:
        raise OptionError(f"has more than {SHORT_STRING_BYTES_MAX} octets")
    return text


def parse_filled(text: str) -> str:
    """A text that is not empty."""
    if not text:
        raise OptionError("is empty")
    return text


def parse_names(text: str) -> tuple[str, ...]:
    """Names with commas between, each once."""
    names = tuple(parse_short_string(name.strip()) for name in text.split(",") if name.strip())
    if not names:
        raise OptionError("must be names with commas between")
    if len(set(names)) < len(names):
        raise OptionError("has a name twice")
    return names


def parse_directory(text: str) -> str:
    """A directory of this machine's, wherever a process of Spark's was started."""
    if _SCHEME.match(text):
        raise OptionError(f"must be a directory of the driver's own file system, not {text!r}")
    if not os.path.isabs(text):
        raise OptionError(f"must be an absolute path, not {text!r}")
    return os.path.normpath(text)


OUTAGE_MS: Final = 5 * 60 * 1000

# What Spark puts among the options of a stream's writer.
_SPARKS_OWN: Final = frozenset({"checkpointlocation"})


def closest(name: str, names: Iterable[str]) -> str:
    """Say which of the names may have been meant, as the end of a sentence."""
    plain = {_plain(each): each for each in names}
    found = difflib.get_close_matches(_plain(name), plain, n=1)
    return f" (did you mean {plain[found[0]]}?)" if found else ""


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


def _option(default: Any, parse: Callable[[str], Any]) -> Any:
    return field(default=default, metadata={"parse": parse})


# How to reach the broker: `uri`, or host and port; a password is given at most once.
_CONNECTION: Final[dict[str, Callable[[str], Any]]] = {
    "uri": parse_text,
    "host": parse_text,
    "port": parse_port,
    "vhost": parse_text,
    "user": parse_text,
    "password": Secret,
    "passwordFile": parse_text,
    "passwordEnv": parse_text,
    "caFile": parse_text,
    "certFile": parse_text,
    "keyFile": parse_text,
}


@dataclass(frozen=True)
class ConnectionOptions:
    """The options that reading and writing have in common."""

    brokers: Brokers = field(default=Brokers((Address("localhost", 5672),)))
    heartbeat_s: int = _option(60, whole_number(0, SHORT_MAX))
    connect_timeout_ms: int = _option(10_000, whole_number(1))
    # Five minutes: a broker that is started again, or moved, is not what a job should fail of.
    reconnect_timeout_ms: int = _option(OUTAGE_MS, whole_number(0))


@dataclass(frozen=True)
class WriteOptions(ConnectionOptions):
    """The sink's; exchange and routing key, if given, are those of every row."""

    exchange: str | None = _option(None, parse_short_string)
    routing_key: str | None = _option(None, parse_short_string)
    mandatory: bool = _option(True, parse_boolean)
    delivery_mode: int = _option(2, whole_number(1, 2))
    max_in_flight: int = _option(2000, whole_number(1, 1_000_000))
    max_in_flight_bytes: int = _option(64 << 20, whole_number(1))
    confirm_timeout_ms: int = _option(OUTAGE_MS, whole_number(1))
    on_returned: str = _option("fail", one_of("fail", "deadletter", "count", "ignore"))
    on_invalid: str = _option("fail", one_of("fail", "deadletter", "count", "ignore"))
    on_nacked: str = _option("retry", one_of("retry", "deadletter", "ignore"))
    publish_retries: int = _option(3, whole_number(0, 1_000_000))
    retry_backoff_ms: int = _option(200, whole_number(0))
    dead_letter_exchange: str | None = _option(None, parse_short_string)
    dead_letter_routing_key: str | None = _option(None, parse_short_string)
    dedup: str = _option("content", one_of("content", "position", "none"))
    dedup_scope: str = _option("auto", parse_filled)
    max_returned_samples: int = _option(20, whole_number(0, 10_000))
    ignore_unknown_columns: bool = _option(False, parse_boolean)


@dataclass(frozen=True)
class ReadOptions(ConnectionOptions):
    """The source's; None: the valid value differs between a stream and a batch."""

    queue: tuple[str, ...] = _option((), parse_names)
    prefetch: int | None = _option(None, whole_number(1, SHORT_MAX))
    max_records_per_trigger: int = _option(10_000, whole_number(1))
    max_bytes_per_trigger: int = _option(32 * 1024 * 1024, whole_number(1))
    num_partitions: int | None = _option(None, whole_number(1, 100_000))
    poll_timeout_ms: int = _option(200, whole_number(0))
    ack_mode: str | None = _option(None, one_of(AFTER_COMMIT, PEEK, DRAIN))
    limit: int | None = _option(None, whole_number(0))
    idle_timeout_ms: int = _option(1000, whole_number(0))
    fail_on_unreachable: bool = _option(False, parse_boolean)
    max_held_bytes: int = _option(128 << 20, whole_number(1))
    spool_location: str | None = _option(None, parse_directory)


def write_options(given: Mapping[str, str]) -> WriteOptions:
    """Read the sink's options; OptionError if they cannot be."""
    options = _read(WriteOptions, given)
    if options.dead_letter_exchange is None and "deadletter" in (
        options.on_returned,
        options.on_invalid,
        options.on_nacked,
    ):
        raise OptionError('"deadletter" needs the option deadLetterExchange')
    return options


def read_options(
    given: Mapping[str, str], idle: Collection[str] = (), **defaults: Any
) -> ReadOptions:
    """Read the source's options; OptionError if they cannot be.

    `idle`: those that would change nothing in this way of reading. `defaults`: those of this way,
    where they are not a stream's.
    """
    # A list of queues may be called what it is.
    plain = {"queue" if _plain(name) == "queues" else name: each for name, each in given.items()}
    if len(plain) < len(given):
        raise OptionError("queue and queues are one option: give it once")
    options = _read(ReadOptions, plain, **defaults)
    if not options.queue:
        raise OptionError("the option queue says what to read, and is missing")
    plain_given = {_plain(name) for name in given}
    for name in idle:
        if _plain(name) in plain_given:
            raise OptionError(f"the option {name} is not for this way of reading")
    return options


_Options = TypeVar("_Options", bound=ConnectionOptions)


def _read(kind: type[_Options], given: Mapping[str, str], **defaults: Any) -> _Options:
    parsers = dict(_CONNECTION)
    places = {}
    for each in fields(kind):
        if "parse" in each.metadata:
            name = option_name(each.name)
            parsers[name] = each.metadata["parse"]
            places[name] = each.name
    values = _parsed(parsers, given)
    connection = {name: value for name, value in values.items() if name in _CONNECTION}
    own = {places[name]: value for name, value in values.items() if name in places}
    return kind(brokers=_brokers(connection), **(defaults | own))


def option_name(place: str) -> str:
    """Give the name that users write: maxInFlight for max_in_flight."""
    first, *others = place.removesuffix("_s").split("_")
    return first + "".join(each.capitalize() for each in others)


def _parsed(
    parsers: Mapping[str, Callable[[str], Any]], given: Mapping[str, str]
) -> dict[str, Any]:
    names = {_plain(name): name for name in parsers}
    values: dict[str, Any] = {}
    for key, text in given.items():
        plain = _plain(key)
        if plain in _SPARKS_OWN:
            continue
        if plain not in names:
            raise OptionError(_unknown(key, parsers))
        name = names[plain]
        if name in values:
            raise OptionError(f"the option {name} is given twice, in two spellings")
        try:
            values[name] = parsers[name](text)
        except (OptionError, UriError) as error:
            raise OptionError(f"the option {name}: {error}") from None
    return values


def _unknown(key: str, names: Collection[str]) -> str:
    if key.lower() == "path":
        return "there is no path: options say what to read or write, load() and save() take none"
    return f"unknown option {key!r}{closest(key, names)}"


def _brokers(values: Mapping[str, Any]) -> Brokers:
    if "uri" in values and (twice := {"host", "port", "vhost", "user"} & values.keys()):
        raise OptionError(f"uri says it all: leave out {', '.join(sorted(twice))}")
    has_tls_files = bool({"caFile", "certFile", "keyFile"} & values.keys())
    try:
        brokers = parse_uri(values["uri"]) if "uri" in values else _from_parts(values)
    except UriError as error:
        raise OptionError(f"the option uri: {error}") from None
    if has_tls_files:
        if brokers.tls is None:
            raise OptionError("caFile, certFile and keyFile need a uri that begins with amqps://")
        named = {"ca_file": "caFile", "cert_file": "certFile", "key_file": "keyFile"}
        files = {place: values[name] for place, name in named.items() if name in values}
        brokers = replace(brokers, tls=replace(brokers.tls, **files))
    password = _password(values)
    return brokers if password is None else replace(brokers, password=password)


def _from_parts(values: Mapping[str, Any]) -> Brokers:
    address = Address(values.get("host", "localhost"), values.get("port", 5672))
    return Brokers((address,), values.get("vhost", "/"), values.get("user", "guest"))


def _password(values: Mapping[str, Any]) -> Secret | None:
    """The password that an option leads to; read in the planner: workers need no file."""
    given = [name for name in ("password", "passwordFile", "passwordEnv") if name in values]
    if not given:
        return None
    if len(given) > 1:
        raise OptionError(f"{' and '.join(given)}: give one of them")
    [way] = given
    value = values[way]
    if way == "passwordFile":
        try:
            return Secret(Path(value).read_text().rstrip("\r\n"))
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
            raise OptionError(f"the option passwordFile: {value}: {reason}") from None
    if way == "passwordEnv":
        if value not in os.environ:
            raise OptionError(f"the option passwordEnv: {value} is not set where Spark plans")
        return Secret(os.environ[value])
    assert isinstance(value, Secret)
    return value
