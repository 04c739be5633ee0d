"""The addresses of stored pictures: immutable, and derived from the contents with a key, so that nobody can guess one."""

import hmac
import re

PREFIX = "/media/"
_NAME = r"[1-9][0-9]{0,18}/[0-9a-f]{40}\.(?:jpg|webp)"
_PATH = re.compile(rf"{PREFIX}({_NAME})")
_ADDRESS = re.compile(rf"https?://[^/?#]+{PREFIX}({_NAME})")


def name_of(key: bytes, store_id: int, contents_sha256: bytes, extension: str) -> str:
    """The name of a picture: its store, and a keyed hash of what it contains."""
    message = b"media:%d:%b" % (store_id, contents_sha256)
    return f"{store_id}/{hmac.digest(key, message, 'sha256')[:20].hex()}.{extension}"


def name_in_path(path: str) -> str | None:
    """The name in the path of a request."""
    found = _PATH.fullmatch(path)
    return found[1] if found else None


def name_in_url(url: str) -> str | None:
    """The name in the address of a picture; None if Stoa did not make the address."""
    found = _ADDRESS.fullmatch(url)
    return found[1] if found else None


def local_path(url: str | None) -> str:
    """The path of a stored picture on this service, whatever the host in its address; empty for other addresses."""
    name = name_in_url(url) if url else None
    return f"{PREFIX}{name}" if name else ""
