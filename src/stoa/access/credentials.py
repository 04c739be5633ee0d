"""Credentials: how they are made, recognised offline, hashed and compared."""

import hmac
import re
import secrets
import string
import zlib

CLIENT_ID = "stoa_ci_"
CLIENT_SECRET = "stoa_cs_"  # noqa: S105 - the brand that secret scanners look for
ACCESS_TOKEN = "stoa_at_"  # noqa: S105

_ALPHABET = string.digits + string.ascii_uppercase + string.ascii_lowercase
_RANDOM_LENGTH = 43  # the fewest of 62 characters that hold 256 bits
_TAIL_LENGTH = 6
_CLIENT_ID_SHAPE = re.compile(r"[A-Za-z0-9_]{1,64}", re.ASCII)


def new_client_id() -> str:
    """A public name for an app."""
    return CLIENT_ID + _text(secrets.randbits(95), 16)


def new_client_secret() -> str:
    return _sealed(CLIENT_SECRET + _text(secrets.randbits(256), _RANDOM_LENGTH))


def new_access_token() -> str:
    return _sealed(ACCESS_TOKEN + _text(secrets.randbits(256), _RANDOM_LENGTH))


def _text(number: int, length: int) -> str:
    """A number in our alphabet, always of the same length."""
    digits: list[str] = []
    for _ in range(length):
        number, digit = divmod(number, len(_ALPHABET))
        digits.append(_ALPHABET[digit])
    return "".join(reversed(digits))


def _sealed(body: str) -> str:
    """The text with its CRC32 behind it, so that a typing mistake shows without asking the database."""
    return body + _text(zlib.crc32(body.encode()), _TAIL_LENGTH)


def is_access_token(text: str) -> bool:
    """Whether this can be one of our tokens; the database need not be asked about any other text."""
    return (
        len(text) == len(ACCESS_TOKEN) + _RANDOM_LENGTH + _TAIL_LENGTH
        and text.startswith(ACCESS_TOKEN)
        and text.isascii()
        and text == _sealed(text[:-_TAIL_LENGTH])
    )


def is_client_id(text: str) -> bool:
    """Whether this has the shape of a client id: short, and fit to be looked up."""
    return _CLIENT_ID_SHAPE.fullmatch(text) is not None


def keyed_hash(key: bytes, text: str) -> bytes:
    """What is stored in place of a credential; useless to whoever reads the database without the key."""
    return hmac.digest(key, text.encode("utf-8", "surrogatepass"), "sha256")


def same(one: bytes, other: bytes) -> bool:
    """Compare in constant time."""
    return hmac.compare_digest(one, other)


def hint(credential: str) -> str:
    """The part of a credential that may be shown, to tell one from another."""
    return credential[-4:]
