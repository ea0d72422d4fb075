"""Users, vhosts and permissions in the catalog."""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from leveret.storage.catalog import (
    SCHEMA,
    AccountRows,
    AddBinding,
    AddExchange,
    AddQueue,
    BindingRow,
    Catalog,
    CatalogContents,
    ExchangeRow,
    ParameterRow,
    PermissionRow,
    PutParameter,
    PutPermission,
    PutTopicPermission,
    PutUser,
    PutVhost,
    QueueRow,
    RemoveParameter,
    RemovePermission,
    RemoveTopicPermission,
    RemoveUser,
    RemoveVhost,
    TopicPermissionRow,
    UserRow,
    VhostRow,
)

ANN = UserRow("ann", "hash", "monitoring,management", '{"max-channels": 7}')
BOB = UserRow("bob", "other hash", "")
ALL = PermissionRow("ann", "/", ".*", ".*", ".*")
BOBS = PermissionRow("bob", "v", "", "^a", "b$")
ROOT = VhostRow("/", '{"description": "all"}')
V = VhostRow("v")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "catalog.sqlite"


@pytest.fixture
def catalog(path: Path) -> Iterator[Catalog]:
    opened = Catalog.open(path)
    yield opened
    opened.close()


def filled(catalog: Catalog) -> Catalog:
    changes = [PutVhost(ROOT), PutVhost(V), PutUser(ANN), PutUser(BOB)]
    catalog.apply([*changes, PutPermission(ALL), PutPermission(BOBS)])
    return catalog


def reopened(catalog: Catalog, path: Path) -> AccountRows:
    catalog.close()
    again = Catalog.open(path)
    rows = again.load_accounts()
    again.close()
    return rows


def test_a_new_catalog_says_that_it_has_never_had_accounts(catalog: Catalog) -> None:
    assert catalog.load_accounts() == AccountRows([], [], [], [], [], True)


def test_nobody_else_may_read_the_hashes_of_passwords(catalog: Catalog, path: Path) -> None:
    for file in path.parent.iterdir():
        assert stat.S_IMODE(file.stat().st_mode) == 0o600, file
    catalog.close()
    # A catalog from before it held any.
    path.chmod(0o644)
    Catalog.open(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_accounts_are_there_after_a_restart(catalog: Catalog, path: Path) -> None:
    expected = AccountRows([ANN, BOB], [ROOT, V], [ALL, BOBS], [], [], False)
    assert reopened(filled(catalog), path) == expected


def test_a_catalog_whose_accounts_all_went_is_not_new(catalog: Catalog, path: Path) -> None:
    filled(catalog).apply(
        [RemoveUser("ann"), RemoveUser("bob"), RemoveVhost("/"), RemoveVhost("v")]
    )
    assert reopened(catalog, path) == AccountRows([], [], [], [], [], False)


def test_a_user_and_a_permission_that_are_put_again_are_changed(catalog: Catalog) -> None:
    changed, allowed = ANN._replace(password_hash="new", tags=""), ALL._replace(read="")
    filled(catalog).apply([PutUser(changed), PutPermission(allowed)])
    expected = AccountRows([changed, BOB], [ROOT, V], [allowed, BOBS], [], [], False)
    assert catalog.load_accounts() == expected


def test_a_user_goes_with_its_permissions_and_a_permission_alone(catalog: Catalog) -> None:
    filled(catalog).apply([RemoveUser("bob")])
    assert catalog.load_accounts() == AccountRows([ANN], [ROOT, V], [ALL], [], [], False)
    catalog.apply([RemovePermission("ann", "/")])
    assert catalog.load_accounts() == AccountRows([ANN], [ROOT, V], [], [], [], False)


def test_a_vhost_goes_with_all_that_is_in_it(catalog: Catalog) -> None:
    filled(catalog)
    for number, vhost in enumerate(("/", "v"), 1):
        catalog.apply(
            [
                AddExchange(ExchangeRow(vhost, "logs", "topic", True, False, False, b"")),
                AddQueue(QueueRow(number, vhost, "q", True, False, b"")),
                AddBinding(BindingRow(vhost, "logs", "q", "queue", "#", b"")),
            ]
        )
    catalog.apply([RemoveVhost("v")])
    assert catalog.load_accounts() == AccountRows([ANN, BOB], [ROOT], [ALL], [], [], False)
    assert catalog.load() == CatalogContents(
        [ExchangeRow("/", "logs", "topic", True, False, False, b"")],
        [QueueRow(1, "/", "q", True, False, b"")],
        [BindingRow("/", "logs", "q", "queue", "#", b"")],
    )
    assert catalog.next_queue_id == 3


def test_a_catalog_of_version_1_keeps_its_topology_and_gets_room_for_accounts(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.executescript(f"{SCHEMA} PRAGMA user_version = 1;")
        connection.execute("INSERT INTO queues VALUES (7, '/', 'q', 1, 0, x'')")
    connection.close()
    catalog = Catalog.open(path)
    assert catalog.load().queues == [QueueRow(7, "/", "q", True, False, b"")]
    assert catalog.load_accounts() == AccountRows([], [], [], [], [], True)
    filled(catalog)
    assert reopened(catalog, path).users == [ANN, BOB]


KEYS = TopicPermissionRow("ann", "v", "logs", "^a", "")
EVERY = ParameterRow("policy", "v", "every", '{"priority": 1}')
GLOBAL = ParameterRow("", "", "cluster_name", '"one"')


def test_parameters_and_topic_permissions_are_put_changed_and_removed(
    catalog: Catalog, path: Path
) -> None:
    more = KEYS._replace(exchange="events")
    filled(catalog).apply([PutTopicPermission(KEYS), PutTopicPermission(more)])
    catalog.apply([PutParameter(EVERY), PutParameter(GLOBAL)])
    other = EVERY._replace(value="[]")
    described = ROOT._replace(metadata="{}")
    catalog.apply(
        [PutParameter(other), PutTopicPermission(more._replace(read=".")), PutVhost(described)]
    )
    catalog.apply(
        [RemoveTopicPermission("ann", "v", "logs"), RemoveParameter("", "", "cluster_name")]
    )
    assert reopened(catalog, path) == AccountRows(
        [ANN, BOB], [described, V], [ALL, BOBS], [more._replace(read=".")], [other], False
    )


@pytest.mark.parametrize("removal", [RemoveUser("ann"), RemoveVhost("v")])
def test_topic_permissions_go_with_their_user_and_their_vhost(
    removal: RemoveUser | RemoveVhost, catalog: Catalog
) -> None:
    filled(catalog).apply([PutTopicPermission(KEYS), PutParameter(EVERY), PutParameter(GLOBAL)])
    catalog.apply([removal])
    left = catalog.load_accounts()
    assert left.topic_permissions == []
    assert left.parameters == ([GLOBAL] if removal == RemoveVhost("v") else [EVERY, GLOBAL])
