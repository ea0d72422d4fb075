"""Definitions files: read, planned and written, without a broker."""

from __future__ import annotations

import copy
import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from leveret.core.definition_files.document import SECTIONS, DocumentError, read_document
from leveret.core.definition_files.planning import ImportPlan, plan_import
from leveret.core.definition_files.writing import WITHOUT_HASH, DefinitionsWriter
from leveret.core.exchanges.table import TopologyLimits
from leveret.core.topology.topology import Vhosts
from leveret.core.users.accounts import Accounts, AddVhost, PutUser, User
from leveret.core.users.password_hash import NO_PASSWORD, hash_password, is_right_password

FILES = Path(__file__).parents[1] / "data" / "definitions"
WHOLE = ("3.10", "3.13", "4.1")
SCRYPT = hash_password("hare", bytes(16), 10)

Json = dict[str, Any]


class Catalog:
    """Accounts and vhosts without actors."""

    def __init__(self, limits: TopologyLimits | None = None) -> None:
        self.accounts = Accounts()
        self.accounts.apply([AddVhost("/"), PutUser(User("guest", SCRYPT, ("administrator",)))])
        ids = itertools.count(1)
        self.vhosts = Vhosts(["/"], ids.__next__, bytes, limits or TopologyLimits())

    def plan(self, document: Json | str, vhost: str | None = None) -> ImportPlan:
        text = document if isinstance(document, str) else json.dumps(document)
        *_, read = read_document(text)
        *_, plan = plan_import(read, self.accounts, self.vhosts, vhost)
        return plan

    def carry_out(self, document: Json | str, vhost: str | None = None) -> ImportPlan:
        plan = self.plan(document, vhost)
        self.accounts.apply(plan.accounts)
        for change in plan.accounts:
            if isinstance(change, AddVhost):
                self.vhosts.add(change.name)
        for name, changes in plan.topology.items():
            self.vhosts[name].table.apply(changes)
        return plan

    def written(self, vhost: str | None = None, *, for_rabbitmq: bool = False) -> Json:
        writer = DefinitionsWriter(
            self.accounts, self.vhosts, vhost=vhost, for_rabbitmq=for_rabbitmq
        )
        found = writer.head("3.13.0", "Leveret", "1")
        return found | {section: list(writer.rows(section)) for section in writer.sections}


def whole(name: str) -> Json:
    found: Json = json.loads((FILES / f"{name}.json").read_text())
    return found


@pytest.mark.parametrize("name", WHOLE)
def test_what_is_imported_is_written_as_it_came(name: str) -> None:
    catalog, document = Catalog(), whole(name)
    plan = catalog.carry_out(document)
    assert [each.destination for each in plan.passed_over] == ["amq.gen-was-exclusive"]
    written = catalog.written()
    assert written[WITHOUT_HASH] == ["guest"]
    for section in SECTIONS:
        rows = {_key(row): row for row in written[section]}
        for item in document[section]:
            if item.get("destination") == "amq.gen-was-exclusive":
                continue
            row = rows[_key(item)]
            assert _shown(row, item) == _expected(item)


def test_a_file_names_the_version_that_clients_are_told() -> None:
    """Leveret's own is in files of its own only, which RabbitMQ does not read."""
    told = {
        "rabbit_version": "3.13.0",
        "rabbitmq_version": "3.13.0",
        "product_name": "Leveret",
        "product_version": "3.13.0",
    }
    catalog = Catalog()
    heads = [
        DefinitionsWriter(catalog.accounts, catalog.vhosts, for_rabbitmq=each).head(
            "3.13.0", "Leveret", "0.1"
        )
        for each in (True, False)
    ]
    assert heads == [told, told | {"leveret_version": "0.1", WITHOUT_HASH: ["guest"]}]


def _key(row: Json) -> str:
    names = ("name", "component", "user", "vhost", "source", "destination", "routing_key")
    return repr([row.get(name) for name in names])


def _shown(row: Json, item: Json) -> Json:
    return {name: row[name] for name in _expected(item)}


