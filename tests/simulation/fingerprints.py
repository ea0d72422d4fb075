"""Prints what seeds did, and a checksum of all bytes that moved, as a process of its own.

python tests/simulation/fingerprints.py SEED...
"""

from __future__ import annotations

import hashlib
import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE), str(HERE.parent / "storage"), str(HERE.parent / "live")]

from node_simulation import simulate  # noqa: E402 - found only now


def fingerprint(seed: int) -> str:
    """A line."""
    run = simulate(seed)
    digest = hashlib.sha256("\n".join(run.history).encode()).hexdigest()
    return f"{seed} {digest} {run.world.checksum}"


if __name__ == "__main__":
    for each in sys.argv[1:]:
        print(fingerprint(int(each)))
