"""The dashboard and the alert rules of docs/monitoring, and a real Prometheus beside a broker."""

from __future__ import annotations

import json
import re
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import quote
from urllib.request import urlopen

import leveret
import pytest
from insides import wait_until
from scraping import scraped
from timeouts import TIMEOUT_SECONDS

DIRECTORY = Path(__file__).resolve().parents[2] / "docs" / "monitoring"
DESCRIPTION = DIRECTORY.parent / "MONITORING.md"
NAME = re.compile(r"\b(?:rabbitmq|leveret|process)_[a-z_]+\b")


def needs(program: str) -> pytest.MarkDecorator:
    reason = f"{program} is not installed (apt: prometheus)"
    return pytest.mark.skipif(shutil.which(program) is None, reason=reason)


def expressions() -> list[str]:
    dashboard = json.loads((DIRECTORY / "dashboard.json").read_text())
    shown = [target["expr"] for panel in dashboard["panels"] for target in panel["targets"]]
    asked = [each["query"] for each in dashboard["templating"]["list"]]
    rules = re.findall(r"^ +expr: (.*)$", (DIRECTORY / "alerts.yml").read_text(), re.MULTILINE)
    assert len(rules) > 5
    return [*shown, *asked, *rules]


def test_every_metric_that_dashboard_and_rules_name_is_there(broker: leveret.Broker) -> None:
    named = {name for each in expressions() for name in NAME.findall(each)}
    scrape = scraped(broker)
    assert len(named) > 20
    assert {name for name in named if not scrape.samples(name)} == set()


def test_every_metric_is_described(broker: leveret.Broker) -> None:
    # The first cells of the tables.
    cells = [line.split(" | ")[0] for line in DESCRIPTION.read_text().splitlines()]
    described = {name for cell in cells if cell.startswith("| `") for name in NAME.findall(cell)}
    shown = set(scraped(broker).types) | set(scraped(broker, "/metrics/per-object").types)
    assert {name for name in shown if not name.startswith("process_")} == described


@needs("promtool")
@pytest.mark.parametrize("arguments", [("check", "alerts.yml"), ("test", "alerts_test.yml")])
def test_the_rules_pass(arguments: tuple[str, str]) -> None:
    kind, name = arguments
    command = ["promtool", kind, "rules", str(DIRECTORY / name)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@needs("prometheus")
def test_prometheus_scrapes_the_broker(broker: leveret.Broker, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    settings = tmp_path / "prometheus.yml"
    targets = f"static_configs: [{{targets: ['127.0.0.1:{broker.http_port}']}}]"
    settings.write_text(
        f"rule_files: ['{DIRECTORY / 'alerts.yml'}']\n"
        f"scrape_configs:\n- {{job_name: leveret, scrape_interval: 1s, {targets}}}\n"
    )
    command = [
        "prometheus",
        f"--config.file={settings}",
        f"--storage.tsdb.path={tmp_path / 'prometheus'}",
        f"--web.listen-address=127.0.0.1:{port}",
    ]
    with (tmp_path / "prometheus.log").open("w") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_until(lambda: bool(found(port, "rabbitmq_identity_info")))
        assert found(port, 'up{job="leveret"}') == [1.0]
        assert found(port, "rabbitmq_queues") == [0.0]
        assert found(
            port,
            "sum(rabbitmq_connections * on(instance, job) group_left(rabbitmq_node)"
            " rabbitmq_identity_info)",
        ) == [0.0]
    finally:
        process.terminate()
        process.wait(TIMEOUT_SECONDS)


def found(port: int, expression: str) -> list[float]:
    """What Prometheus answers a query with; nothing while it is not up yet."""
    url = f"http://127.0.0.1:{port}/api/v1/query?query={quote(expression)}"
    try:
        with urlopen(url, timeout=TIMEOUT_SECONDS) as response:
            answer: Any = json.load(response)
    except OSError:
        return []
    return [float(each["value"][1]) for each in answer["data"]["result"]]
