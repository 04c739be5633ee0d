"""Money is exact: integers of minor units inside, decimal strings outside."""

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoa.money import CURRENCIES, LARGEST, InvalidMoney, digits, to_minor, to_text

minor_units = st.integers(0, LARGEST - 1)
fraction_digits = st.sampled_from([0, 2, 3, 4])


@pytest.mark.parametrize(
    ("currency", "expected"),
    [("JPY", 0), ("KRW", 0), ("EUR", 2), ("USD", 2), ("KWD", 3), ("TND", 3), ("CLF", 4)],
)
def test_a_currency_has_the_digits_of_iso_4217(currency: str, expected: int) -> None:
    assert currency in CURRENCIES
    assert digits(currency) == expected


def test_every_currency_is_a_code_of_three_letters() -> None:
    assert all(len(currency) == 3 and currency.isascii() and currency.isupper() for currency in CURRENCIES)
    assert {digits(currency) for currency in CURRENCIES} == {0, 2, 3, 4}


@pytest.mark.parametrize(
    ("minor", "places", "text"),
    [
        (0, 0, "0"),
        (1999, 0, "1999"),
        (0, 2, "0.00"),
        (5, 2, "0.05"),
        (1999, 2, "19.99"),
        (5, 3, "0.005"),
        (1999, 3, "1.999"),
        (-5, 2, "-0.05"),
        (-1999, 2, "-19.99"),
        (LARGEST - 1, 2, "9999999999999.99"),
    ],
)
def test_an_amount_is_written_with_the_digits_of_its_currency(minor: int, places: int, text: str) -> None:
    assert to_text(minor, places) == text


@given(minor_units, fraction_digits)
def test_an_amount_survives_the_round_trip(minor: int, places: int) -> None:
    assert to_minor(Decimal(to_text(minor, places)), places) == minor


@given(minor_units, fraction_digits)
def test_the_text_has_exactly_the_digits_of_the_currency(minor: int, places: int) -> None:
    assert len(to_text(minor, places).partition(".")[2]) == places


@given(minor_units, minor_units, fraction_digits)
def test_the_order_of_amounts_is_kept(one: int, other: int, places: int) -> None:
    assert (one < other) == (Decimal(to_text(one, places)) < Decimal(to_text(other, places)))


@given(minor_units, fraction_digits, st.integers(0, 6))
def test_trailing_zeros_do_not_change_an_amount(minor: int, places: int, zeros: int) -> None:
    text = to_text(minor, places)
    padded = f"{text}{'0' * zeros}" if "." in text else f"{text}.{'0' * zeros}"
    assert to_minor(Decimal(padded), places) == minor


@pytest.mark.parametrize(
    ("amount", "places"),
    [
        ("0.5", 0),
        ("1.001", 2),
        ("0.0001", 3),
        ("0.1", 0),
        ("1e-9", 2),
        ("1E-30", 2),
        (f"1.{'9' * 60}", 2),
        ("1e-9999999", 2),
    ],
)
def test_an_amount_that_needs_rounding_is_refused(amount: str, places: int) -> None:
    with pytest.raises(InvalidMoney, match=f"at most {places} fraction digits"):
        to_minor(Decimal(amount), places)


@given(st.floats(0.001, 0.009), fraction_digits.filter(lambda places: places <= 2))
def test_the_exact_value_of_a_float_is_never_rounded_to_an_amount(value: float, places: int) -> None:
    with pytest.raises(InvalidMoney):
        to_minor(Decimal(value), places)


def test_one_tenth_as_a_float_is_not_ten_cents() -> None:
    assert to_minor(Decimal("0.1"), 2) == 10
    with pytest.raises(InvalidMoney):
        to_minor(Decimal(0.1), 2)  # noqa: RUF032 - the binary value is the point


@pytest.mark.parametrize("amount", ["NaN", "sNaN", "Infinity", "-Infinity"])
def test_an_amount_must_be_finite(amount: str) -> None:
    with pytest.raises(InvalidMoney, match="finite"):
        to_minor(Decimal(amount), 2)


@given(st.integers(1, LARGEST), fraction_digits)
def test_a_negative_amount_is_refused(minor: int, places: int) -> None:
    with pytest.raises(InvalidMoney, match="must not be negative"):
        to_minor(Decimal(-minor).scaleb(-places), places)


def test_negative_zero_is_zero() -> None:
    assert to_minor(Decimal("-0.00"), 2) == 0


@pytest.mark.parametrize("amount", ["10000000000000.00", "1e13", "1e20", "1e21", "1e999999"])
def test_an_amount_beyond_the_limit_is_refused_with_the_limit(amount: str) -> None:
    with pytest.raises(InvalidMoney, match=r"must be at most 9999999999999\.99"):
        to_minor(Decimal(amount), 2)
    assert to_minor(Decimal("9999999999999.99"), 2) == LARGEST - 1
