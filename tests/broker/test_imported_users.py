"""Users whose password hashes come from RabbitMQ log in; by a setting their hashes become ours."""

from __future__ import annotations

import leveret
import pytest
from insides import context_of, wait_until
from leveret.commands.control_client import ask_broker
from leveret.core.users.password_hash import hash_password, imported_hash, is_imported
from wire import Client

# RabbitMQ's, of "pw".
HASH = "vk4qXtC2DSPNw4/XqHU0hUNpcWrzeGB4shaJa4r1I8QbndnI"


def stored(broker: leveret.Broker) -> str:
    return context_of(broker).accounts.users["u"].password_hash


def add_user(broker: leveret.Broker) -> None:
    def change(request: str, **arguments: object) -> None:
        ask_broker(broker.configuration.data_dir, request, {"user": "u"} | arguments)

    password_hash = imported_hash(HASH, "rabbit_password_hashing_sha256")
    change("user add", password_hash=password_hash, tags=[])
    change("permissions set", vhost="/", configure="", write="", read="")


def log_in(broker: leveret.Broker) -> None:
    with Client(broker.host, broker.port) as client:
        client.log_in(user="u", password="pw")


def test_an_imported_hash_stays(broker: leveret.Broker) -> None:
    add_user(broker)
    before = stored(broker)
    for _ in range(2):
        log_in(broker)
    assert stored(broker) == before


@pytest.mark.parametrize("settings", [{"password_rehash": "on"}])
def test_an_imported_hash_is_replaced_at_a_right_login(broker: leveret.Broker) -> None:
    add_user(broker)
    with Client(broker.host, broker.port) as client, pytest.raises(AssertionError):
        client.log_in(user="u", password="wrong")
    assert is_imported(stored(broker))
    log_in(broker)
    wait_until(lambda: not is_imported(stored(broker)))
    assert stored(broker).startswith("scrypt$10$")
    log_in(broker)


def test_a_password_that_has_changed_meanwhile_is_not_set_back(broker: leveret.Broker) -> None:
    add_user(broker)
    before, later = stored(broker), hash_password("later", bytes(16), 10)
    data = broker.configuration.data_dir
    ask_broker(data, "user passwd", {"user": "u", "password_hash": later})
    rehashed = hash_password("pw", bytes(16), 10)
    arguments = {"user": "u", "before": before, "password_hash": rehashed}
    ask_broker(data, "user rehash", arguments)
    assert stored(broker) == later
