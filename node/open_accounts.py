"""The accounts in the catalog of a node, which a new one is given first.

Used by the broker at its start, and by the commands that change accounts while no broker runs.
"""

from __future__ import annotations

import os

from .actors.topology.catalog import catalog_changes, restored_accounts
from .core.users.accounts import Accounts, default_accounts
from .core.users.password_hash import SALT_BYTES, hash_password
from .storage.catalog import Catalog


def open_accounts(
    catalog: Catalog,
    default_user: str,
    default_password: str,
    password_hash_cost: int,
    *,
    adds_default: bool = True,
) -> Accounts:
    """The catalog's accounts; a catalog without any gets the default user first.

    Only once: a default user whom somebody has deleted stays away. Without `adds_default` a new
    catalog stays empty: a definitions file has the users.
    """
    loaded = catalog.load_accounts()
    if loaded.are_new and adds_default:
        password_hash = new_password_hash(default_password, password_hash_cost)
        catalog.apply(catalog_changes(default_accounts(default_user, password_hash)))
        loaded = catalog.load_accounts()
    return restored_accounts(loaded)


def new_password_hash(password: str, cost: int) -> str:
    """The text to store for a password; slow by intent."""
    return hash_password(password, os.urandom(SALT_BYTES), cost)
