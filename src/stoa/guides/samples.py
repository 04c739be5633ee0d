"""The requests of the guides in other languages, which `make sdk` generates."""

import hashlib
from functools import cache
from importlib.resources import files

import msgspec

_FILE = files("stoa.guides") / "samples.json"


def key_of(request: str) -> str:
    """The key of a request, so that a guide that changes shows no sample of another request."""
    return hashlib.sha256(request.encode()).hexdigest()[:12]


@cache
def _samples() -> dict[str, dict[str, str]]:
    return msgspec.json.decode(_FILE.read_bytes(), type=dict[str, dict[str, str]])


def samples_of(request: str) -> dict[str, str]:
    """The request by language; empty if the SDKs have no call for it."""
    return _samples().get(key_of(request), {})
