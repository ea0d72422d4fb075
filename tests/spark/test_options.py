from __future__ import annotations

import pickle
from dataclasses import fields
from pathlib import Path

import pytest
from leveret.spark.connecting import parameters
from leveret.spark.options import (
    OptionError,
    ReadOptions,
    WriteOptions,
    option_name,
    read_options,
    write_options,
)
from leveret.spark.uri import Address, Secret, Tls


def test_without_options_the_broker_is_on_this_machine_and_nothing_is_lost_silently() -> None:
    options = write_options({})
    assert options == WriteOptions()
    assert options.brokers.addresses == (Address("localhost", 5672),)
    assert (options.brokers.user, options.brokers.password) == ("guest", Secret("guest"))
    assert (options.mandatory, options.delivery_mode) == (True, 2)
    assert (options.on_returned, options.on_nacked) == ("fail", "retry")
    assert (options.max_in_flight, options.confirm_timeout_ms) == (2000, 300_000)
    assert options.reconnect_timeout_ms == 300_000
    assert (options.publish_retries, options.retry_backoff_ms) == (3, 200)
    assert (options.dedup, options.dedup_scope) == ("content", "auto")


def test_without_options_a_reader_is_bounded() -> None:
    options = read_options({"queue": "orders"})
    assert options == ReadOptions(queue=("orders",))
    assert (options.max_records_per_trigger, options.max_bytes_per_trigger) == (10_000, 32 << 20)
    assert options.max_held_bytes == 128 << 20
    assert (options.poll_timeout_ms, options.idle_timeout_ms) == (200, 1000)
    assert (options.reconnect_timeout_ms, options.fail_on_unreachable) == (300_000, False)


@pytest.mark.parametrize("name", ["maxInFlight", "maxinflight", "max_in_flight", "MAX-IN-FLIGHT"])
def test_capitals_and_underlines_make_no_difference(name: str) -> None:
    assert write_options({name: "7"}).max_in_flight == 7


def test_every_option_has_a_name_in_camel_case() -> None:
    names = [option_name(field.name) for field in (*fields(WriteOptions), *fields(ReadOptions))]
    assert "confirmTimeoutMs" in names
    assert "heartbeat" in names
    assert "pollTimeoutMs" in names


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"maxInFligt": "1"}, "unknown option 'maxInFligt' (did you mean maxInFlight?)"),
        ({"routingkeys": "a"}, "unknown option 'routingkeys' (did you mean routingKey?)"),
        ({"zzz": "1"}, "unknown option 'zzz'"),
        ({"queue": "a"}, "unknown option 'queue'"),
        ({"path": "a"}, "there is no path: options say what to read or write"),
        ({"maxInFlight": "1", "max_in_flight": "1"}, "maxInFlight is given twice"),
        ({"maxInFlight": "0"}, "maxInFlight: must be a whole number from 1 to 1000000, not '0'"),
        ({"maxInFlight": "many"}, "maxInFlight: must be a whole number"),
        ({"deliveryMode": "3"}, "deliveryMode: must be a whole number from 1 to 2, not '3'"),
        ({"mandatory": "yes"}, "mandatory: must be true or false, not 'yes'"),
        ({"onReturned": "drop"}, "must be one of fail, deadletter, count, ignore, not 'drop'"),
        ({"onNacked": "fail"}, "onNacked: must be one of retry, deadletter, ignore, not 'fail'"),
        ({"dedup": "yes"}, "dedup: must be one of content, position, none, not 'yes'"),
        ({"onReturned": "deadletter"}, '"deadletter" needs the option deadLetterExchange'),
        ({"onNacked": "deadletter"}, '"deadletter" needs the option deadLetterExchange'),
        ({"uri": "amqp://a", "host": "b"}, "uri says it all: leave out host"),
        ({"uri": "http://a"}, "the option uri: uri must begin with amqp://"),
        ({"port": "x"}, "the option port: a port must be a number from 1 to 65535"),
        ({"password": "secret", "passwordEnv": "X"}, "password and passwordEnv: give one of them"),
        ({"passwordFile": "/nowhere/x"}, "passwordFile: /nowhere/x: No such file or directory"),
        ({"passwordEnv": "LEVERET_NOT_SET"}, "LEVERET_NOT_SET is not set where Spark plans"),
        ({"uri": "amqp://u:secret@a:b"}, "the option uri: a port must be"),
        ({"caFile": "x"}, "need a uri that begins with amqps://"),
        ({"exchange": "x" * 256}, "the option exchange: has more than 255 octets"),
        ({"deadLetterRoutingKey": "ä" * 128}, "deadLetterRoutingKey: has more than 255 octets"),
        ({"dedupScope": ""}, "the option dedupScope: is empty"),
    ],
)
def test_an_option_that_cannot_be_says_which_and_why(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        write_options(given)
    assert said in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "the option queue says what to read, and is missing"),
        ({"queue": " , "}, "the option queue: must be names with commas between"),
        ({"queue": "a", "queues": "b"}, "queue and queues are one option"),
        ({"queue": "a, b, a"}, "the option queue: has a name twice"),
        ({"queue": "x" * 256}, "the option queue: has more than 255 octets"),
        ({"queue": "a", "prefetch": "65536"}, "prefetch: must be a whole number from 1 to 65535"),
        ({"queue": "a", "exchange": "b"}, "unknown option 'exchange'"),
    ],
)
def test_a_readers_option_that_cannot_be_says_which(given: dict[str, str], said: str) -> None:
    with pytest.raises(OptionError) as caught:
        read_options(given)
    assert said in str(caught.value)


def test_an_option_that_changes_nothing_in_this_way_of_reading_is_an_error() -> None:
    for name in ("limit", "LIMIT", "poll_timeout_ms"):
        with pytest.raises(OptionError, match=r"the option \w+ is not for this way of reading"):
            read_options({"queue": "a", name: "1"}, idle=("limit", "pollTimeoutMs"))


def test_files_for_tls_that_are_not_there_are_named() -> None:
    options = write_options({"uri": "amqps://h", "caFile": "/nowhere/ca.pem"})
    with pytest.raises(OptionError, match=r"TLS with /nowhere/ca\.pem: .*No such file"):
        parameters(options, options.brokers.addresses[0], {})


def test_what_spark_adds_for_its_streams_is_no_option() -> None:
    assert write_options({"checkpointlocation": "/tmp/c"}) == WriteOptions()


def test_a_password_comes_from_a_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "password"
    file.write_text("from file\n")
    monkeypatch.setenv("BROKER_PASSWORD", "from environment")
    uri = "amqp://ann:in-uri@h"
    for given, expected in (
        ({"uri": uri}, "in-uri"),
        ({"uri": uri, "password": "given"}, "given"),
        ({"user": "ann", "passwordFile": str(file)}, "from file"),
        ({"uri": uri, "passwordEnv": "BROKER_PASSWORD"}, "from environment"),
    ):
        options = write_options(given)
        assert options.brokers.user == "ann"
        assert options.brokers.password.reveal() == expected
        assert expected not in repr(options)
        assert pickle.loads(pickle.dumps(options)) == options


def test_tls_files_may_be_options() -> None:
    options = write_options({"uri": "amqps://h?keyfile=k", "caFile": "ca", "certFile": "c"})
    assert options.brokers.tls == Tls("ca", "c", "k")
