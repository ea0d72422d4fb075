"""The real nsqd, where there is one: LEVERET_NSQD=/path/to/nsqd, of version 1.3.0."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

# What it logs of itself at its start.
_LISTENING = re.compile(r"TCP: listening on 127\.0\.0\.1:(\d+)")


@contextmanager
def real_nsqd(program: str, directory: Path, *options: str) -> Iterator[int]:
    """Runs nsqd in the directory; gives the port of its protocol."""
    here = "127.0.0.1:0"
    process = subprocess.Popen(
        [
            program,
            f"-tcp-address={here}",
            f"-http-address={here}",
            "-https-address=",
            f"-data-path={directory}",
            *options,
        ],
        stdin=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
    )
    assert process.stderr is not None
    lines = []
    try:
        for line in process.stderr:
            lines.append(line)
            if found := _LISTENING.search(line):
                break
        assert found, "".join(lines)
        # Else it would wait for somebody to read its log.
        reading = threading.Thread(target=process.stderr.read)
        reading.start()
        yield int(found[1])
    finally:
        process.terminate()
        process.wait()
    reading.join()
    process.stderr.close()


@contextmanager
def authorisation_server() -> Iterator[str]:
    """Answers nsqd's questions: who says `joe:good` may do all with the topic `allowed`."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Authorisations)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        yield f"127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        serving.join()
        server.server_close()


class _Authorisations(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        secret = parse_qs(urlsplit(self.path).query).get("secret")
        allowed = {
            "topic": "^allowed$",
            "channels": [".*"],
            "permissions": ["subscribe", "publish"],
        }
        known = {"ttl": 3600, "identity": "joe", "identity_url": "", "authorizations": [allowed]}
        is_known = secret == ["joe:good"]
        body = json.dumps(known if is_known else {}).encode()
        self.send_response(200 if is_known else 403)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_arguments: object) -> None:
        """No log."""
