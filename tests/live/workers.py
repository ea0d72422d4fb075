"""A pytest plugin: which tests stay together when several workers share a run (`pytest -n 2`).

Tests of one module share fixtures, so a module is not divided. All of tests/spark share one JVM,
which takes ten seconds to start, so they are one unit. The unit with the most tests begins first.
"""

from __future__ import annotations

import pytest
from xdist.scheduler import LoadScopeScheduling

# One worker takes all of these folders' tests.
UNDIVIDED = ("tests/spark/",)


class Modules(LoadScopeScheduling):
    """Gives out whole modules, and undivided folders."""

    def _split_scope(self, nodeid: str) -> str:
        folders = [folder for folder in UNDIVIDED if nodeid.startswith(folder)]
        return folders[0] if folders else nodeid.partition("::")[0]


# The argument's name is the hook's.
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Modules:
    return Modules(config, log)
