"""The data directories that earlier versions left behind, ready to be started on."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

ARCHIVES = Path(__file__).resolve().parents[1] / "data"
FORMAT_VERSIONS = (1, 2, 3, 4, 5, 6)


def unpack(format_version: int, target: Path) -> Path:
    """The directory that a broker with this format of the journal left when it was killed."""
    with tarfile.open(ARCHIVES / f"format-{format_version}.tar.xz") as archive:
        # Python 3.11.2 knows no filters.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)  # type: ignore[assignment]
        archive.extractall(target)
    return target


def held(format_version: int) -> dict[str, Any]:
    """The content that that version itself recovered from it."""
    found: dict[str, Any] = json.loads((ARCHIVES / f"format-{format_version}.json").read_text())
    return found
