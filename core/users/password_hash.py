"""Passwords as they are stored: salted, and slow to try.

    scrypt$14$8$1$<salt>$<key>     log2 of N, r and p of RFC 7914; salt and key in base64

The parameters stand beside the hash, so that a later version, or another setting, may make costlier
ones and still check the stored ones.

    rabbit$sha256$<hash>           imported from RabbitMQ: four octets of salt, then the digest of
                                   salt and password, in base64; sha512 and md5 likewise

These are quick to try, so they are only ever imported; `password_rehash` has them replaced.

    rabbit$none$                   imported without a hash: no password is right
"""

from __future__ import annotations

import hashlib
import hmac
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from typing import Final, NamedTuple

_NAME: Final = "scrypt"
_BLOCKS: Final = 8
_PARALLEL: Final = 1
SALT_BYTES: Final = 16
_KEY_BYTES: Final = 32
# log2 of N: what a check costs, 128 * r * N octets of memory and time to go with it. A stored hash
# that asks for more is not believed: it would take the machine's memory.
COST_MIN: Final = 10
COST_MAX: Final = 20


_IMPORTED: Final = "rabbit"
IMPORTED_SALT_BYTES: Final = 4
# What RabbitMQ calls an algorithm, and the digest.
_ALGORITHMS: Final = {
    "rabbit_password_hashing_sha256": "sha256",
    "rabbit_password_hashing_sha512": "sha512",
    "rabbit_password_hashing_md5": "md5",
}
# RabbitMQ before 3.6 had one algorithm, and its definitions do not name it.
UNNAMED_ALGORITHM: Final = "rabbit_password_hashing_md5"
_IMPORTED_ALGORITHM: Final = "rabbit_password_hashing_sha512"
NO_PASSWORD: Final = f"{_IMPORTED}$none$"


class _Parsed(NamedTuple):
    cost: int
    blocks: int
    parallel: int
    salt: bytes
    key: bytes


def hash_password(password: str, salt: bytes, cost: int) -> str:
    """The text to store; takes about 40 ms of a processor at cost 14, twice as long for each more.

    `salt` is SALT_BYTES random octets, new for every password.
    """
    assert COST_MIN <= cost <= COST_MAX, cost
    assert len(salt) == SALT_BYTES
    key = _derive(password, _Parsed(cost, _BLOCKS, _PARALLEL, salt, b""))
    parts = (b64encode(salt).decode(), b64encode(key).decode())
    return "$".join((_NAME, str(cost), str(_BLOCKS), str(_PARALLEL), *parts))


def imported_hash(password_hash: str, algorithm: str | None = None) -> str:
    """The text to store for a hash of RabbitMQ's, as its definitions have it; ValueError if none.

    `algorithm` is their hashing_algorithm, None if they name none. An empty hash is one that no
    password has.
    """
    if not password_hash:
        return NO_PASSWORD
    digest_name = _ALGORITHMS.get(algorithm or UNNAMED_ALGORITHM)
    if digest_name is None:
        raise ValueError(f"a password hash by {algorithm}, which is not known")
    stored = "$".join((_IMPORTED, digest_name, password_hash))
    _imported_parts(stored)
    return stored


def imported_password(password: str, salt: bytes) -> str:
    """The text to store for a password that a definitions file has as it is.

    Quick, as RabbitMQ's hashes are: there may be thousands. `salt` is IMPORTED_SALT_BYTES octets.
    """
    digest = hashlib.sha512(salt + _octets(password), usedforsecurity=False).digest()
    return imported_hash(b64encode(salt + digest).decode(), _IMPORTED_ALGORITHM)


def is_imported(stored: str) -> bool:
    """Is it a hash of RabbitMQ's, which is quick to try?"""
    return stored.startswith(f"{_IMPORTED}$")


def rabbitmq_hash(stored: str) -> tuple[str, str] | None:
    """The hash and its algorithm as RabbitMQ's definitions have them; None: it cannot read it."""
    if not is_imported(stored):
        return None
    _, digest_name, password_hash = stored.split("$")
    if stored == NO_PASSWORD:
        digest_name = "sha256"
    names = {digest: name for name, digest in _ALGORITHMS.items()}
    return password_hash, names[digest_name]


def is_right_password(password: str, stored: str) -> bool:
    """Is it the password that was hashed? Takes as long as the hashing did."""
    if stored == NO_PASSWORD:
        return False
    if is_imported(stored):
        digest_name, salt, expected = _imported_parts(stored)
        found = hashlib.new(digest_name, salt + _octets(password), usedforsecurity=False)
        return hmac.compare_digest(found.digest(), expected)
    parsed = _parse(stored)
    return hmac.compare_digest(_derive(password, parsed), parsed.key)


def check_password_hash(stored: str) -> None:
    """Raise ValueError for a text that neither `hash_password` nor `imported_hash` makes."""
    if stored == NO_PASSWORD:
        return
    if is_imported(stored):
        _imported_parts(stored)
    else:
        _parse(stored)


def _imported_parts(stored: str) -> tuple[str, bytes, bytes]:
    """The name of the digest, the salt, and the digest."""
    _, digest_name, *rest = stored.split("$")
    if digest_name not in _ALGORITHMS.values() or len(rest) != 1:
        raise ValueError("not a password hash")
    try:
        octets = b64decode(rest[0], validate=True)
    except (Base64Error, ValueError):
        raise ValueError("not a password hash") from None
    size = hashlib.new(digest_name, usedforsecurity=False).digest_size
    if len(octets) != IMPORTED_SALT_BYTES + size:
        raise ValueError("a password hash of another length than its algorithm makes")
    return digest_name, octets[:IMPORTED_SALT_BYTES], octets[IMPORTED_SALT_BYTES:]


def _octets(password: str) -> bytes:
    return password.encode("utf-8", "surrogateescape")


def _parse(stored: str) -> _Parsed:
    name, *parts = stored.split("$")
    if name != _NAME or len(parts) != 5 or not all(part.isdecimal() for part in parts[:3]):
        raise ValueError("not a password hash")
    cost, blocks, parallel = map(int, parts[:3])
    try:
        salt, key = (b64decode(part, validate=True) for part in parts[3:])
    except Base64Error:
        raise ValueError("not a password hash") from None
    sizes = (len(salt), len(key), blocks, parallel)
    if sizes != (SALT_BYTES, _KEY_BYTES, _BLOCKS, _PARALLEL) or not COST_MIN <= cost <= COST_MAX:
        raise ValueError("a password hash with parameters that are not ours")
    return _Parsed(cost, blocks, parallel, salt, key)


def _derive(password: str, parsed: _Parsed) -> bytes:
    n = 1 << parsed.cost
    try:
        return hashlib.scrypt(
            _octets(password),
            salt=parsed.salt,
            n=n,
            r=parsed.blocks,
            p=parsed.parallel,
            # OpenSSL's own ceiling is below what the higher costs need.
            maxmem=2 * 128 * n * parsed.blocks,
            dklen=_KEY_BYTES,
        )
    except ValueError as error:
        # Its parameters are checked, so this is how OpenSSL says that it cannot have so much.
        raise MemoryError(f"no memory to hash a password: {error}") from error
