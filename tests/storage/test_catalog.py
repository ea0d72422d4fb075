from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from leveret.storage.catalog import (
    SCHEMA_VERSION,
    AddBinding,
    AddExchange,
    AddQueue,
    BindingRow,
    Catalog,
    CatalogContents,
    CatalogDamagedError,
    ExchangeRow,
    PauseQueue,
    QueueRow,
    RemoveBinding,
    RemoveExchange,
    RemoveQueue,
)
from leveret.storage.errors import StorageError

NO_ARGUMENTS = b"\0\0\0\0"
LOGS = ExchangeRow("/", "logs", "topic", True, False, False, NO_ARGUMENTS)
AUDIT = ExchangeRow("/", "audit", "fanout", True, True, True, b"\0\0\0\5\1aV")


def queue_row(queue_id: int, name: str | None = None) -> QueueRow:
    return QueueRow(queue_id, "/", name or f"queue {queue_id}", True, False, NO_ARGUMENTS)


def binding_row(queue: str, key: str = "#", source: str = "logs") -> BindingRow:
    return BindingRow("/", source, queue, "queue", key, NO_ARGUMENTS)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "catalog.sqlite"


@pytest.fixture
def catalog(path: Path) -> Iterator[Catalog]:
    opened = Catalog.open(path)
    yield opened
    opened.close()


def reopened(catalog: Catalog, path: Path) -> CatalogContents:
    catalog.close()
    again = Catalog.open(path)
    contents = again.load()
    again.close()
    return contents


def test_a_new_catalog_is_empty(catalog: Catalog) -> None:
    assert catalog.load() == CatalogContents([], [], [])
    assert catalog.next_queue_id == 1


def test_what_was_added_is_there_after_a_restart(catalog: Catalog, path: Path) -> None:
    between = BindingRow("/", "logs", "audit", "exchange", "a.*", b"\0\0\0\5\1xV")
    catalog.apply(
        [
            AddExchange(LOGS),
            AddExchange(AUDIT),
            AddQueue(queue_row(4)),
            AddBinding(binding_row("queue 4")),
            AddBinding(between),
        ]
    )
    assert reopened(catalog, path) == CatalogContents(
        [LOGS, AUDIT], [queue_row(4)], [binding_row("queue 4"), between]
    )


def test_a_queue_goes_with_its_bindings(catalog: Catalog) -> None:
    catalog.apply([AddExchange(LOGS), AddQueue(queue_row(1)), AddQueue(queue_row(2))])
    catalog.apply([AddBinding(binding_row("queue 1")), AddBinding(binding_row("queue 2"))])
    to_exchange = BindingRow("/", "logs", "queue 1", "exchange", "", NO_ARGUMENTS)
    catalog.apply([AddBinding(to_exchange)])
    catalog.apply([RemoveQueue(1)])
    assert catalog.load() == CatalogContents(
        [LOGS], [queue_row(2)], [binding_row("queue 2"), to_exchange]
    )


def test_an_exchange_goes_with_the_bindings_on_both_sides(catalog: Catalog) -> None:
    catalog.apply([AddExchange(LOGS), AddExchange(AUDIT), AddQueue(queue_row(1, "logs"))])
    other = binding_row("logs", source="audit")
    catalog.apply(
        [
            AddBinding(binding_row("logs")),
            AddBinding(BindingRow("/", "audit", "logs", "exchange", "", NO_ARGUMENTS)),
            AddBinding(other),
            RemoveExchange("/", "logs"),
        ]
    )
    assert catalog.load() == CatalogContents([AUDIT], [queue_row(1, "logs")], [other])


def test_a_binding_goes_alone_and_is_added_once(catalog: Catalog) -> None:
    catalog.apply([AddExchange(LOGS), AddQueue(queue_row(1))])
    catalog.apply([AddBinding(binding_row("queue 1", key)) for key in ("a", "b", "a")])
    catalog.apply([RemoveBinding(binding_row("queue 1", "a"))])
    assert catalog.load().bindings == [binding_row("queue 1", "b")]


