"""Definitions files of a live broker: carried out by HTTP, and written."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import leveret
import pytest
from asking_http import Answer, asked
from insides import context_of
from leveret.storage.catalog import Catalog, Change
from wire import Client

FILES = Path(__file__).parents[1] / "data" / "definitions"
PATH = "/api/definitions"
QUEUE = {"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}


def imported(broker: leveret.Broker, body: object, path: str = PATH, **words: str) -> Answer:
    return asked(broker, "POST", path, body, **words)


def exported(broker: leveret.Broker, path: str = PATH) -> dict[str, Any]:
    answer = asked(broker, "GET", path)
    assert answer.status == 200
    found: dict[str, Any] = answer.content
    return found


@pytest.mark.parametrize("name", ["3.10", "3.13", "4.1"])
def test_a_file_is_carried_out_and_its_users_log_in(name: str, broker: leveret.Broker) -> None:
    body = (FILES / f"{name}.json").read_bytes()
    # Twice: the second time nothing is left to do.
    for _ in range(2):
        assert imported(broker, body)[:2] == (204, None)
    for user in ("ann", "bob"):
        # By SHA-256 and by SHA-512.
        with Client(broker.host, broker.port) as client:
            client.log_in(user=user, password="hare")
    for wrong in (("ann", "hares"), ("certified", ""), ("certified", "none")):
        assert asked(broker, "GET", "/api/whoami", None, *wrong).status == 401
    answer = asked(broker, "GET", "/api/queues", user="ann", password="hare")
    rows = {(row["vhost"], row["name"]): row["type"] for row in answer.content}
    assert rows == {
        ("/", "orders"): "classic",
        ("/", "durable.quorum"): "quorum",
        ("/", "amq.gen-Zm9vYmFyYmF6"): "classic",
        ("shop", "temporary"): "classic",
        ("shop", "naïve/名"): "classic",
    }
    # The policies hold: the file's, and the operator's, of which the smaller counts.
    queue = context_of(broker).vhosts["/"].table.find_queue("orders")
    assert queue is not None
    assert queue.effective["x-max-length"].value == 400
    assert queue.effective["x-message-ttl"].value == 600_000


def test_a_file_is_there_after_a_restart(broker: leveret.Broker) -> None:
    imported(broker, (FILES / "4.1.json").read_bytes())
    before = exported(broker)
    broker.stop()
    broker.start()
    after = exported(broker)
    transient = [row for row in before["queues"] if not row["durable"]]
    assert transient
    before["queues"] = [row for row in before["queues"] if row["durable"]]
    assert after == before


def test_what_is_exported_is_imported(broker: leveret.Broker) -> None:
    imported(broker, (FILES / "3.13.json").read_bytes())
    before = exported(broker)
    for queue in before["queues"]:
        vhost, name = queue["vhost"].replace("/", "%2F"), "naïve"
        if name not in queue["name"]:
            asked(broker, "DELETE", f"/api/queues/{vhost}/{queue['name']}")
    assert imported(broker, before).status == 204
    after = exported(broker)
    for section in ("queues", "bindings"):
        before[section].sort(key=json.dumps)
        after[section].sort(key=json.dumps)
    assert after == before
    # Written without a hash, and its password is as it was.
    assert before["users_without_password_hash"] == ["guest"]


def test_a_file_is_one_transaction(broker: leveret.Broker, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a crash leaves all of it or nothing."""
    sizes: list[int] = []
    apply = Catalog.apply

    def counted(catalog: Catalog, changes: Sequence[Change]) -> None:
        sizes.append(len(changes))
        apply(catalog, changes)

    monkeypatch.setattr(Catalog, "apply", counted)
    assert imported(broker, (FILES / "4.1.json").read_bytes()).status == 204
    [size] = sizes
    document = json.loads((FILES / "4.1.json").read_text())
    assert size > sum(len(document[each]) for each in ("queues", "exchanges", "users"))


def test_a_queue_of_a_file_is_one_that_works(broker: leveret.Broker, client: Client) -> None:
    imported(broker, {"queues": [QUEUE]})
    client.publish_all("q", b"hello")
    got = client.get("q", no_ack=True)
    assert got is not None
    assert got.body == b"hello"


def test_a_broken_file_changes_nothing_and_says_why(broker: leveret.Broker) -> None:
    before = exported(broker)
    document = json.loads((FILES / "4.1.json").read_text())
    document["bindings"].append({"source": "events"})
    answer = imported(broker, document)
    reason = "bindings[7] (source 'events'): it has no 'vhost'"
    assert answer[:2] == (400, {"error": "bad_request", "reason": reason})
    assert exported(broker) == before
    assert imported(broker, b"{").content["reason"].startswith("not JSON: ")
    assert imported(broker, b"\xff").content["reason"] == "not JSON: not UTF-8"
    assert imported(broker, b"").status == 204


