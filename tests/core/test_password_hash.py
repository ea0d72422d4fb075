"""Passwords as they are stored."""

from __future__ import annotations

import hashlib
from base64 import b64encode

import pytest
from leveret.core.users.password_hash import (
    COST_MIN,
    check_password_hash,
    hash_password,
    imported_hash,
    is_imported,
    is_right_password,
    rabbitmq_hash,
)

SALT = bytes(range(16))


def test_the_stored_text_is_scrypt_s_with_its_parameters_beside_it() -> None:
    key = hashlib.scrypt(b"secret", salt=SALT, n=1024, r=8, p=1, dklen=32)
    expected = f"scrypt$10$8$1${b64encode(SALT).decode()}${b64encode(key).decode()}"
    assert hash_password("secret", SALT, 10) == expected


def test_the_password_is_right_and_no_other_is_at_whatever_cost_it_was_hashed() -> None:
    for cost in (COST_MIN, COST_MIN + 2):
        stored = hash_password("gehe\udcffim", SALT, cost)
        assert is_right_password("gehe\udcffim", stored)
        assert not is_right_password("geheim", stored)
        assert not is_right_password("", stored)


def test_another_salt_gives_another_hash() -> None:
    assert hash_password("secret", SALT, 10) != hash_password("secret", SALT[::-1], 10)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "secret",
        "scrypt$10$8$1$AAAA",
        "md5" + hash_password("secret", SALT, 10)[6:],
        hash_password("secret", SALT, 10) + "$",
        hash_password("secret", SALT, 10).replace("$10$", "$40$"),
        hash_password("secret", SALT, 10).replace("$8$", "$8000$"),
        hash_password("secret", SALT, 10).replace("$1$", "$-1$"),
        hash_password("secret", SALT, 10)[:-4],
        "scrypt$10$8$1$!$!",
    ],
)
def test_a_foreign_password_hash_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="password hash"):
        check_password_hash(text)


# As `GET /api/users/u` of RabbitMQ 3.10.8 has the hash of "pw".
RABBITMQ_HASH = "vk4qXtC2DSPNw4/XqHU0hUNpcWrzeGB4shaJa4r1I8QbndnI"
SHA256 = "rabbit_password_hashing_sha256"


def test_a_password_that_rabbitmq_has_hashed_is_right() -> None:
    stored = imported_hash(RABBITMQ_HASH, SHA256)
    check_password_hash(stored)
    assert is_imported(stored)
    assert is_right_password("pw", stored)
    assert not is_right_password("PW", stored)
    assert rabbitmq_hash(stored) == (RABBITMQ_HASH, SHA256)


@pytest.mark.parametrize("digest", ["sha256", "sha512", "md5"])
def test_each_algorithm_of_rabbitmq_is_known(digest: str) -> None:
    octets = b"salt" + hashlib.new(digest, b"salt" + "pässword".encode()).digest()
    name = f"rabbit_password_hashing_{digest}"
    stored = imported_hash(b64encode(octets).decode(), name)
    assert is_right_password("pässword", stored)
    assert not is_right_password("password", stored)
    assert rabbitmq_hash(stored) == (b64encode(octets).decode(), name)
    if digest == "md5":
        # Definitions of RabbitMQ before 3.6 do not name it.
        assert imported_hash(b64encode(octets).decode()) == stored


def test_rabbitmq_cannot_read_our_hashes() -> None:
    stored = hash_password("secret", SALT, 10)
    assert not is_imported(stored)
    assert rabbitmq_hash(stored) is None


def test_an_empty_hash_is_that_of_no_password() -> None:
    stored = imported_hash("", SHA256)
    assert not any(is_right_password(password, stored) for password in ("", "guest"))


@pytest.mark.parametrize(
    ("password_hash", "algorithm"),
    [
        (RABBITMQ_HASH, "rabbit_password_hashing_sha512"),
        (RABBITMQ_HASH, "rabbit_password_hashing_sha1"),
        (RABBITMQ_HASH, None),
        (RABBITMQ_HASH + "$", SHA256),
        ("ä", SHA256),
        (RABBITMQ_HASH[:-1] + "!", SHA256),
    ],
)
def test_what_rabbitmq_has_not_made_is_refused(password_hash: str, algorithm: str | None) -> None:
    with pytest.raises(ValueError, match="password hash"):
        imported_hash(password_hash, algorithm)
