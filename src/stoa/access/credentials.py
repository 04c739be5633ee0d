"""Credentials: generating, recognizing, hashing and comparing them."""

import hmac
import os
import re
import string
import zlib
from functools import lru_cache

from stoa.secret_keys import Keys

CLIENT_ID = "stoa_ci_"
CLIENT_SECRET = "stoa_cs_"  # noqa: S105 - the prefix that secret scanners look for
ACCESS_TOKEN = "stoa_at_"  # noqa: S105
DEPLOY_TOKEN = "stoa_dt_"  # noqa: S105

_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
# The first 248 of the 256 byte values map to the alphabet evenly; the others are dropped.
_OF_BYTES, _DROPPED = bytes(ord(_ALPHABET[value % 62]) for value in range(256)), bytes(range(248, 256))
_RANDOM_LENGTH = 43  # the fewest base-62 digits that hold 256 bits
_CHECKSUM_LENGTH = 6
_CLIENT_ID_SHAPE = re.compile(r"[A-Za-z0-9_]{1,64}", re.ASCII)


def new_client_id() -> str:
    """A public identifier for an app."""
    return CLIENT_ID + _random(16)


def new_client_secret() -> str:
    return _with_checksum(CLIENT_SECRET + _random(_RANDOM_LENGTH))


def new_access_token() -> str:
    return _with_checksum(ACCESS_TOKEN + _random(_RANDOM_LENGTH))


def new_deploy_token() -> str:
    return _with_checksum(DEPLOY_TOKEN + _random(_RANDOM_LENGTH))


def _random(length: int) -> str:
    """Random digits in base 62."""
    digits = b""
    while len(digits) < length:
        digits += os.urandom(length + 8).translate(_OF_BYTES, _DROPPED)
    return digits[:length].decode()


def _text(number: int, length: int) -> str:
    """A number in base 62, padded to a fixed length."""
    digits: list[str] = []
    for _ in range(length):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))


def _with_checksum(body: str) -> str:
    """The text followed by its CRC32, so that a typing mistake is detected without a database query."""
    return body + _text(zlib.crc32(body.encode()), _CHECKSUM_LENGTH)


def is_access_token(text: str) -> bool:
    """Whether this can be one of our tokens; for any other text no database query is needed."""
    return _is_token(text, ACCESS_TOKEN)


def is_deploy_token(text: str) -> bool:
    return _is_token(text, DEPLOY_TOKEN)


def _is_token(text: str, prefix: str) -> bool:
    return (
        len(text) == len(prefix) + _RANDOM_LENGTH + _CHECKSUM_LENGTH
        and text.startswith(prefix)
        and text.isascii()
        and text == _with_checksum(text[:-_CHECKSUM_LENGTH])
    )


def is_client_id(text: str) -> bool:
    """Whether this has the form of a client id, short enough to look up."""
    return _CLIENT_ID_SHAPE.fullmatch(text) is not None


def keyed_hash(keys: Keys, text: str) -> bytes:
    """The HMAC that is stored instead of a credential; useless without the key."""
    return _hash(keys.current, text)


def keyed_hashes(keys: Keys, text: str) -> list[bytes]:
    """Every hash under which a credential may be stored: by the current key, or by one before a rotation."""
    return [_hash(key, text) for key in keys.all]


def _hash(key: bytes, text: str) -> bytes:
    started = _started(key).copy()
    started.update(text.encode("utf-8", "surrogatepass"))
    return started.digest()


@lru_cache(maxsize=64)
def _started(key: bytes) -> hmac.HMAC:
    """An HMAC that has read only its key. Copying it takes two thirds of the time of a new one."""
    return hmac.new(key, digestmod="sha256")


def same(one: bytes, other: bytes) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(one, other)


def hint(credential: str) -> str:
    """The last characters of a credential, which may be shown to identify it."""
    return credential[-4:]
