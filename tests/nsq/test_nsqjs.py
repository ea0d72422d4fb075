"""nsqjs, NSQ's client for Node, unmodified."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import leveret
import pytest
from certificates import Certificates
from timeouts import TIMEOUT_SECONDS

HERE = Path(__file__).parent
NODE_MODULES = HERE.parents[1] / "build" / "node" / "node_modules"
STREAMS = [{}, {"deflate": True}, {"snappy": True}, {"tls": True, "tlsVerification": False}]


@pytest.fixture
def settings(certificates: Certificates) -> dict[str, object]:
    return certificates.settings(nsq_port=0)


@pytest.mark.parametrize("options", STREAMS, ids=json.dumps)
def test_a_writer_and_a_reader(broker: leveret.Broker, options: dict[str, bool]) -> None:
    if shutil.which("node") is None:
        pytest.skip("node not found: install nodejs and npm to run this")
    if not (NODE_MODULES / "nsqjs").is_dir():
        pytest.skip("nsqjs is not installed: .ci/tools node (npm, and a way to its registry)")
    done = subprocess.run(
        ["node", str(HERE / "many_nsqjs.js"), str(broker.nsq_port), json.dumps(options)],
        env=os.environ | {"NODE_PATH": str(NODE_MODULES)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "bodies": ["four 1", "one 1", "three 1", "two 1", "two 2"],
        "delayed": True,
        "errors": [],
        "refused": ["E_AUTH_FAILED", "E_BAD_TOPIC"],
    }