def test_names_may_be_any_text(catalog: Catalog, path: Path) -> None:
    queue = queue_row(1, "'); DROP TABLE queues; --\0 ü \N{RABBIT}")
    catalog.apply([AddQueue(queue)])
    assert reopened(catalog, path).queues == [queue]


def test_changes_are_made_together_or_not_at_all(catalog: Catalog, path: Path) -> None:
    with pytest.raises(CatalogDamagedError) as caught:
        catalog.apply([AddQueue(queue_row(1)), AddQueue(queue_row(2, "queue 1"))])
    assert str(path) in str(caught.value)
    assert "UNIQUE constraint failed: queues.vhost, queues.name" in str(caught.value)
    catalog.apply([AddExchange(LOGS)])
    assert reopened(catalog, path) == CatalogContents([LOGS], [], [])


def test_a_queue_id_is_never_used_again(catalog: Catalog, path: Path) -> None:
    catalog.apply([AddQueue(queue_row(7)), AddQueue(queue_row(3))])
    catalog.apply([RemoveQueue(7), RemoveQueue(3)])
    catalog.close()
    again = Catalog.open(path)
    assert again.next_queue_id == 8
    again.close()


def test_a_second_holder_is_refused_in_one_line(catalog: Catalog, path: Path) -> None:
    catalog.apply([AddExchange(LOGS)])
    with pytest.raises(StorageError, match="database is locked"):
        Catalog.open(path)


@pytest.mark.parametrize("content", [b"not a catalog at all" * 100, b"SQLite format 3\0" * 600])
def test_a_file_of_something_else_is_refused_in_one_line(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(CatalogDamagedError, match="is damaged") as caught:
        Catalog.open(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [None, b""])
def test_where_there_must_be_a_catalog_none_is_made(path: Path, content: bytes | None) -> None:
    if content is not None:
        path.write_bytes(content)
    for _ in range(2):
        with pytest.raises(CatalogDamagedError, match="is gone or empty"):
            Catalog.open(path, may_be_new=False)
    Catalog.open(path).close()
    Catalog.open(path, may_be_new=False).close()


def test_damage_of_the_schema_is_one_line(catalog: Catalog, path: Path) -> None:
    catalog.close()
    content = path.read_bytes()
    for octets in (b'"\nABLE queues', b"\xffABLE queue"):
        path.write_bytes(content.replace(b"TABLE queues", octets))
        with pytest.raises(CatalogDamagedError, match="is damaged") as caught:
            Catalog.open(path)
        assert "\n" not in str(caught.value)


def test_damage_within_is_found_when_it_is_opened(catalog: Catalog, path: Path) -> None:
    catalog.apply([AddQueue(queue_row(queue_id)) for queue_id in range(1, 2000)])
    catalog.close()
    content = bytearray(path.read_bytes())
    middle = len(content) // 2 // 4096 * 4096
    content[middle : middle + 4096] = bytes(4096)
    path.write_bytes(content)
    with pytest.raises(CatalogDamagedError, match="is damaged") as caught:
        Catalog.open(path)
    assert "\n" not in str(caught.value)


def test_a_pause_is_there_after_a_restart_and_goes_with_its_queue(
    catalog: Catalog, path: Path
) -> None:
    catalog.apply([AddQueue(queue_row(1)), AddQueue(queue_row(2)), AddQueue(queue_row(3))])
    catalog.apply([PauseQueue(1, True), PauseQueue(2, True), PauseQueue(3, True)])
    catalog.apply([PauseQueue(2, False), RemoveQueue(3), AddQueue(queue_row(4, "queue 3"))])
    assert reopened(catalog, path).queues == [
        queue_row(1)._replace(paused=True),
        queue_row(2),
        queue_row(4, "queue 3"),
    ]


def test_a_newer_schema_is_refused(catalog: Catalog, path: Path) -> None:
    catalog.close()
    connection = sqlite3.connect(path)
    connection.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
    connection.close()
    words = f"schema version {SCHEMA_VERSION + 1}, newer than {SCHEMA_VERSION}"
    with pytest.raises(StorageError, match=words):
        Catalog.open(path)
