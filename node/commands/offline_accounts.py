"""The accounts in a data directory that no broker uses: read and changed by the command line."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from ..actors.topology.catalog import catalog_changes
from ..configuration import Configuration
from ..core.users.account_requests import prepare_request
from ..core.users.accounts import Accounts
from ..errors import StartError
from ..open_accounts import open_accounts
from ..storage.catalog import Catalog
from ..storage.data_directory import DataDirectory
from ..storage.journal.records import DIRECTORY_ID_BYTES
from ..storage.stores import open_catalog_alone


class OfflineAccounts:
    """The catalog's accounts, for as long as this process holds the directory."""

    def __init__(self, catalog: Catalog, accounts: Accounts) -> None:
        self._catalog = catalog
        self.accounts = accounts

    def change(self, request: str, arguments: Mapping[str, object]) -> None:
        """Carry out a request; AccountError if it cannot be. On disk when this returns."""
        changes = prepare_request(self.accounts, request, arguments)
        self._catalog.apply(catalog_changes(changes))
        self.accounts.apply(changes)


@contextmanager
def offline_accounts(configuration: Configuration) -> Iterator[OfflineAccounts]:
    """Take the directory; StorageError if a broker uses it, StartError if there is none."""
    if not os.path.isdir(configuration.data_dir):
        raise StartError(f"there is no data directory {configuration.data_dir.absolute()}")
    directory = DataDirectory.open(configuration.data_dir)
    try:
        catalog = open_catalog_alone(directory, os.urandom(DIRECTORY_ID_BYTES))
        try:
            accounts = open_accounts(
                catalog,
                configuration.default_user,
                configuration.default_password,
                configuration.password_hash_cost,
            )
            yield OfflineAccounts(catalog, accounts)
        finally:
            catalog.close()
    finally:
        directory.close()
