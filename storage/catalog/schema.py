"""The tables of the catalog. A change of them is a new SCHEMA_VERSION, with a way from the old."""

from __future__ import annotations

SCHEMA_VERSION = 3

# AUTOINCREMENT keeps the highest queue id ever used, so that none is used for another queue.
# `arguments` is an encoded AMQP table.
SCHEMA = """
CREATE TABLE exchanges (
    vhost TEXT NOT NULL,
    name TEXT NOT NULL,
    type TEXT NOT NULL,
    durable INTEGER NOT NULL,
    auto_delete INTEGER NOT NULL,
    internal INTEGER NOT NULL,
    arguments BLOB NOT NULL,
    PRIMARY KEY (vhost, name)
);
CREATE TABLE queues (
    queue_id INTEGER PRIMARY KEY AUTOINCREMENT,
    vhost TEXT NOT NULL,
    name TEXT NOT NULL,
    durable INTEGER NOT NULL,
    auto_delete INTEGER NOT NULL,
    arguments BLOB NOT NULL,
    UNIQUE (vhost, name)
);
CREATE TABLE bindings (
    vhost TEXT NOT NULL,
    source TEXT NOT NULL,
    destination TEXT NOT NULL,
    destination_kind TEXT NOT NULL CHECK (destination_kind IN ('queue', 'exchange')),
    routing_key TEXT NOT NULL,
    arguments BLOB NOT NULL,
    PRIMARY KEY (vhost, destination_kind, destination, source, routing_key, arguments)
);
CREATE INDEX bindings_by_source ON bindings (vhost, source);
"""

# New in version 2. `marks` records steps that are done once for all, and
# the segment of the journal that the last start created.
ACCOUNTS_SCHEMA = """
CREATE TABLE users (
    name TEXT PRIMARY KEY,
    password_hash TEXT NOT NULL,
    tags TEXT NOT NULL
);
CREATE TABLE vhosts (
    name TEXT PRIMARY KEY
);
CREATE TABLE permissions (
    "user" TEXT NOT NULL,
    vhost TEXT NOT NULL,
    configure TEXT NOT NULL,
    "write" TEXT NOT NULL,
    "read" TEXT NOT NULL,
    PRIMARY KEY ("user", vhost)
);
CREATE TABLE marks (
    name TEXT PRIMARY KEY
);
"""

# New in version 3, one row: the id that the segments of the directory's journal have, too, the
# number of the last change, and whether a journal of format version 4 was begun (0 or 1).
DIRECTORY_SCHEMA = """
CREATE TABLE directory (
    id BLOB NOT NULL,
    change_number INTEGER NOT NULL,
    has_journal INTEGER NOT NULL
);
"""

# What takes a catalog of that version to the next one; 0 is an empty file.
STEPS = {0: SCHEMA, 1: ACCOUNTS_SCHEMA, 2: DIRECTORY_SCHEMA}
