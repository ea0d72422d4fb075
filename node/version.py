"""The version, as the distribution's metadata has it."""

from __future__ import annotations

from importlib.metadata import version

VERSION = version("leveret")
