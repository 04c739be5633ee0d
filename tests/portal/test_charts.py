"""Charts: axes, bars, lines and descriptions."""

import itertools
import re
from datetime import date, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoa.portal.kit.charts import HEIGHT, LEFT, RIGHT, TOP, WIDTH, Series, bars, date_labels, lines, short, ticks

MARCH = [date(2026, 3, 1) + timedelta(days=number) for number in range(31)]


@pytest.mark.parametrize(
    ("maximum", "expected"),
    [
        (0, [0, 1]),
        (1, [0, 1]),
        (3, [0, 1, 2, 3]),
        (4, [0, 1, 2, 3, 4]),
        (7, [0, 2, 4, 6, 8]),
        (10, [0, 5, 10]),
        (97, [0, 50, 100]),
        (100, [0, 50, 100]),
        (18_734, [0, 5_000, 10_000, 15_000, 20_000]),
    ],
)
def test_an_axis_has_round_numbers(maximum: float, expected: list[float]) -> None:
    assert ticks(maximum) == expected


def test_an_axis_of_milliseconds_may_have_fractions() -> None:
    assert ticks(0.9, whole=False) == [0, 0.5, 1]


@given(maximum=st.floats(0, 1e12), whole=st.booleans())
def test_an_axis_covers_the_maximum_in_few_even_steps(maximum: float, whole: bool) -> None:
    found = ticks(maximum, whole=whole)
    assert found[0] == 0
    assert found[-1] >= maximum * (1 - 1e-6) - 1e-6
    assert 2 <= len(found) <= 6
    steps = [after - before for before, after in itertools.pairwise(found)]
    assert max(steps) - min(steps) <= 1e-5 * max(steps) + 1e-6
    if whole:
        assert all(float(each).is_integer() for each in found)


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0, "0"), (0.5, "0.5"), (950, "950"), (1_500, "1.5k"), (20_000, "20k"), (2_500_000, "2.5M"), (3e9, "3B")],
)
def test_axis_labels_are_short(value: float, expected: str) -> None:
    assert short(value) == expected


@given(count=st.integers(1, 400))
def test_few_days_are_labeled_and_the_last_is_one_of_them(count: int) -> None:
    days = [date(2026, 1, 1) + timedelta(days=number) for number in range(count)]
    labels = date_labels(days)
    assert 1 <= len(labels) <= 6
    assert labels[-1] == (count - 1, f"{days[-1]:%-d %b}")


@given(st.lists(st.integers(0, 10**9), min_size=1, max_size=90), st.integers(0, 10**6))
def test_bars_stay_inside_the_plot(values: list[int], more: int) -> None:
    days = [date(2026, 1, 1) + timedelta(days=number) for number in range(len(values))]
    chart = bars("x", "X", "", days, [Series("a", "sea", "a", values), Series("b", "clay", "b", [more] * len(values))])
    for shape in chart.shapes:
        for left, bottom, up, width in re.findall(r"M([\d.-]+) ([\d.-]+)v([\d.-]+)h([\d.-]+)", shape.path):
            assert LEFT <= float(left) <= float(left) + float(width) <= WIDTH - RIGHT + 0.2
            assert TOP - 2 <= float(bottom) + float(up) <= float(bottom) <= HEIGHT


def test_a_line_has_gaps_on_days_without_data() -> None:
    values: list[float | None] = [5, 6, None, 7, None, 8, 9]
    [shape] = lines("x", "X", "ms", MARCH[:7], [Series("p50", "sea", "p50", values)]).shapes
    assert shape.path.count("M") == 2
    assert len(shape.dots) == 1


def test_a_chart_has_a_description() -> None:
    chart = bars("x", "Requests", "per day", MARCH[:3], [Series("Requests", "sea", "requests", [1, 40, 7])])
    assert chart.description == (
        "1 March 2026 to 3 March 2026, by day. Requests: at most 40 per day, on 2 March; most recently 7."
    )
    without_data = bars("x", "Errors", "per day", MARCH[:3], [Series("Failed", "clay", "failed", [0, 0, 0])])
    assert "Failed: none." in without_data.description