def _expected(item: Json) -> Json:
    """An item in the form in which it is written."""
    expected = {name: value for name, value in item.items() if value != []}
    if isinstance(item.get("tags"), str):
        expected["tags"] = item["tags"].split(",")
    elif "tags" in item:
        expected["tags"] = item["tags"]
    if item.get("type") == "quorum" and "x-queue-type" not in item["arguments"]:
        expected["arguments"] = {"x-queue-type": "quorum", **item["arguments"]}
    return expected


@pytest.mark.parametrize("name", WHOLE)
def test_a_second_import_of_the_same_changes_nothing(name: str) -> None:
    catalog = Catalog()
    catalog.carry_out(whole(name))
    before = catalog.written()
    plan = catalog.carry_out(whole(name))
    assert plan.topology == {}
    assert catalog.written() == before


def test_what_is_written_is_imported_by_another_broker() -> None:
    one, other = Catalog(), Catalog()
    one.carry_out(whole("4.1"))
    other.carry_out(one.written())
    assert other.written() == one.written()


def test_a_file_of_one_vhost_is_carried_out_in_another() -> None:
    catalog = Catalog()
    catalog.carry_out({"vhosts": [{"name": "copy"}]})
    catalog.carry_out(whole("3.13-vhost"), "copy")
    written = catalog.written("copy")
    assert {row["name"] for row in written["queues"]} == {"orders", "durable.quorum"}
    assert all("vhost" not in row for row in written["queues"])
    assert written["parameters"][0]["vhost"] == "copy"
    assert "users" not in written
    assert not catalog.vhosts["/"].table.queues()
    # Items that say another vhost are that vhost's, too, as in RabbitMQ.
    queue = {"name": "q", "vhost": "/", "durable": True, "auto_delete": False}
    catalog.carry_out({"queues": [queue]}, "copy")
    assert catalog.vhosts["copy"].table.find_queue("q") is not None


def test_what_is_there_stays_as_it_is() -> None:
    catalog = Catalog()
    catalog.carry_out({"queues": [_queue()], "exchanges": [_exchange()]})
    catalog.carry_out({"queues": [_queue(durable=False)], "exchanges": [_exchange(type="topic")]})
    [queue] = catalog.vhosts["/"].table.queues()
    assert queue.durable
    assert catalog.written()["exchanges"][0]["type"] == "direct"


def test_exchanges_of_every_type_are_carried_out() -> None:
    catalog = Catalog()
    types = ("direct", "fanout", "topic", "headers", "x-random", "x-consistent-hash")
    document = {
        "queues": [_queue()],
        "exchanges": [_exchange(name=name, type=name) for name in types],
        "bindings": [_binding(name, routing_key="1") for name in types],
    }
    catalog.carry_out(document)
    assert len(catalog.written()["bindings"]) == len(types)
    with pytest.raises(DocumentError, match=r"bindings\[0\].*binding key must be an integer"):
        catalog.plan({"bindings": [_binding("x-consistent-hash", routing_key="one")]})


# --- Users


def _user(**fields: Any) -> Json:
    return {"users": [{"name": "ann", "tags": []} | fields]}


def test_a_user_without_a_hash_has_no_password_and_keeps_the_one_it_has() -> None:
    catalog = Catalog()
    catalog.carry_out(_user())
    stored = catalog.accounts.users["ann"].password_hash
    assert stored == NO_PASSWORD
    assert not is_right_password("", stored)
    catalog.carry_out({"users": [{"name": "guest", "tags": "a, b"}]})
    assert catalog.accounts.users["guest"] == User("guest", SCRYPT, ("a", "b"))


def test_a_password_is_hashed() -> None:
    catalog = Catalog()
    catalog.carry_out(_user(password="hare"))
    stored = catalog.accounts.users["ann"].password_hash
    assert is_right_password("hare", stored)
    assert not is_right_password("hares", stored)
    assert "hare" not in stored