class TestDedupIdentities:
    """A file's queues and its policies, which change other queues' windows, count together."""

    @pytest.fixture
    def settings(self, settings: dict[str, object]) -> dict[str, object]:
        return settings | {"dedup_identities_max": 100}

    @staticmethod
    def file(policy_window: int, *windows: int) -> dict[str, Any]:
        """A policy for the queue "old", and queues with windows of their own."""
        definition = {"dedup-window": policy_window}
        policy = {"vhost": "/", "name": "p", "pattern": "^old$", "definition": definition}
        queues = [
            QUEUE | {"name": f"new{number}", "arguments": {"x-dedup-window": window}}
            for number, window in enumerate(windows)
        ]
        return {"policies": [policy], "queues": queues}

    def test_their_sum_is_bounded(self, broker: leveret.Broker) -> None:
        assert imported(broker, {"queues": [QUEUE | {"name": "old"}]}).status == 204
        before = exported(broker)
        answer = imported(broker, self.file(60, 30, 30))
        reason = "the dedup windows of all queues together would have 20 more identities than"
        assert answer.status == 400
        assert answer.content["reason"] == f"{reason} dedup_identities_max"
        assert exported(broker) == before
        assert imported(broker, self.file(60, 30)).status == 204
        assert context_of(broker).vhosts["/"].table.dedup_identities == 90
        # The policy asks for less, which makes room for another queue.
        assert imported(broker, self.file(20, 30, 50)).status == 204
        assert context_of(broker).vhosts["/"].table.dedup_identities == 100


def test_a_file_of_one_vhost(broker: leveret.Broker) -> None:
    body = (FILES / "3.13-vhost.json").read_bytes()
    assert imported(broker, body, f"{PATH}/shop").content == {
        "error": "not_found",
        "reason": "vhost_not_found",
    }
    imported(broker, {"vhosts": [{"name": "shop"}]})
    assert imported(broker, body, f"{PATH}/shop").status == 204
    found = exported(broker, f"{PATH}/shop")
    assert {row["name"] for row in found["queues"]} == {"orders", "durable.quorum"}
    assert exported(broker)["queues"]
    assert exported(broker, f"{PATH}/%2F")["queues"] == []
    assert asked(broker, "GET", f"{PATH}/none").status == 404


def test_only_administrators_export_and_import(broker: leveret.Broker) -> None:
    body = (FILES / "3.10.json").read_bytes()
    imported(broker, body)
    for method in ("GET", "POST"):
        answer = asked(broker, method, PATH, b"{}", "bob", "hare")
        assert (answer.status, answer.content["reason"]) == (401, "Not administrator user")


WITH_QUEUE = json.dumps({"queues": [QUEUE]}).encode()


def form(**fields: bytes) -> bytes:
    lines = []
    for name, value in fields.items():
        filename = b'; filename="a.json"' if name == "file" else b""
        lines.append(b'--xx\r\nContent-Disposition: form-data; name="' + name.encode() + b'"')
        lines[-1] += filename + b"\r\n\r\n" + value + b"\r\n"
    return b"".join(lines) + b"--xx--\r\n"


@pytest.mark.parametrize(
    ("body", "status", "location"),
    [
        (form(file=WITH_QUEUE), 204, None),
        (form(redirect=b"/#/x", file=WITH_QUEUE), 303, "/#/x"),
        (form(file=WITH_QUEUE, redirect=b"//evil"), 204, None),
        (form(file=WITH_QUEUE, redirect=b"/\\evil"), 204, None),
        (form(file=WITH_QUEUE, redirect=b"/\t/evil"), 204, None),
        (form(file=WITH_QUEUE, redirect=b"/x\r\nset-cookie: a=b"), 204, None),
        (form(file=WITH_QUEUE, redirect=b"/\0"), 204, None),
        (form(file=WITH_QUEUE, redirect="/\u20ac".encode()), 204, None),
        (form(file=b"{"), 400, None),
        (b"--xx\r\nnothing", 400, None),
        (b"", 204, None),
    ],
)
def test_a_form_may_have_the_file(
    body: bytes, status: int, location: str | None, broker: leveret.Broker
) -> None:
    headers = {"content-type": "multipart/form-data; boundary=xx"}
    answer = asked(broker, "POST", PATH, body, headers=headers)
    assert (answer.status, answer.headers.get("location")) == (status, location)
    is_there = bool(exported(broker)["queues"])
    assert is_there is (status != 400 and body != b"")


def test_a_download_has_a_name(broker: leveret.Broker) -> None:
    answer = asked(broker, "GET", f"{PATH}?download=a%20b.json%0d%0ax-evil:1")
    assert "x-evil" not in answer.headers
    answer = asked(broker, "GET", f"{PATH}?download=mine.json")
    assert answer.headers["content-disposition"] == 'attachment; filename="mine.json"'


class TestSizes:
    @pytest.fixture
    def settings(self, settings: dict[str, object]) -> dict[str, object]:
        return settings | {"definitions_bytes_max": 200_000}

    def test_a_file_may_be_larger_than_other_bodies(self, broker: leveret.Broker) -> None:
        good, bad = {"explanation": "x" * 150_000}, {"explanation": "x" * 250_000}
        assert imported(broker, good).status == 204
        answer = imported(broker, bad)
        assert answer.status == 413
        reason = "a request's body has at most 200000 bytes (definitions_bytes_max)"
        assert answer.content["reason"] == reason
        assert asked(broker, "PUT", "/api/queues/%2F/q", good).status == 413
