"""A Prometheus that scrapes a broker, and what its API answers."""

from __future__ import annotations

import json
import math
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.error import HTTPError
from urllib.parse import quote
from urllib.request import urlopen

import leveret
import pytest
from timeouts import TIMEOUT_SECONDS

NOT_READY: Final = 503
# Jobs: /metrics, and /metrics/per-object, whose `instance` is its name.
SUMS: Final = "leveret"
OBJECTS: Final = "objects"


class Prometheus(NamedTuple):
    port: int

    def answer(self, path: str) -> Any:
        """Of its API; nothing while it is not up yet."""
        url = f"http://127.0.0.1:{self.port}/api/v1/{path}"
        try:
            with urlopen(url, timeout=TIMEOUT_SECONDS) as response:
                return json.load(response)["data"]
        except HTTPError as error:
            if error.code != NOT_READY:
                pytest.fail(f"{url}: {error.read().decode()}")
        except OSError:
            pass
        return {}

    def found(self, expression: str) -> list[float]:
        """The values, but for those that are not a number."""
        result = self.answer(f"query?query={quote(expression)}").get("result", [])
        values = [float(each["value"][1]) for each in result]
        return [value for value in values if not math.isnan(value)]

    def labels(self, expression: str) -> list[dict[str, str]]:
        """Of each value."""
        result = self.answer(f"query?query={quote(expression)}").get("result", [])
        return [each["metric"] for each in result]

    def rules(self) -> list[Any]:
        """All rules, as far as it has evaluated them."""
        groups = self.answer("rules")["groups"]
        return [rule for group in groups for rule in group["rules"]]


@contextmanager
def running_prometheus(
    broker: leveret.Broker, rules: Path, directory: Path
) -> Iterator[Prometheus]:
    """One that scrapes the broker, in both forms, and evaluates the rules, again and again.

    The interval of scrapes is their time-out, too.
    """
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = directory / "prometheus.yml"
    target = f"targets: ['127.0.0.1:{broker.http_port}']"
    settings.write_text(
        f"global: {{scrape_interval: 1s, evaluation_interval: 200ms}}\n"
        f"rule_files: ['{rules}']\n"
        "scrape_configs:\n"
        f"- {{job_name: {SUMS}, static_configs: [{{{target}}}]}}\n"
        f"- {{job_name: {OBJECTS}, metrics_path: /metrics/per-object,"
        f" static_configs: [{{{target}, labels: {{instance: {OBJECTS}}}}}]}}\n"
    )
    command = [
        "prometheus",
        f"--config.file={settings}",
        f"--storage.tsdb.path={directory / 'prometheus'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (directory / "prometheus.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        yield Prometheus(port)
    finally:
        process.terminate()
        process.wait(TIMEOUT_SECONDS)
