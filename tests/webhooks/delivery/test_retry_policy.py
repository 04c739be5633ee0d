"""When a delivery is tried again and when its receiver is left alone, by the values of the design."""

from datetime import UTC, datetime, timedelta

import pytest

from stoa.webhooks.delivery.retry_policy import (
    Clock,
    Outcome,
    Standing,
    Verdict,
    after,
    judge,
    next_try,
    read_retry_after,
)

NOW = datetime(2026, 3, 14, tzinfo=UTC)
CLOCK = Clock()


def failures(count: int) -> list[Verdict]:
    return ["failed"] * count


def by_turns(count: int) -> list[Verdict]:
    """A success, a failure, a success ..."""
    return ["failed" if n % 2 else "succeeded" for n in range(count)]


def feed(standing: Standing, *verdicts: Verdict, gap_s: float = 1, probe: bool = False) -> Outcome:
    outcome = Outcome()
    for n, verdict in enumerate(verdicts):
        outcome = after(standing, verdict, NOW + timedelta(seconds=n * gap_s), CLOCK, probe=probe)
    return outcome


def test_retries_stretch_over_three_days() -> None:
    waits = [5, 30, 120, 600, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 24 * 3600, 24 * 3600]
    for attempts, wait in enumerate(waits, 1):
        for _ in range(50):
            due = next_try(attempts, NOW, CLOCK)
            assert due is not None
            assert 0.8 * wait <= (due - NOW).total_seconds() <= 1.2 * wait
    assert next_try(12, NOW, CLOCK) is None
    assert 70 * 3600 < sum(waits) < 73 * 3600


@pytest.mark.parametrize(
    ("status", "retry_after", "verdict"),
    [(200, None, "succeeded"), (204, None, "succeeded"), (299, 5.0, "succeeded"), (301, None, "failed"), (304, None, "failed"),
     (400, None, "failed"), (404, 5.0, "failed"), (410, None, "gone"), (429, 1.0, "put_off"), (429, None, "failed"),
     (503, 0.0, "put_off"), (503, None, "failed"), (500, 9.0, "failed"), (None, None, "failed"), (199, None, "failed")],
)  # fmt: skip
def test_an_answer_is_judged_by_its_status(status: int | None, retry_after: float | None, verdict: Verdict) -> None:
    assert judge(status, retry_after) == verdict


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("120", 120), (" 7 ", 7), ("Sat, 14 Mar 2026 00:01:00 GMT", 60), ("Fri, 13 Mar 2026 00:00:00 GMT", 0),
     ("soon", None), ("-5", None), ("1.5", None), ("", None), ("9" * 400, 999999999), (None, None), ("Sat, 99 Xxx", None)],
)  # fmt: skip
def test_retry_after_is_read_as_seconds_or_as_a_date(text: str | None, seconds: float | None) -> None:
    assert read_retry_after(text, NOW) == seconds


def test_five_failures_in_a_row_open_the_breaker_and_are_told_once() -> None:
    standing = Standing()
    assert not feed(standing, *failures(4)).opened
    assert standing.breaker == "closed"
    assert feed(standing, "failed").opened
    assert standing.breaker == "open"
    assert standing.hold_until == NOW + timedelta(seconds=30)
    assert not feed(standing, "failed").opened


def test_half_of_twenty_within_a_minute_open_it_too() -> None:
    standing = Standing()
    feed(standing, *by_turns(19))
    assert standing.breaker == "closed"
    assert feed(standing, "failed").opened
    slow = Standing()
    assert not feed(slow, *by_turns(30), gap_s=7).opened


def test_probes_come_further_and_further_apart() -> None:
    standing = Standing()
    feed(standing, *failures(5))
    waits: list[float] = []
    for _ in range(7):
        feed(standing, "failed", probe=True)
        assert standing.hold_until is not None
        waits.append((standing.hold_until - NOW).total_seconds())
    assert waits == [60, 120, 300, 600, 900, 900, 900]


def test_what_was_in_flight_as_it_opened_does_not_put_the_probe_off() -> None:
    standing = Standing()
    feed(standing, *failures(5))
    before = standing.hold_until
    feed(standing, "failed")
    assert standing.hold_until == before


def test_one_success_closes_it_and_lets_the_backlog_go() -> None:
    standing = Standing()
    feed(standing, *failures(5))
    assert feed(standing, "succeeded", probe=True).recovered
    assert (standing.breaker, standing.failures, standing.failing_since, standing.hold_until) == (
        "closed",
        0,
        None,
        None,
    )
    assert not feed(standing, "succeeded").recovered
    assert feed(standing, *failures(5)).opened


def test_being_put_off_is_no_failure() -> None:
    standing = Standing()
    for _ in range(10):
        after(standing, "put_off", NOW, CLOCK, probe=False, retry_after=120)
    assert (standing.breaker, standing.failures, standing.hold_until) == ("closed", 0, NOW + timedelta(seconds=120))
    after(standing, "put_off", NOW, CLOCK, probe=False, retry_after=10**9)
    assert standing.hold_until == NOW + timedelta(hours=1)


def test_three_days_without_a_success_disable_it() -> None:
    standing = Standing()
    after(standing, "failed", NOW, CLOCK, probe=False)
    assert after(standing, "failed", NOW + timedelta(hours=71), CLOCK, probe=False).disable is None
    assert after(standing, "put_off", NOW + timedelta(hours=72), CLOCK, probe=False, retry_after=1).disable == "failing"
    feed(standing, "succeeded")
    assert after(standing, "failed", NOW + timedelta(hours=80), CLOCK, probe=False).disable is None


def test_gone_disables_it_at_once() -> None:
    assert feed(Standing(), "gone").disable == "gone"


def test_a_request_ends_before_its_lease_does() -> None:
    assert CLOCK.connect < CLOCK.request < CLOCK.lease
    assert CLOCK.beat * 2 < CLOCK.claim_after < CLOCK.stop_after < CLOCK.lease
