"""Opaque identifiers of operational records: a prefix for the kind, then random characters."""

import os
from typing import Literal

# 32 characters that are not easily confused; the 256 byte values map to them evenly.
_LETTERS = bytes(b"0123456789abcdefghjkmnpqrstvwxyz"[value & 31] for value in range(256))


def new_id(prefix: Literal["req", "imp", "evt", "dlv", "mail"]) -> str:
    """A new identifier such as `evt_4t3k...`, with 100 random bits."""
    return f"{prefix}_{os.urandom(20).translate(_LETTERS).decode()}"
