"""Passwords as they are stored."""

from __future__ import annotations

import hashlib
from base64 import b64encode

import pytest
from leveret.core.users.password_hash import (
    COST_MIN,
    check_password_hash,
    hash_password,
    is_right_password,
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
