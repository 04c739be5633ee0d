"""What the figures mean: classes of answers, bounds of the latency histogram, and what may be kept of a refusal."""

import re
from bisect import bisect_left
from collections.abc import Sequence
from functools import partial

# The upper bounds of the histogram's classes, in milliseconds; one more class holds what is above the last.
BOUNDS_MS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
BOUNDS_S = tuple(bound / 1000 for bound in BOUNDS_MS)
COUNTS = ("requests", "client_errors", "rate_limited", "server_errors", "total_us")
CLASSES = (*(f"ms_{bound}" for bound in BOUNDS_MS), "ms_more")
FIGURES = (*CLASSES, *COUNTS)

REQUESTS, CLIENT_ERRORS, RATE_LIMITED, SERVER_ERRORS, TOTAL_US = range(len(CLASSES), len(FIGURES))

# Which figure a request of so many seconds is counted in; asked once for each request, so it is no function of ours.
class_of = partial(bisect_left, BOUNDS_S)


def error_of(status: int) -> int:
    """Which figure a refusal is counted in."""
    if status == 429:
        return RATE_LIMITED
    return SERVER_ERRORS if status >= 500 else CLIENT_ERRORS


def percentile_ms(classes: Sequence[int], share: float) -> float | None:
    """How long all but the slowest took at most; even within a class, and never above the last bound."""
    total = sum(classes)
    if not total:
        return None
    wanted = share * total
    below = 0
    for count, least, most in zip(classes, (0, *BOUNDS_MS), BOUNDS_MS, strict=False):
        if count and below + count >= wanted:
            return round(least + (most - least) * (wanted - below) / count, 2)
        below += count
    return float(BOUNDS_MS[-1])


_LONGEST = 120
_PLAIN = re.compile(r"[a-z][a-z0-9_]{0,39}|\d{1,5}")
_NAMED_BY_CALLERS = frozenset({"metadata", "option_values", "headers", "filter", "changes"})
_HIDDEN = "…"


def kept_pointer(pointer: str) -> str:
    """Where a fault lies, without what callers named themselves: such a name may be somebody's."""
    if not pointer.startswith("/"):  # a parameter of the query
        name = pointer.partition("[")[0]
        return name if _PLAIN.fullmatch(name) else _HIDDEN * bool(pointer)
    kept: list[str] = []
    hide = False
    for part in pointer[1:].split("/"):
        kept.append(_HIDDEN if hide or not _PLAIN.fullmatch(part) else part)
        hide = hide or part in _NAMED_BY_CALLERS
    return ("/" + "/".join(kept))[:_LONGEST]
