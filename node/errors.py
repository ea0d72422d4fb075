"""What keeps a broker from starting, said in one line for the person who started it."""

from __future__ import annotations


class StartError(Exception):
    """The broker cannot start: port in use, data directory locked or newer, too few files."""


class ConfigurationError(StartError):
    """A setting is unknown, of the wrong type or out of its range."""
