"""What a worker reports of the lanes in its hands, in the form in which the database takes it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from stoa.webhooks.delivery.lane_runner import Held, Result, Tally


def hand_over(held: Held) -> tuple[list[Result], Tally, bool]:
    results, tally, drain = held.results, held.tally, held.drain
    held.results, held.tally, held.drain = [], Tally(), False
    return results, tally, drain


def add_up(one: Tally, other: Tally) -> Tally:
    return Tally(*(getattr(one, name) + getattr(other, name) for name in Tally.__struct_fields__))


def columns_of(taken: Sequence[tuple[Held, bool, list[Result], Tally, bool]]) -> list[list[Any]]:
    """The parameters of one settling: the lanes column by column, then the results."""
    rows: list[tuple[Any, ...]] = []
    for held, released, _, tally, drain in taken:
        s = held.standing
        rows.append(
            (*held.key, held.lane.epoch, released, held.idle, drain, s.breaker, s.probes, s.failures, s.hold_until,
             s.window_at, s.window_total, s.window_failed, s.failing_since, s.told, s.last_success_at, s.last_attempt_at,
             tally.succeeded, tally.failed, tally.attempts, tally.failed_attempts, tally.duration_ms)
        )  # fmt: skip
    results = [
        (place, each.sequence, each.status, each.due_at, each.count, each.attempts)
        for place, (_, _, several, *_) in enumerate(taken, 1)
        for each in several
    ]
    return [*texts(rows, 22), *texts(results, 6)]


def texts(rows: Sequence[Sequence[Any]], width: int) -> list[list[str | None]]:
    """Rows as columns of texts, which every server turns into arrays of its own types alike."""
    return [[_text(row[place]) for row in rows] for place in range(width)]


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return value.isoformat() if isinstance(value, datetime) else str(value)
