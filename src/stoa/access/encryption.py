"""Encryption at rest for secrets that must be readable again, each bound to its column and row."""

import os
from contextlib import suppress

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from stoa.secret_keys import Keys

_NONCE = 12
_VERSION = b"\x01"


class Undecryptable(Exception):
    """The stored value was encrypted with another key or for another column or row."""


class Cipher:
    """Encrypts with AES-GCM, under a key derived from the service's current key, and decrypts what any of its keys encrypted."""

    def __init__(self, keys: Keys) -> None:
        self._ciphers = [AESGCM(derived_key(key, b"stoa sealed columns")) for key in keys.all]

    def encrypt(self, text: str, table: str, column: str, store_id: int, row_id: int) -> bytes:
        nonce, context = os.urandom(_NONCE), _context(table, column, store_id, row_id)
        return _VERSION + nonce + self._ciphers[0].encrypt(nonce, text.encode(), context)

    def decrypt(self, encrypted: bytes, table: str, column: str, store_id: int, row_id: int) -> str:
        return self._decrypt(encrypted, table, column, store_id, row_id)[0]

    def renewed(self, encrypted: bytes, table: str, column: str, store_id: int, row_id: int) -> bytes | None:
        """The same text under the current key; None if that key encrypted it."""
        text, number = self._decrypt(encrypted, table, column, store_id, row_id)
        return self.encrypt(text, table, column, store_id, row_id) if number else None

    def _decrypt(self, encrypted: bytes, table: str, column: str, store_id: int, row_id: int) -> tuple[str, int]:
        nonce, secret = encrypted[1 : 1 + _NONCE], encrypted[1 + _NONCE :]
        for number, cipher in enumerate(self._ciphers):
            with suppress(InvalidTag, ValueError):
                return cipher.decrypt(nonce, secret, _context(table, column, store_id, row_id)).decode(), number
        raise Undecryptable(f"{table}.{column} of row {row_id} cannot be read with this STOA_SECRET_KEY")


def shard_url(cipher: Cipher, shard_id: int, encrypted: bytes) -> str:
    """The URL of a shard, which is stored encrypted because it can contain a password."""
    return cipher.decrypt(encrypted, "shards", "url", 0, shard_id)


def derived_key(key: bytes, purpose: bytes) -> bytes:
    """A key for one purpose, from which neither the service's key nor that of another purpose can be computed."""
    return HKDF(algorithm=SHA256(), length=32, salt=None, info=purpose).derive(key)


def _context(table: str, column: str, store_id: int, row_id: int) -> bytes:
    return f"{table}.{column}/{store_id}/{row_id}".encode()
