"""Encryption at rest for secrets that must be readable again, each bound to its column and row."""

import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

_NONCE = 12
_VERSION = b"\x01"


class Unsealable(Exception):
    """The stored value was sealed with another key or for another column or row."""


class Sealer:
    """Encrypts with AES-GCM, under a key derived from the service's key."""

    def __init__(self, secret_key: bytes) -> None:
        derived = HKDF(algorithm=SHA256(), length=32, salt=None, info=b"stoa sealed columns").derive(secret_key)
        self._cipher = AESGCM(derived)

    def seal(self, text: str, table: str, column: str, store_id: int, row_id: int) -> bytes:
        nonce = os.urandom(_NONCE)
        return _VERSION + nonce + self._cipher.encrypt(nonce, text.encode(), _context(table, column, store_id, row_id))

    def open(self, sealed: bytes, table: str, column: str, store_id: int, row_id: int) -> str:
        nonce, secret = sealed[1 : 1 + _NONCE], sealed[1 + _NONCE :]
        try:
            return self._cipher.decrypt(nonce, secret, _context(table, column, store_id, row_id)).decode()
        except (InvalidTag, ValueError) as error:
            raise Unsealable(f"{table}.{column} of row {row_id} cannot be read with this STOA_SECRET_KEY") from error


def _context(table: str, column: str, store_id: int, row_id: int) -> bytes:
    return f"{table}.{column}/{store_id}/{row_id}".encode()
