"""Secrets that must be read again, such as a second factor's: encrypted, and bound to the account they belong to."""

import hashlib
import hmac
import os

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

_NONCE_BYTES = 12


class SealBroken(Exception):
    """The bytes were not sealed here, or for another place."""


def seal(key: bytes, place: str, text: str) -> bytes:
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + _cipher(key).encrypt(nonce, text.encode(), place.encode())


def unseal(key: bytes, place: str, sealed: bytes) -> str:
    try:
        return _cipher(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], place.encode()).decode()
    except (InvalidTag, ValueError) as error:
        raise SealBroken from error


def _cipher(key: bytes) -> AESGCM:
    """A key of its own, so that what hashes credentials never encrypts."""
    return AESGCM(hmac.digest(key, b"stoa accounts: sealing", hashlib.sha256))