@pytest.mark.parametrize(
    ("version", "algorithm"), [("3.5.8", "md5"), ("3.6.0", "sha256"), ("", "sha256")]
)
def test_a_hash_without_an_algorithm_has_the_one_of_its_version(
    version: str, algorithm: str
) -> None:
    password_hash = {
        "md5": "BQYHCFtY86GAXVSs3Z8/ftNI2OU=",
        "sha256": json.loads((FILES / "3.10.json").read_text())["users"][0]["password_hash"],
    }[algorithm]
    catalog = Catalog()
    document = {"rabbit_version": version} | _user(password_hash=password_hash)
    catalog.carry_out(document)
    assert catalog.accounts.users["ann"].password_hash.startswith(f"rabbit${algorithm}$")


# --- For RabbitMQ


def test_a_file_for_rabbitmq_has_nothing_of_leverets_own() -> None:
    catalog = Catalog()
    own = {"x-dedup-window": 10, "x-max-consumers": 3, "x-max-length": 5, "x-delivery-limit": 4}
    quorum = {"x-queue-type": "quorum", "x-delivery-limit": 4, "x-requeue-delay": 10}
    policy = {"vhost": "/", "pattern": "q", "apply-to": "queues", "priority": 0}
    document = {
        "queues": [
            _queue(arguments=own),
            _queue(name="r", arguments=quorum),
            _queue(name="amq.leveret.q"),
        ],
        "bindings": [_binding("amq.topic", "amq.leveret.q"), _binding("amq.topic", "q")],
        "policies": [
            {**policy, "name": "own", "definition": {"max-consumers": 3}},
            {**policy, "name": "both", "definition": {"max-consumers": 3, "max-length": 2}},
        ],
    }
    catalog.carry_out(document)
    written = catalog.written(for_rabbitmq=True)
    assert WITHOUT_HASH not in written
    assert "password_hash" not in written["users"][0]
    assert {row["name"]: row["arguments"] for row in written["queues"]} == {
        "q": {"x-max-length": 5},
        "r": {"x-queue-type": "quorum", "x-delivery-limit": 4},
    }
    assert [row["destination"] for row in written["bindings"]] == ["q"]
    [kept] = written["policies"]
    assert kept["definition"] == {"max-length": 2}
    # Ours has all of it.
    written = catalog.written()
    assert {row["name"]: row["arguments"] for row in written["queues"]}["q"] == own
    assert len(written["bindings"]) == len(written["policies"]) == 2


# --- Broken files


def _queue(**fields: Any) -> Json:
    queue = {"name": "q", "vhost": "/", "durable": True, "auto_delete": False, "arguments": {}}
    return queue | fields


def _exchange(**fields: Any) -> Json:
    return _queue(name="e", type="direct", internal=False) | fields


def _binding(source: str = "amq.topic", destination: str = "q", **fields: Any) -> Json:
    names = {"source": source, "destination": destination, "destination_type": "queue"}
    return {**names, "vhost": "/", "routing_key": "k", "arguments": {}} | fields


def _policy(**fields: Any) -> Json:
    return {"name": "p", "vhost": "/", "pattern": "", "definition": {"expires": 9}} | fields


def _permission(**fields: Any) -> Json:
    return {"user": "guest", "vhost": "/", "configure": "", "write": "", "read": ""} | fields


def _without(item: Json, name: str) -> Json:
    return {key: value for key, value in item.items() if key != name}


def _nested(depth: int) -> Json:
    table: Json = {}
    for _ in range(depth):
        table = {"a": table}
    return table


