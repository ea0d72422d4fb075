"""Is there a Java for Spark? PySpark itself says only that its gateway has exited."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

JAVA_MISSING = (
    "Spark needs Java 17 or later, and there is none: neither JAVA_HOME nor PATH leads to `java`; "
    "apt-get install default-jre-headless (as root), or https://adoptium.net"
)


def java_missing() -> str | None:
    """Say what is missing and where to get it, in one line; None if there is a Java."""
    home = os.environ.get("JAVA_HOME")
    # As pyspark's own launcher looks (bin/spark-class): JAVA_HOME first.
    found = Path(home, "bin", "java").exists() if home else shutil.which("java") is not None
    return None if found else JAVA_MISSING
