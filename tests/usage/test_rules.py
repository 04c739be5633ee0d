"""The rules of usage: classes of length, percentiles, and what may be kept of a fault's place."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoa.usage.rules import BOUNDS_MS, CLASSES, class_of, kept_pointer, percentile_ms


@pytest.mark.parametrize(
    ("seconds", "name"),
    [(0.0, "ms_1"), (0.001, "ms_1"), (0.0011, "ms_2"), (0.05, "ms_50"), (5.0, "ms_5000"), (60.0, "ms_more")],
)
def test_a_request_is_counted_in_the_class_of_its_length(seconds: float, name: str) -> None:
    assert CLASSES[class_of(seconds)] == name


def test_no_requests_have_no_percentile() -> None:
    assert percentile_ms([0] * len(CLASSES), 0.95) is None


def test_what_took_longest_of_all_is_said_to_take_the_last_bound() -> None:
    assert percentile_ms([0] * len(BOUNDS_MS) + [7], 0.5) == BOUNDS_MS[-1]


@given(st.lists(st.floats(0, 4.9), min_size=1, max_size=200), st.sampled_from([0.5, 0.95, 0.99]))
def test_a_percentile_lies_in_the_class_of_the_true_one(lengths: list[float], share: float) -> None:
    classes = [0] * len(CLASSES)
    for length in lengths:
        classes[class_of(length)] += 1
    ranked = sorted(lengths)
    true = ranked[max(0, -(-int(share * 100) * len(ranked) // 100) - 1)]
    number = class_of(true)
    least, most = (0, *BOUNDS_MS)[number], BOUNDS_MS[number]
    told = percentile_ms(classes, share)
    assert told is not None
    assert least <= told <= most


@pytest.mark.parametrize(
    ("pointer", "kept"),
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
def test_of_a_place_only_our_own_names_are_kept(pointer: str, kept: str) -> None:
    assert kept_pointer(pointer) == kept


@given(st.text())
def test_any_place_is_kept_short_and_plain(pointer: str) -> None:
    kept = kept_pointer(pointer)
    assert len(kept) <= 120
    assert all(c.isascii() or c == "…" for c in kept)
