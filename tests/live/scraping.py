"""Reads a broker's metrics, as Prometheus does."""

from __future__ import annotations

from base64 import b64encode
from http.client import HTTPConnection
from typing import NamedTuple

import leveret
from prometheus_client.parser import text_string_to_metric_families
from timeouts import TIMEOUT_SECONDS


class Scraped(NamedTuple):
    status: int
    text: str
    headers: dict[str, str]

    @property
    def types(self) -> dict[str, str]:
        """The type of each metric that the text has, by its name in the text."""
        lines = [line.split() for line in self.text.splitlines()]
        return {words[2]: words[3] for words in lines if words[:2] == ["#", "TYPE"]}

    def samples(self, name: str) -> dict[tuple[str, ...], float]:
        """The values of a name, by the values of their labels in the order of the labels' names."""
        return {
            tuple(value for _, value in sorted(sample.labels.items())): sample.value
            for family in text_string_to_metric_families(self.text)
            for sample in family.samples
            if sample.name == name
        }

    def labels(self, name: str) -> dict[str, str]:
        """Of the only sample of a name."""
        [labels] = [
            sample.labels
            for family in text_string_to_metric_families(self.text)
            for sample in family.samples
            if sample.name == name
        ]
        return dict(labels)

    def value(self, name: str) -> float:
        """The sum of all samples of a name, of which there is one at least."""
        samples = self.samples(name)
        assert samples, name
        return sum(samples.values())


def scraped(
    broker: leveret.Broker, path: str = "/metrics", login: str = "", port: int | None = None
) -> Scraped:
    """What the broker answers; `login` is a user and a password with a colon between them."""
    port = broker.http_port if port is None else port
    connection = HTTPConnection("127.0.0.1", port, timeout=TIMEOUT_SECONDS)
    headers = {"Authorization": f"Basic {b64encode(login.encode()).decode()}"} if login else {}
    connection.request("GET", path, None, headers)
    response = connection.getresponse()
    text = response.read().decode()
    connection.close()
    return Scraped(response.status, text, {k.lower(): v for k, v in response.getheaders()})