_LIMITS = {"vhost": "/", "component": "vhost-limits", "name": "limits"}
BROKEN: list[tuple[str, list[Any], str]] = [
    ("queues", [_without(_queue(), "name")], "queues[0] (vhost '/'): it has no 'name'"),
    ("queues", [_queue(), _queue(name=3)], "queues[1] (vhost '/'): 'name' must be a string"),
    ("queues", [_queue(name="")], "must not be empty"),
    ("queues", [_queue(name="q" * 256)], "'name' has more than 255 bytes"),
    ("queues", [_queue(name="\ud800")], "'name' is not UTF-8"),
    ("queues", [_queue(vhost="no")], "queues[0] (name 'q', vhost 'no'): there is no vhost 'no'"),
    ("queues", [_without(_queue(), "durable")], "'durable' must be true or false"),
    ("queues", [_queue(auto_delete="yes")], "'auto_delete' must be true or false"),
    ("queues", [_queue(arguments=[1])], "arguments must be an object"),
    ("queues", [_queue(arguments={"a": 2**64})], "does not fit 64 bits"),
    ("queues", [_queue(arguments={"a" * 256: 1})], "a short string of 256 octets"),
    ("queues", [_queue(arguments=_nested(70))], "nested deeper than 64 levels"),
    ("queues", [_queue(arguments={"x-max-length": "a"})], "expected integer, got longstr"),
    ("queues", [_queue(arguments={"x-queue-type": "stream"})], "not implemented"),
    ("queues", [_queue(type="stream")], "not implemented"),
    ("queues", [_queue(type="quorum", durable=False)], "invalid property 'non-durable'"),
    ("queues", [[]], "queues[0] must be an object"),
    ("exchanges", [_exchange(type="no")], "unknown exchange type 'no'"),
    ("exchanges", [_exchange(name="amq.mine")], "begin with 'amq.'"),
    ("exchanges", [_exchange(internal=1)], "'internal' must be true or false"),
    ("exchanges", [_exchange(arguments={"alternate-exchange": 1})], "invalid type 'long' for arg"),
    ("exchanges", [_exchange(type="x-delayed-message")], "x-delayed-type"),
    (
        "exchanges",
        [_exchange(type="x-consistent-hash", arguments={"hash-property": "body"})],
        "Unsupported property: body",
    ),
    ("bindings", [_binding(destination_type="topic")], "must be queue or exchange"),
    ("bindings", [_without(_binding(), "routing_key")], "it has no 'routing_key'"),
    ("bindings", [_binding(source="amq.leveret.delivery")], "operation not permitted"),
    ("users", [{"name": "ann"}], "users[0] (name 'ann'): it has no tags"),
    ("users", [{"name": "", "tags": []}], "must not be empty"),
    ("users", [{"name": "ann", "tags": [1]}], "tags must be strings"),
    ("users", [{"name": "ann", "tags": [], "password_hash": "AAAA"}], "another length"),
    (
        "users",
        [{"name": "ann", "tags": [], "password_hash": "A", "hashing_algorithm": "no"}],
        "a password hash by no, which is not known",
    ),
    ("users", [{"name": "ann", "tags": [], "limits": {"max-x": 1}}], "Unrecognised terms"),
    ("vhosts", [{"description": "d"}], "vhosts[0]: it has no 'name'"),
    ("vhosts", [{"name": "v", "default_queue_type": "stream"}], "unsupported queue type"),
    ("permissions", [_permission(user="no")], "there is no user 'no'"),
    ("permissions", [_permission(vhost="no")], "there is no vhost 'no'"),
    ("permissions", [_permission(read="(")], "is not a regular expression"),
    (
        "topic_permissions",
        [_permission(exchange="amq.topic", read="[")],
        "not a regular expression",
    ),
    ("policies", [_policy(definition={"no": 1})], "are not recognised policy settings"),
    ("policies", [_policy(vhost="no")], "there is no vhost 'no'"),
    ("policies", [_policy(pattern="(")], "pattern should be regular expression"),
    ("parameters", [_LIMITS | {"component": "shovel", "value": {}}], "component shovel not found"),
    ("parameters", [_LIMITS | {"component": "policy", "value": {}}], "may not be set using this"),
    ("parameters", [_LIMITS | {"component": "operator_policy", "value": 3}], "must be an object"),
    ("parameters", [_LIMITS | {"value": {"max-queues": "a"}}], "should be a number"),
    ("parameters", [_LIMITS], "it has no 'value'"),
    ("global_parameters", [{"name": "g"}], "it has no 'value'"),
    ("global_parameters", [{"name": "g", "value": {"a": ["\ud800"]}}], "a text in it is not UTF-8"),
    ("policies", [_policy(definition={"dead-letter-exchange": "\udcff"})], "is not UTF-8"),
]


