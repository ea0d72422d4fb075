"""Opening files where the process, or the machine, has no file descriptor left."""

from __future__ import annotations

import errno
import os
import time
from typing import Final

# No descriptor is left for a moment only: sockets that took the last ones are closed at once
# (actors/descriptors.py).
WAIT_SECONDS_MAX: Final = 10.0
_AGAIN_SECONDS: Final = 0.01
SCARCE: Final = (errno.EMFILE, errno.ENFILE)


def opened(path: str, flags: int, mode: int = 0o777) -> int:
    """os.open, close-on-exec, with patience: OSError EMFILE or ENFILE after WAIT_SECONDS_MAX."""
    deadline = time.monotonic() + WAIT_SECONDS_MAX
    while True:
        try:
            return os.open(path, flags | os.O_CLOEXEC, mode)
        except OSError as error:
            if error.errno not in SCARCE or time.monotonic() >= deadline:
                raise
        time.sleep(_AGAIN_SECONDS)
