"""Which documents match a subscription's filter, and which filters are refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoa.products.contract import Product, Variant
from stoa.rest.problems import Fault
from stoa.webhooks.api.filters import checked
from stoa.webhooks.delivery.conditions import CompiledFilter, Document


def matches(wanted: dict[str, str], document: dict[str, Any]) -> bool:
    return CompiledFilter(wanted).matches(Document(document))


SHIRT: dict[str, Any] = {
    "id": 7,
    "name": "Linen Shirt",
    "price": "59.00",
    "status": "active",
    "brand": None,
    "tags": ["linen", "summer"],
    "taxable": True,
    "stock": {"on_hand": 4, "reserved": 1, "available": 3},
    "metadata": {"tier": "gold", "year": 2026, "washable": True, "gte": "odd"},
    "images": [{"url": "https://images.example.com/a.jpg"}, {"url": "https://images.example.com/b.jpg"}],
    "created_at": "2026-01-31T12:00:00.500000Z",
}


@pytest.mark.parametrize(
    "wanted",
    [
        {},
        {"status": "active"},
        {"status": "draft,active"},
        {"id": "7"},
        {"id": "6,7"},
        {"name": "Linen Shirt"},
        {"price": "59.00"},
        {"price[gte]": "59"},
        {"price[gt]": "9.50", "price[lt]": "100.00"},
        {"brand": "null"},
        {"tag": "linen"},
        {"tag": "LINEN"},
        {"tags": "WINTER,Summer"},
        {"tags": "winter,summer"},
        {"taxable": "true"},
        {"stock.available[lte]": "3"},
        {"metadata[tier]": "gold"},
        {"metadata[year]": "2026"},
        {"metadata[washable]": "true"},
        {"metadata[gte]": "odd"},
        {"images.url": "https://images.example.com/b.jpg"},
        {"created_at[gte]": "2026-01-31T12:00:00Z"},
        {"created_at": "2026-01-31T13:00:00.5+01:00"},
    ],
)
def test_a_document_that_meets_every_condition_matches(wanted: dict[str, str]) -> None:
    assert matches(wanted, SHIRT)


@pytest.mark.parametrize(
    "wanted",
    [
        {"status": "draft"},
        {"status": "active", "price[gte]": "60"},
        {"id": "70"},
        {"price": "59"},
        {"price[gt]": "59.00"},
        {"price[gte]": "many"},
        {"name[gte]": "A"},
        {"brand": "Hearth"},
        {"tag": "winter"},
        {"taxable": "false"},
        {"taxable[gte]": "0"},
        {"stock.available[lt]": "3"},
        {"stock": "4"},
        {"metadata[tier]": "silver"},
        {"metadata[none]": "null"},
        {"metadata": "gold"},
        {"unknown": "null"},
        {"unknown[gte]": "1"},
        {"created_at[lt]": "2026-01-31T12:00:00Z"},
        {"created_at[gte]": "5"},
        {"status[": "active"},
    ],
)
def test_a_document_that_misses_a_condition_does_not_match(wanted: dict[str, str]) -> None:
    assert not matches(wanted, SHIRT)


def test_numbers_in_strings_are_compared_as_numbers() -> None:
    assert matches({"price[gt]": "9.00"}, {"price": "10.00"})


@given(st.dictionaries(st.text(max_size=20), st.text(max_size=20)), st.dictionaries(st.text(max_size=5), st.integers()))
def test_an_arbitrary_filter_never_raises(wanted: dict[str, str], document: dict[str, Any]) -> None:
    assert matches(wanted, document) in (True, False)
    faults: list[Fault] = []
    conditions = checked(wanted, [Product], 2, faults)
    assert len(conditions) + len(faults) == len(wanted)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


@given(
    st.sampled_from(["a", "a[gte]", "a[lt]", "a.b", "a[b]", "a.b[gt]"]),
    st.text(max_size=30) | st.just("1"),
    json_values,
)
def test_an_arbitrary_document_never_raises(key: str, text: str, value: Any) -> None:
    assert matches({key: text}, {"a": value}) in (True, False)


def faults_of(wanted: dict[str, Any], *documents: type[Any]) -> list[tuple[str, str]]:
    faults: list[Fault] = []
    checked(wanted, documents or [Product], 2, faults)
    return [(fault.pointer, fault.code) for fault in faults]


def test_amounts_are_normalized_to_the_digits_of_the_currency() -> None:
    faults: list[Fault] = []
    conditions = checked({"price[gte]": "100", "price": "5,7.5"}, [Product], 2, faults)
    assert (conditions, faults) == ({"price[gte]": "100.00", "price": "5.00,7.50"}, [])


def test_numbers_and_booleans_are_converted_to_text() -> None:
    faults: list[Fault] = []
    conditions = checked({"stock.available[lt]": 5, "taxable": True}, [Product], 2, faults)
    assert (conditions, faults) == ({"stock.available[lt]": "5", "taxable": "true"}, [])


def test_an_unknown_field_is_refused_with_the_closest_match() -> None:
    faults: list[Fault] = []
    checked({"staus": "active"}, [Product, Variant], 2, faults)
    assert [(f.pointer, f.code, f.meta) for f in faults] == [
        ("/filter/staus", "unknown_field", {"did_you_mean": "status"})
    ]


def test_a_field_of_any_subscribed_event_is_accepted() -> None:
    assert faults_of({"effective_price[gte]": "1"}, Product, Variant) == []


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        ({"price": "1.234"}, "invalid_money"),
        ({"price[gte]": "lots"}, "invalid_money"),
        ({"price[lt]": "-1"}, "invalid_money"),
        ({"name[gte]": "A"}, "invalid_format"),
        ({"price[near]": "5"}, "invalid_format"),
        ({"stock": "5"}, "invalid_format"),
        ({"metadata": "gold"}, "invalid_format"),
        ({"created_at[gte]": "yesterday"}, "invalid_format"),
        ({"taxable": "yes"}, "invalid_format"),
        ({"id": "seven"}, "invalid_format"),
        ({"status": ""}, "invalid_format"),
        ({"Status": "active"}, "invalid_format"),
        ({"status": "x" * 1001}, "invalid_format"),
        ({"price]": "1"}, "invalid_format"),
        ({"stock.nothing": "1"}, "unknown_field"),
    ],
)
def test_a_condition_that_no_document_can_meet_is_refused(wanted: dict[str, str], code: str) -> None:
    assert [each for _, each in faults_of(wanted)] == [code]


def test_all_faults_of_a_filter_are_reported_together() -> None:
    assert len(faults_of({"price": "x", "nothing": "1", "taxable": "yes"})) == 3
