"""A session full of passwords, and none of them in the log or in the trace."""

from __future__ import annotations

import io
import json
import sys
from base64 import b64encode
from collections import Counter
from pathlib import Path
from typing import Any

import leveret
import pytest
from asking_http import asked
from insides import readers, wait_until
from leveret.amqp_frames.constants import PROTOCOL_HEADER
from leveret.amqp_frames.methods import (
    ChannelClose,
    ConnectionOpen,
    ConnectionStartOk,
    ConnectionTune,
    ConnectionTuneOk,
    ConnectionUpdateSecret,
    ConnectionUpdateSecretOk,
    QueueDeclare,
)
from leveret.amqp_frames.values.field_table import encode_table, table_of
from leveret.commands.control_client import ask_broker
from leveret.open_accounts import new_password_hash
from wire import Client, frame, methods_of

# In every password here.
SECRET = "s3cret"
AS_NUMBERS = ",".join(map(str, SECRET.encode()))
URI = f"amqp://ann:{SECRET}-of/a@uri@host:5672/shop"


def plain(password: str, user: str = "guest") -> ConnectionStartOk:
    return ConnectionStartOk({}, "PLAIN", f"\0{user}\0{password}".encode(), "en_US")


def amqplain(password: str) -> ConnectionStartOk:
    response = encode_table(table_of({"LOGIN": "guest", "PASSWORD": password}))[4:]
    return ConnectionStartOk({}, "AMQPLAIN", response, "en_US")


def begun(broker: leveret.Broker, *after_header: bytes) -> Client:
    client = Client(broker.host, broker.port)
    client.send(PROTOCOL_HEADER, *after_header)
    return client


def opened(broker: leveret.Broker, login: ConnectionStartOk, vhost: str = "/") -> Client:
    client = begun(broker, methods_of(0, login))
    client.read_method(0)
    tune = client.expect_type(0, ConnectionTune)
    tuned = ConnectionTuneOk(tune.channel_max, tune.frame_max, 0)
    client.send_methods(0, tuned, ConnectionOpen(vhost))
    return client


def refused_sessions(broker: leveret.Broker, log: io.StringIO) -> int:
    """Logins that are none, and one that has no such vhost; how many, when all are refused."""
    wrong = [
        begun(broker, methods_of(0, plain(f"{SECRET}-wrong"))),
        begun(broker, methods_of(0, amqplain(f"{SECRET}-wrong"))),
        begun(broker, methods_of(0, plain(f"{SECRET}\0malformed"))),
        begun(broker, methods_of(0, ConnectionStartOk({}, "PLAIN", SECRET.encode(), "en_US"))),
        # A login that is in no method: all printable, and not.
        begun(broker, frame(9, 0, f"{SECRET} and more".encode())),
        begun(broker, frame(9, 0, f"\0guest\0{SECRET}".encode())),
        opened(broker, plain(f"{SECRET}-guest"), URI),
    ]
    wait_until(lambda: log.getvalue().count("connection.refused") == len(wrong))
    for client in wrong:
        client.drop()
    return len(wrong)


def good_sessions(broker: leveret.Broker) -> None:
    with opened(broker, plain(f"{SECRET}-guest")) as client:
        client.read_method(0)
        update = ConnectionUpdateSecret(f"{SECRET}-new".encode(), f"rotated, see {URI}")
        client.send_methods(0, update)
        assert isinstance(client.read_method(0), ConnectionUpdateSecretOk)
        client.open_channel(1)
        client.send_methods(1, QueueDeclare(queue=URI, passive=True))
        assert isinstance(client.read_method(1), ChannelClose)
        client.close()
    with opened(broker, amqplain(f"{SECRET}-guest")) as client:
        client.read_method(0)
        client.close()


@pytest.mark.parametrize("form", ["json", "console"])
def test_no_password_gets_into_the_log_or_the_trace(
    form: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    monkeypatch.setattr(sys, "stderr", stream)
    password = f"{SECRET}-guest"
    settings: dict[str, Any] = {"default_password": password, "password_hash_cost": 10}
    settings |= {"log_level": "debug", "log_format": form, "trace_one_of": 1}
    settings |= {"http_listener": "on", "http_port": 0}
    with leveret.Broker(data_dir=tmp_path, port=0, **settings) as broker:
        refused_count = refused_sessions(broker, stream)
        good_sessions(broker)
        assert asked(broker, password=f"{SECRET}-wrong").status == 401
        assert asked(broker, "PUT", password=password).status == 200
        stored = new_password_hash(f"{SECRET}-ann", 10)
        ask_broker(tmp_path, "user add", {"user": "ann", "password_hash": stored, "tags": []})
        wait_until(lambda: not readers(broker))
    text = stream.getvalue()
    trace = b"".join(path.read_bytes() for path in (tmp_path / "traces").iterdir()).decode()
    for each in (text, trace):
        assert SECRET not in each
        assert AS_NUMBERS not in each
        assert stored not in each
        assert b64encode(f"guest:{SECRET}-wrong".encode()).decode() not in each
        assert "amqp://***@host:5672/shop" in each
    assert "octets = <<***>>" in text
    if form == "json":
        lines = [json.loads(line) for line in text.splitlines()]
        events = Counter(line["event"] for line in lines)
        assert events["connection.opened"] == 2
        assert events["connection.refused"] == refused_count
        # One line for the end of each, however it ended.
        peers = Counter(line["peer"] for line in lines if line["event"] == "connection.closed")
        assert set(peers.values()) == {1}
        assert len(peers) == refused_count + 2
