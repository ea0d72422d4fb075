"""Makes the data directories of earlier versions that tests start on.

    .venv/bin/python tests/data/make_directories.py [FORMAT_VERSION ...]

For each format version of the journal, or for those that are named, the last commit that wrote it
is installed beside the repository, its broker is started, filled (tests/live/shop.py), stopped,
started, filled further and killed (-9). `format-N.tar.xz` is the directory as the killed broker
left it, `format-N.json` what that version itself recovers from a copy. Message ids, times and salts
differ from run to run, so a new archive differs from an old one in bytes, not in what it holds.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE.parent / "live"))

from insides import wait_until  # noqa: E402 - found only now
from shop import (  # noqa: E402
    BULK_COUNT,
    BULK_LEFT,
    PASSWORD,
    USER,
    VHOST,
    Filling,
)

# The last commit that wrote segments of each format version.
COMMITS = {1: "a564d5d^", 2: "850ba81^", 3: "f2b3368", 4: "ea38445", 5: "49406ff", 6: "ef05757"}

# Run by the earlier version: what it recovers from the directory.
RECOVER = """
import hashlib, json, sqlite3, sys
try:
    from leveret.storage.journal.opening import open_journal
except ImportError:
    try:
        from leveret.storage.journal.journal import Journal
    except ImportError:
        from leveret.storage.journal import Journal
    open_journal = Journal.open
with sqlite3.connect(sys.argv[1] + "/catalog.sqlite") as catalog:
    names = dict(catalog.execute("SELECT queue_id, name FROM queues"))
journal, recovered = open_journal(sys.argv[1] + "/journal", known_queue_ids=names.keys())
queues = {}
for queue_id, runs in recovered.queues.items():
    if hasattr(recovered, "messages"):
        runs = recovered.messages(queue_id)
    entries = queues[names[queue_id]] = []
    for run in runs:
        for position, index in enumerate(run.indexes):
            deadlines = getattr(run, "deadlines", 0)
            deadline = deadlines if isinstance(deadlines, int) else deadlines[position]
            wire = bytes(run.batch.wire[run.batch.starts[index] : run.batch.ends[index]])
            digest = hashlib.sha256(wire).hexdigest()[:16]
            due_times = getattr(run, "due_times", 0)
            due = due_times if isinstance(due_times, int) else due_times[position]
            entry = [run.first_entry_id + position, run.attempts, deadline, digest]
            entries.append(entry + [due] * (due > 0))
identities = {
    names[queue_id]: [
        [run.first_entry_id, run.last_entry_id, run.until_ms, bytes(run.identities).hex()]
        for run in runs
    ]
    for queue_id, runs in getattr(recovered, "identities", {}).items()
}
print(json.dumps({
    "queues": queues,
    "identities": identities,
    "next_entry_ids": {names[key]: each for key, each in recovered.next_entry_ids.items()},
    "next_batch_number": recovered.next_batch_number,
    "report": [list(line[:2]) for line in recovered.report],
}))
"""

# The same, because version 1 has no commands for accounts.
ADD_ACCOUNTS = """
import sys
from pathlib import Path
from leveret.configuration import Configuration
from leveret.open_accounts import new_password_hash
try:
    from leveret.commands.offline_accounts import offline_accounts
except ImportError:
    from leveret.offline_accounts import offline_accounts
data, user, password, vhost = sys.argv[1:]
with offline_accounts(Configuration(data_dir=Path(data), password_hash_cost=10)) as accounts:
    accounts.change("vhost add", {"vhost": vhost})
    password_hash = new_password_hash(password, 10)
    accounts.change("user add", {"user": user, "password_hash": password_hash, "tags": []})
    patterns = dict.fromkeys(("configure", "write", "read"), ".*")
    accounts.change("permissions set", {"user": user, "vhost": vhost} | patterns)
"""


class Earlier:
    """An earlier version, installed in a directory of its own; dependencies are this one's."""

    def __init__(self, commit: str, directory: Path) -> None:
        source, target = directory / "source", directory / "installed"
        source.mkdir()
        archive = subprocess.run(
            ["git", "-C", str(ROOT), "archive", commit], capture_output=True, check=True
        )
        subprocess.run(["tar", "-x", "-C", str(source)], input=archive.stdout, check=True)
        install = ["pip", "install", "-q", "--no-deps", "--no-build-isolation", "--target"]
        subprocess.run([sys.executable, "-m", *install, str(target), str(source)], check=True)
        self._environment = os.environ | {"PYTHONPATH": str(target)}
        self._directory = directory

    def run(self, *arguments: str) -> str:
        """Run Python with this version of the package; its standard output."""
        finished = subprocess.run(
            [sys.executable, *arguments],
            capture_output=True,
            text=True,
            cwd=self._directory,
            env=self._environment,
            check=False,
        )
        assert not finished.returncode, finished.stderr
        return finished.stdout

    def serve(self, data: Path) -> tuple[subprocess.Popen[str], int]:
        """A running broker, and its port."""
        command = [sys.executable, "-m", "leveret", "serve", "--port", "0", "--data-dir", str(data)]
        environment = self._environment | {"LEVERET_PASSWORD_HASH_COST": "10"}
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, text=True, cwd=self._directory, env=environment
        )
        assert process.stdout is not None
        found = re.search(r"listening on \S+:(\d+)", process.stdout.readline())
        assert found
        return process, int(found[1])


def make(format_version: int, commit: str, directory: Path) -> None:
    """Write the archive and what it holds for one version."""
    earlier = Earlier(commit, directory)
    data = directory / "data"
    process, port = earlier.serve(data)
    process.terminate()
    assert process.wait() == 0
    earlier.run("-c", ADD_ACCOUNTS, str(data), USER, PASSWORD, VHOST)
    filling = Filling(format_version)
    process, port = earlier.serve(data)
    filling.first_run("127.0.0.1", port)
    process.terminate()
    assert process.wait() == 0
    if filling.has_rewriting:
        # Only a segment that does not lie right before the open one is rewritten.
        process, port = earlier.serve(data)
        process.terminate()
        assert process.wait() == 0
    process, port = earlier.serve(data)
    connection = filling.second_run("127.0.0.1", port)
    if filling.has_rewriting:
        wait_until(lambda: _is_rewritten(data))
    process.kill()
    process.wait()
    connection.drop()
    for name in ("control.sock", "traces"):
        path = data / name
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)
    copy = directory / "copy"
    shutil.copytree(data, copy)
    held = json.loads(earlier.run("-c", RECOVER, str(copy)))
    (HERE / f"format-{format_version}.json").write_text(json.dumps(held) + "\n")
    with tarfile.open(HERE / f"format-{format_version}.tar.xz", "w:xz") as archive:
        for path in sorted(data.rglob("*")):
            archive.add(path, path.relative_to(data), recursive=False, filter=_nobody)


def _is_rewritten(data: Path) -> bool:
    """Has the segment of the first run become smaller than what was settled in it?"""
    segment = data / "journal" / f"{2:020d}.journal"
    return segment.stat().st_size < 1000 * (BULK_COUNT - BULK_LEFT)


def _nobody(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def main() -> None:
    for format_version in map(int, sys.argv[1:]) if sys.argv[1:] else COMMITS:
        with tempfile.TemporaryDirectory() as directory:
            make(format_version, COMMITS[format_version], Path(directory))


if __name__ == "__main__":
    main()
