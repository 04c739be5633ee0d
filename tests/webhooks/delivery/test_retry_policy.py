"""The retry schedule, the circuit breaker and automatic disabling, with the production values."""

from datetime import UTC, datetime, timedelta

import pytest

from stoa.webhooks.delivery.retry_policy import (
    DeliveryConfig,
    HealthChange,
    ReceiverHealth,
    Verdict,
    judge,
    next_attempt_at,
    update_health,
)
from stoa.webhooks.http.client import read_retry_after

NOW = datetime(2026, 3, 14, tzinfo=UTC)
CONFIG = DeliveryConfig()


def failures(count: int) -> list[Verdict]:
    return ["failed"] * count


def alternating(count: int) -> list[Verdict]:
    """Alternate between success and failure, starting with a success."""
    return ["failed" if n % 2 else "succeeded" for n in range(count)]


def feed(health: ReceiverHealth, *verdicts: Verdict, gap_s: float = 1, probe: bool = False) -> HealthChange:
    outcome = HealthChange()
    for n, verdict in enumerate(verdicts):
        outcome = update_health(health, verdict, NOW + timedelta(seconds=n * gap_s), CONFIG, probe=probe)
    return outcome


def test_retries_extend_over_three_days() -> None:
    waits = [5, 30, 120, 600, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 24 * 3600, 24 * 3600]
    for attempts, wait in enumerate(waits, 1):
        for _ in range(50):
            due = next_attempt_at(attempts, NOW, CONFIG)
            assert due is not None
            assert 0.8 * wait <= (due - NOW).total_seconds() <= 1.2 * wait
    assert next_attempt_at(12, NOW, CONFIG) is None
    assert 70 * 3600 < sum(waits) < 73 * 3600


@pytest.mark.parametrize(
    ("status", "retry_after", "verdict"),
    [(200, None, "succeeded"), (204, None, "succeeded"), (299, 5.0, "succeeded"), (301, None, "failed"), (304, None, "failed"),
     (400, None, "failed"), (404, 5.0, "failed"), (410, None, "gone"), (429, 1.0, "put_off"), (429, None, "failed"),
     (503, 0.0, "put_off"), (503, None, "failed"), (500, 9.0, "failed"), (None, None, "failed"), (199, None, "failed")],
)  # fmt: skip
def test_the_status_and_retry_after_determine_the_verdict(
    status: int | None, retry_after: float | None, verdict: Verdict
) -> None:
    assert judge(status, retry_after) == verdict


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("0", 0), ("120", 120), (" 7 ", 7), ("Sat, 14 Mar 2026 00:01:00 GMT", 60), ("Fri, 13 Mar 2026 00:00:00 GMT", 0),
     ("soon", None), ("-5", None), ("1.5", None), ("", None), ("9" * 400, 999999999), (None, None), ("Sat, 99 Xxx", None)],
)  # fmt: skip
def test_retry_after_is_parsed_as_seconds_or_as_a_date(text: str | None, seconds: float | None) -> None:
    assert read_retry_after(text, NOW) == seconds


def test_five_consecutive_failures_open_the_breaker_and_report_it_once() -> None:
    health = ReceiverHealth()
    assert not feed(health, *failures(4)).opened
    assert health.breaker == "closed"
    assert feed(health, "failed").opened
    assert health.breaker == "open"
    assert health.hold_until == NOW + timedelta(seconds=30)
    assert not feed(health, "failed").opened


def test_a_failure_rate_of_half_of_twenty_attempts_within_a_minute_opens_the_breaker() -> None:
    health = ReceiverHealth()
    feed(health, *alternating(19))
    assert health.breaker == "closed"
    assert feed(health, "failed").opened
    slow = ReceiverHealth()
    assert not feed(slow, *alternating(30), gap_s=7).opened


def test_the_delay_between_probes_grows_up_to_a_maximum() -> None:
    health = ReceiverHealth()
    feed(health, *failures(5))
    waits: list[float] = []
    for _ in range(7):
        feed(health, "failed", probe=True)
        assert health.hold_until is not None
        waits.append((health.hold_until - NOW).total_seconds())
    assert waits == [60, 120, 300, 600, 900, 900, 900]


def test_a_failure_of_a_request_in_flight_does_not_postpone_the_probe() -> None:
    health = ReceiverHealth()
    feed(health, *failures(5))
    before = health.hold_until
    feed(health, "failed")
    assert health.hold_until == before


def test_one_successful_probe_closes_the_breaker_and_clears_the_hold() -> None:
    health = ReceiverHealth()
    feed(health, *failures(5))
    assert feed(health, "succeeded", probe=True).recovered
    assert (health.breaker, health.failures, health.failing_since, health.hold_until) == (
        "closed",
        0,
        None,
        None,
    )
    assert not feed(health, "succeeded").recovered
    assert feed(health, *failures(5)).opened


def test_a_retry_after_response_does_not_count_as_a_failure() -> None:
    health = ReceiverHealth()
    for _ in range(10):
        update_health(health, "put_off", NOW, CONFIG, probe=False, retry_after=120)
    assert (health.breaker, health.failures, health.hold_until) == ("closed", 0, NOW + timedelta(seconds=120))
    update_health(health, "put_off", NOW, CONFIG, probe=False, retry_after=10**9)
    assert health.hold_until == NOW + timedelta(hours=1)


def test_three_days_without_a_success_disable_the_subscription() -> None:
    health = ReceiverHealth()
    update_health(health, "failed", NOW, CONFIG, probe=False)
    assert update_health(health, "failed", NOW + timedelta(hours=71), CONFIG, probe=False).disable is None
    assert (
        update_health(health, "put_off", NOW + timedelta(hours=72), CONFIG, probe=False, retry_after=1).disable
        == "failing"
    )
    feed(health, "succeeded")
    assert update_health(health, "failed", NOW + timedelta(hours=80), CONFIG, probe=False).disable is None


def test_gone_disables_the_subscription_immediately() -> None:
    assert feed(ReceiverHealth(), "gone").disable == "gone"


def test_a_request_times_out_before_its_lease_expires() -> None:
    assert CONFIG.connect_timeout < CONFIG.request_timeout < CONFIG.lease
    assert CONFIG.heartbeat * 2 < CONFIG.takeover_after < CONFIG.stop_after < CONFIG.lease
