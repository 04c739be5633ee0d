"""Usage rules: latency buckets, percentiles and redaction of fault pointers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoa.usage.rules import BOUNDS_MS, BUCKETS, bucket_of, percentile_ms, redact_pointer


@pytest.mark.parametrize(
    ("seconds", "name"),
    [(0.0, "ms_1"), (0.001, "ms_1"), (0.0011, "ms_2"), (0.05, "ms_50"), (5.0, "ms_5000"), (60.0, "ms_more")],
)
def test_a_request_is_counted_in_the_bucket_of_its_duration(seconds: float, name: str) -> None:
    assert BUCKETS[bucket_of(seconds)] == name


def test_without_requests_there_is_no_percentile() -> None:
    assert percentile_ms([0] * len(BUCKETS), 0.95) is None


def test_a_percentile_is_capped_at_the_last_bound() -> None:
    assert percentile_ms([0] * len(BOUNDS_MS) + [7], 0.5) == BOUNDS_MS[-1]


@given(st.lists(st.floats(0, 4.9), min_size=1, max_size=200), st.sampled_from([0.5, 0.95, 0.99]))
def test_a_percentile_is_in_the_bucket_of_the_exact_one(durations: list[float], fraction: float) -> None:
    buckets = [0] * len(BUCKETS)
    for duration in durations:
        buckets[bucket_of(duration)] += 1
    ranked = sorted(durations)
    exact = ranked[max(0, -(-int(fraction * 100) * len(ranked) // 100) - 1)]
    number = bucket_of(exact)
    lower, upper = (0, *BOUNDS_MS)[number], BOUNDS_MS[number]
    estimate = percentile_ms(buckets, fraction)
    assert estimate is not None
    assert lower <= estimate <= upper


@pytest.mark.parametrize(
    ("pointer", "redacted"),
    [
        ("", ""),
        ("/price", "/price"),
        ("/items/3/data/variants/0/sku", "/items/3/data/variants/0/sku"),
        ("/metadata/maria.rossi", "/metadata/…"),
        ("/metadata/plain", "/metadata/…"),
        ("/option_values/Size", "/option_values/…"),
        ("/maria@example.com", "/…"),
        ("/+390612345", "/…"),
        ("limit", "limit"),
        ("total[gte]", "total"),
        ("metadata[maria]", "metadata"),
        ("maria@example.com", "…"),
        ("/" + "a" * 41, "/…"),
    ],
)
def test_caller_defined_names_are_redacted(pointer: str, redacted: str) -> None:
    assert redact_pointer(pointer) == redacted


@pytest.mark.parametrize(
    ("pointer", "redacted"), [("/jane_doe", "/…"), ("/items/3/jane_doe", "/items/3/…"), ("jane_doe", "…")]
)
def test_a_name_that_is_not_declared_is_redacted(pointer: str, redacted: str) -> None:
    assert redact_pointer(pointer, declared=False) == redacted


@given(st.text())
def test_a_redacted_pointer_is_short_and_plain(pointer: str) -> None:
    redacted = redact_pointer(pointer)
    assert len(redacted) <= 120
    assert all(c.isascii() or c == "…" for c in redacted)
