"""The driver's disk, through the seam that the journal has (`Files` in storage/files.py).

One simulated disk tests both: bytes are safe from a crash of the machine once `sync_data` of their
file has returned, names once `sync_directory` has.
"""

from __future__ import annotations

import os

from ...storage.files import OperatingSystemFiles


class DriverFiles(OperatingSystemFiles):
    """`Files` on the driver's own disk; what it makes only its user can read."""

    def check_writable(self, path: str) -> None:
        """Raise OSError if this file cannot be made and written."""
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
