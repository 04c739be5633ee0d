"""Opaque identifiers for operational records: a prefix that says what it is, then randomness."""

import os
from typing import Literal

# 32 letters that cannot be misread; each of 256 byte values is one of them, all equally often.
_LETTERS = bytes(b"0123456789abcdefghjkmnpqrstvwxyz"[value & 31] for value in range(256))


def new_id(prefix: Literal["req", "imp", "evt", "dlv"]) -> str:
    """Make an identifier such as `evt_4t3k...`: 100 random bits in an alphabet that cannot be misread."""
    return f"{prefix}_{os.urandom(20).translate(_LETTERS).decode()}"
