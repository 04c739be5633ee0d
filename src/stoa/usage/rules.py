"""Counters of usage metrics: error classes, latency buckets, percentiles; and redaction of fault pointers and paths."""

import re
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from functools import partial

# Upper bounds of the latency buckets in milliseconds; a last bucket counts everything above them.
BOUNDS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
BOUNDS_S = tuple(bound / 1000 for bound in BOUNDS_MS)
BUCKETS = (*(f"ms_{bound}" for bound in BOUNDS_MS), "ms_more")
COUNTERS = (*BUCKETS, "requests", "client_errors", "rate_limited", "server_errors", "total_us")

REQUESTS, CLIENT_ERRORS, RATE_LIMITED, SERVER_ERRORS, TOTAL_US = range(len(BUCKETS), len(COUNTERS))

# The bucket of a duration in seconds. Called for every request, so it is a C function, not one of ours.
bucket_of = partial(bisect_left, BOUNDS_S)


def error_counter(status: int) -> int:
    """Return the counter of an error status."""
    if status == 429:
        return RATE_LIMITED
    return SERVER_ERRORS if status >= 500 else CLIENT_ERRORS


def percentile_ms(buckets: Sequence[int], fraction: float) -> float | None:
    """Estimate a percentile by linear interpolation within its bucket, capped at the last bound."""
    total = sum(buckets)
    if not total:
        return None
    rank = fraction * total
    below = 0
    for count, lower, upper in zip(buckets, (0, *BOUNDS_MS), BOUNDS_MS, strict=False):
        if count and below + count >= rank:
            return round(lower + (upper - lower) * (rank - below) / count, 2)
        below += count
    return float(BOUNDS_MS[-1])


_MAX_POINTER_LENGTH = 120
_SAFE_PART = re.compile(r"[a-z][a-z0-9_]{0,39}|\d{1,5}")
_CALLER_DEFINED = frozenset({"metadata", "option_values", "headers", "filter", "changes"})
_REDACTED = "…"


def redact_pointer(pointer: str, *, declared: bool = True) -> str:
    """Remove names that callers chose from a fault pointer, because they may contain personal data; also the last one if it is not
    `declared`."""
    if not pointer.startswith("/"):  # a query parameter
        name = pointer.partition("[")[0]
        return name if declared and _SAFE_PART.fullmatch(name) else _REDACTED * bool(pointer)
    if not declared:
        pointer = f"{pointer.rpartition('/')[0]}/{_REDACTED}"
    parts: list[str] = []
    redact = False
    for part in pointer[1:].split("/"):
        parts.append(_REDACTED if redact or not _SAFE_PART.fullmatch(part) else part)
        redact = redact or part in _CALLER_DEFINED
    return ("/" + "/".join(parts))[:_MAX_POINTER_LENGTH]


_MAX_PATH_LENGTH, _MAX_PATH_PARTS = 160, 12
# Ids that the service assigned. A longer number may be a phone number.
_ID = re.compile(r"\d{1,9}|(?:imp|evt|dlv|req)_[0-9a-z]{20}")


def path_words(paths: Iterable[str]) -> frozenset[str]:
    """The fixed words of declared paths, such as `products`."""
    return frozenset(part for path in paths for part in path.split("/") if part and not part.startswith("{"))


def redact_path(path: str, words: AbstractSet[str]) -> str:
    """Keep the known words and the ids of a path; callers can write anything else there, also personal data."""
    first, *parts = path.split("/", _MAX_PATH_PARTS)
    kept = [part if part in words or _ID.fullmatch(part) else _REDACTED * bool(part) for part in parts]
    return (_REDACTED * bool(first) + "".join(f"/{part}" for part in kept))[:_MAX_PATH_LENGTH]