def test_a_plan_says_how_many_identities_its_queues_remember() -> None:
    """Their own windows, or those that a policy of the file gives them."""
    policy = _policy(pattern="^by", definition={"dedup-window": 40})
    queues = [
        _queue(arguments={"x-dedup-window": 9}),
        _queue(name="by policy"),
        _queue(name="none"),
    ]
    assert Catalog().plan({"queues": queues, "policies": [policy]}).dedup_identities == 49


@pytest.mark.parametrize(("section", "items", "reason"), BROKEN)
def test_a_broken_item_is_named_and_nothing_changes(
    section: str, items: list[Any], reason: str
) -> None:
    catalog = Catalog()
    before = copy.deepcopy(catalog.written())
    good = {"vhosts": [{"name": "new"}], "users": [{"name": "bob", "tags": ""}]}
    with pytest.raises(DocumentError) as caught:
        catalog.plan(good | {section: items})
    assert reason in str(caught.value)
    assert str(caught.value).startswith(f"{section}[")
    assert catalog.written() == before


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "Expecting value: line 1 column 1"),
        ("{", "Expecting value: line 1 column 2"),
        ('{"queues": [}', "Expecting value"),
        ('{"queues": [{"name": 1},]}', "expecting a value behind ','"),
        ('{"queues": [{}, {"a": 1}', "expecting ',' or ']'"),
        ('{"a": 1', "expecting ',' or '}'"),
        ('{"a": 1,}', "expecting a value behind ','"),
        ('{"a" 1}', "expecting ':'"),
        ("{1: 2}", "expecting the name of a section"),
        ('{"a": 1} x', "expecting the end of the file"),
        ('{"queues": [{"a": NaN}]}', "NaN is no number of JSON"),
        ('{"queues": [{"a": -1e400}]}', "-1e400 does not fit 64 bits"),
        ('{"queues": [{"a": ' + "[" * 100_000 + "]}", "nested too deeply"),
        ('{"queues": [{"a": ' + "1" * 5000 + "}]}", "not JSON"),
    ],
)
def test_what_is_not_json_is_refused_with_the_place(text: str, reason: str) -> None:
    with pytest.raises(DocumentError, match=r"^not JSON|^queues") as caught:
        list(read_document(text))
    assert reason in str(caught.value)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("[]", "a definitions file is a JSON object"),
        ('{"queues": {}}', "queues must be a list"),
        ('{"queues": 3}', "queues must be a list"),
    ],
)
def test_right_json_of_another_kind_is_not_called_wrong(text: str, reason: str) -> None:
    with pytest.raises(DocumentError) as caught:
        list(read_document(text))
    assert str(caught.value) == reason


def test_queues_beyond_a_vhosts_limit_are_refused() -> None:
    catalog = Catalog()
    limit = _LIMITS | {"value": {"max-queues": 2}}
    catalog.carry_out({"parameters": [limit], "queues": [_queue()]})
    catalog.carry_out({"queues": [_queue(name="r"), _queue()]})
    with pytest.raises(DocumentError, match="vhost '/' would have 3 queues, and its limit is 2"):
        catalog.plan({"queues": [_queue(name="s")]})


def test_patterns_that_cost_too_much_together_are_refused() -> None:
    catalog = Catalog(TopologyLimits(topic_costly_words_max=20))
    catalog.carry_out(
        {"queues": [_queue()], "bindings": [_binding(routing_key="#." + "a.#." * 8 + "b")]}
    )
    more = [_binding(routing_key=f"{each}.#." + "a.#." * 8 + "b") for each in "xyz"]
    with pytest.raises(DocumentError, match=r"bindings\[\d\].*patterns with more than 20 words"):
        catalog.plan({"bindings": more})


def test_it_is_read_and_planned_item_by_item() -> None:
    """So that the broker can do other things in between."""
    document = {"queues": [_queue(name=f"q{number}") for number in range(100)]}
    catalog = Catalog()
    reading = list(read_document(json.dumps(document)))
    assert len(reading) == 101
    assert len(list(plan_import(reading[-1], catalog.accounts, catalog.vhosts))) == 101
