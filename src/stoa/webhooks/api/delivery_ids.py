"""Delivery ids, which consist of the subscription id and the sequence."""

import re

_SHAPE = re.compile(r"dlv_([1-9][0-9]{0,18})_([1-9][0-9]{0,18})", re.ASCII)
_MAX_BIGINT = 2**63 - 1


def delivery_id(webhook_id: int, sequence: int) -> str:
    return f"dlv_{webhook_id}_{sequence}"


def parse_delivery_id(text: str) -> tuple[int, int] | None:
    """The subscription and the sequence of a delivery id; None if it is malformed."""
    found = _SHAPE.fullmatch(text)
    if found is None:
        return None
    webhook_id, sequence = int(found[1]), int(found[2])
    return (webhook_id, sequence) if max(webhook_id, sequence) <= _MAX_BIGINT else None
