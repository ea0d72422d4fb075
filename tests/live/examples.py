"""How many examples random tests draw: fewer in `make check`, which is to be quick."""

from __future__ import annotations

import os
import sys

from hypothesis import settings

# Set by `make check`.
CHECK_VARIABLE = "SHORT_CHECK"
IS_CHECK = bool(os.environ.get(CHECK_VARIABLE))
_SHARE = 10
_PROFILE = "check"
_REFUSED = ("socket.bind", "socket.connect")


def examples(count: int) -> int:
    """So many in `make test`; in `make check` a tenth."""
    return max(5, count // _SHARE) if IS_CHECK else count


def prepare_check() -> None:
    """Give random tests without a number of their own fewer examples, and refuse sockets."""
    settings.register_profile(_PROFILE, max_examples=examples(100), deadline=None)
    settings.load_profile(_PROFILE)
    sys.addaudithook(_refuse_sockets)


def _refuse_sockets(event: str, _arguments: object) -> None:
    if event in _REFUSED:
        raise AssertionError(f"{event}: `make check` has no tests with sockets")
