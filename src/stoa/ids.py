"""Opaque identifiers for operational records: a prefix that says what it is, then randomness."""

import secrets
from typing import Literal

_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"


def new_id(prefix: Literal["req", "imp", "evt", "dlv"]) -> str:
    """Make an identifier such as `evt_4t3k...`: 100 random bits in an alphabet that cannot be misread."""
    number = secrets.randbits(100)
    return prefix + "_" + "".join([_ALPHABET[(number >> shift) & 31] for shift in range(0, 100, 5)])
