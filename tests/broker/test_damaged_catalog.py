"""A catalog that is gone or damaged: nothing starts on it, nothing of the journal is dropped."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path

import leveret
import pytest
from leveret.amqp_frames.methods import BasicAck, ExchangeDeclare, ExchangeDeclareOk, QueueDeclare
from leveret.commands.command_line import main
from wire import PERSISTENT, Client, publish


@pytest.fixture
def stopped(tmp_path: Path) -> Path:
    """The directory of a broker that has confirmed a message, and was stopped."""
    with started(tmp_path) as broker, Client(broker.host, broker.port) as client:
        client.log_in()
        client.open_channel(1, confirms=True)
        client.declare("orders", durable=True)
        assert client.ask(1, ExchangeDeclare(exchange="x", type="topic", durable=True)) == (
            ExchangeDeclareOk()
        )
        client.send(publish("orders", b"one", PERSISTENT))
        client.expect(1, BasicAck(1, False))
    return tmp_path


def started(directory: Path) -> leveret.Broker:
    return leveret.Broker(
        data_dir=directory, port=0, log_level="error", log_format="json", password_hash_cost=10
    )


def fault_of(directory: Path) -> str:
    with pytest.raises(leveret.StartError) as caught:
        started(directory).start()
    text = str(caught.value)
    assert "\n" not in text
    return text


@pytest.mark.parametrize("is_left_empty", [False, True])
def test_a_journal_without_its_catalog_is_left_alone(
    stopped: Path, is_left_empty: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    """A new catalog would know none of its queues, so their messages would be dropped."""
    catalog = stopped / "catalog.sqlite"
    content = catalog.read_bytes()
    catalog.unlink()
    if is_left_empty:
        catalog.touch()
    assert "is gone or empty, but there is a journal" in fault_of(stopped)
    # Nor does a command make one, or the next start would.
    assert main(["user", "list", "--data-dir", str(stopped)]) == 1
    assert "is gone or empty" in capsys.readouterr().err
    assert "is gone or empty" in fault_of(stopped)
    catalog.write_bytes(content)
    with started(stopped) as broker, Client(broker.host, broker.port) as client:
        client.log_in()
        client.open_channel(1)
        got = client.get("orders")
        assert got is not None
        assert got.body == b"one"


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        ("UPDATE exchanges SET type = 'tropic'", "of type 'tropic'"),
        ("UPDATE queues SET arguments = x'000000ff0102'", "malformed field table"),
        ("UPDATE queues SET vhost = 'elsewhere'", "in vhosts that are not there: {'elsewhere'}"),
        ("UPDATE queues SET name = CAST(x'ff' AS TEXT)", "decode to UTF-8"),
        ("UPDATE users SET tags = CAST(x'ff' AS TEXT)", "decode to UTF-8"),
        ("INSERT INTO bindings VALUES ('/', 'no', 'x', 'exchange', '', x'00000000')", "its ends"),
    ],
)
def test_impossible_rows_of_a_catalog_stop_the_start_with_one_line(
    stopped: Path, damage: str, words: str
) -> None:
    with sqlite3.connect(stopped / "catalog.sqlite") as connection:
        connection.execute(damage)
    connection.close()
    assert words in fault_of(stopped)


def flip_in_index(catalog: Path, name: bytes) -> None:
    """Flip a bit of the name of a queue where the index of names has it, not the table."""
    with sqlite3.connect(catalog) as connection:
        [root] = connection.execute(
            "SELECT rootpage FROM sqlite_schema WHERE name = 'sqlite_autoindex_queues_1'"
        ).fetchone()
        [page_bytes] = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    content = bytearray(catalog.read_bytes())
    at = content.index(name, (root - 1) * page_bytes, root * page_bytes)
    content[at + len(name) - 1] ^= 1
    catalog.write_bytes(content)


def test_a_flipped_bit_in_an_index_of_the_catalog_stops_the_start_with_one_line(
    stopped: Path,
) -> None:
    """The name that the flipped index lacks would be declared again, and end the broker."""
    catalog = stopped / "catalog.sqlite"
    flip_in_index(catalog, b"orders")
    before = catalog.read_bytes()
    fault = fault_of(stopped)
    assert str(catalog) in fault
    assert "is damaged: row 1 missing from index sqlite_autoindex_queues_1" in fault
    assert catalog.read_bytes() == before


def test_a_catalog_that_contradicts_a_change_ends_the_broker_with_one_sentence(
    stopped: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    # As where a bit flips after the start: rows that no start finds fault with.
    with sqlite3.connect(stopped / "catalog.sqlite") as connection:
        connection.execute("CREATE UNIQUE INDEX one_queue ON queues (vhost)")
    connection.close()
    broker = started(stopped)
    broker.start()
    with Client(broker.host, broker.port) as client:
        client.log_in()
        client.open_channel(1)
        client.send_methods(1, QueueDeclare(queue="late", durable=True))
        client.expect_closed()
    with pytest.raises(leveret.BrokerFailedError) as caught:
        broker.stop()
    text = str(caught.value)
    assert str(stopped / "catalog.sqlite") in text
    assert "UNIQUE constraint failed: queues.vhost" in text
    lines = [json.loads(line) for line in capfd.readouterr().err.splitlines()]
    assert [line["event"] for line in lines] == ["broker.failed"]
    assert lines[0]["error"] in text


def test_accounts_that_are_there_are_not_made_again(stopped: Path) -> None:
    with sqlite3.connect(stopped / "catalog.sqlite") as connection:
        connection.execute("DELETE FROM marks")
    connection.close()
    with started(stopped) as broker, Client(broker.host, broker.port) as client:
        client.log_in()
