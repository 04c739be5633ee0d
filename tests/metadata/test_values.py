"""The values that a definition accepts: every type with random values, through the API, never with an internal error."""

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoa.rest.metadata_types import LONGEST_LIST, Definition, Type
from stoa.store_data.definitions import InvalidDefinition, read_definition, read_definitions
from tests.metadata.support import faults, in_force, merchant_defines
from tests.support.shops import Shop

CHOICES = ["red", "green", "deep blue"]
RULES: dict[Type, dict[str, Any]] = {
    "string": {"max_length": 8},
    "integer": {"min": -5, "max": 120},
    "decimal": {"min": -0.5, "max": 99.5},
    "boolean": {},
    "date": {"min": "2020-02-29", "max": "2030-12-31"},
    "url": {"max_length": 40},
    "choice": {"choices": CHOICES},
    "list": {"choices": CHOICES, "min": 1, "max": 2},
}
VALID: dict[Type, Callable[[Any], bool]] = {
    "string": lambda value: isinstance(value, str) and len(value) <= 8,
    "integer": lambda value: type(value) is int and -5 <= value <= 120,
    "decimal": lambda value: (
        not isinstance(value, (str, bool))
        and Decimal("-0.5") <= (number := Decimal(str(value))) <= Decimal("99.5")
        and number == round(number, 9)
    ),
    "boolean": lambda value: isinstance(value, bool),
    "date": lambda value: isinstance(value, str) and _is_date(value) and "2020-02-29" <= value <= "2030-12-31",
    "url": lambda value: isinstance(value, str) and value == "https://example.com",
    "choice": lambda value: value in CHOICES,
    "list": lambda value: (
        isinstance(value, str)
        and all(each in CHOICES for each in value.split(","))
        and len(set(value.split(","))) == len(value.split(",")) <= 2
    ),
}
VALUES = st.one_of(
    st.integers(-(2**63), 2**63 - 1),
    st.integers(-10, 130),
    st.floats(-1e18, 1e18, allow_nan=False),
    st.decimals(-2, 101, places=2).map(float),
    st.booleans(),
    st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12),
    st.dates(date(2019, 1, 1), date(2032, 1, 1)).map(str),
    st.sampled_from(["2021-02-29", "2021-13-01", "https://example.com", "https://a b", "1e5", "24", "true", ""]),
    st.lists(st.sampled_from([*CHOICES, "pink"]), max_size=4).map(",".join),
)


def as_sent(value: Any) -> Any:
    """A value as the API reads it: in JSON, 5.0 is the integer 5."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _is_date(text: str) -> bool:
    try:
        return str(date.fromisoformat(text)) == text
    except ValueError:
        return False


@pytest.mark.parametrize("kind", RULES)
@given(value=VALUES)
def test_a_definition_accepts_exactly_the_valid_values(kind: Type, value: Any) -> None:
    definition = Definition(resource="product", key="k", type=kind, **RULES[kind])
    found = definition.faults(value, "/metadata/k")
    assert bool(found) is not VALID[kind](value), (value, found)
    assert {each.pointer for each in found} <= {"/metadata/k"}


async def test_random_values_are_stored_or_refused_with_a_pointer(shop: Shop) -> None:
    await merchant_defines(shop, *({"resource": "product", "key": kind, "type": kind, **RULES[kind]} for kind in RULES))
    [mug] = await shop.add({"name": "Mug", "price": "9.00"})
    await in_force()
    path = f"/products/{mug}"
    examples: list[dict[Type, Any]] = []

    @settings(max_examples=60, database=None)
    @given(st.dictionaries(st.sampled_from(list(RULES)), VALUES, min_size=1))
    def draw(metadata: dict[Type, Any]) -> None:
        examples.append(metadata)

    draw()
    stored: dict[str, Any] = {}
    for metadata in examples:
        answer = await shop.client.patch(path, json={"metadata": metadata})
        wrong = {f"/metadata/{kind}" for kind, value in metadata.items() if not VALID[kind](as_sent(value))}
        if wrong:
            assert {pointer for pointer, _ in faults(answer)} == wrong, metadata
        else:
            assert answer.status_code == 200, answer.text
            stored |= metadata
        assert (await shop.client.get(path)).json()["data"]["metadata"] == stored


@pytest.mark.parametrize(
    ("members", "pointers"),
    [
        ({"type": "choice"}, ["/choices"]),
        ({"type": "choice", "choices": ["a", "a"]}, ["/choices"]),
        ({"type": "list", "choices": ["a,b"]}, ["/choices"]),
        ({"type": "boolean", "min": 1, "max_length": 5}, ["/min", "/max_length"]),
        ({"type": "integer", "min": 1.5}, ["/min"]),
        ({"type": "integer", "min": 5, "max": 4}, ["/max"]),
        ({"type": "decimal", "min": "1"}, ["/min"]),
        ({"type": "date", "min": "2026-02-30"}, ["/min"]),
        ({"type": "list", "min": -1}, ["/min"]),
        ({"type": "number"}, ["/type"]),
        ({"type": "string", "required_from": "tomorrow"}, ["/required_from"]),
        ({"type": "string", "key": "no spaces"}, ["/key"]),
        ({"type": "string", "unit": "cm"}, ["/unit"]),
        ({"type": "string", "resource": "customer"}, ["/key"]),
        ({"type": "string", "max_length": 0}, ["/max_length"]),
    ],
)
def test_a_definition_that_contradicts_itself_is_refused(members: dict[str, Any], pointers: list[str]) -> None:
    with pytest.raises(InvalidDefinition) as refused:
        read_definition({"resource": "product", "key": "k", **members}, of_app=False)
    assert [each.pointer for each in refused.value.faults] == pointers


def test_a_list_of_definitions_names_each_fault() -> None:
    one = {"resource": "product", "key": "k", "type": "string"}
    with pytest.raises(InvalidDefinition) as refused:
        read_definitions([one, {**one, "max": 3}, {**one, "key": "z", "type": "choice"}], of_app=True)
    assert [each.pointer for each in refused.value.faults] == ["/1/max", "/2/choices", "/1/key"]


def test_values_of_toml_are_read() -> None:
    members = {"resource": "order", "key": "k", "type": "decimal", "max": 1.5, "required_from": date(2027, 1, 31)}
    found = read_definition(members, of_app=True)
    assert (found.max, found.required_from) == (1.5, "2027-01-31")


@pytest.mark.parametrize(
    ("kind", "text", "value"),
    [
        ("integer", "24", 24),
        ("integer", "24.5", "24.5"),
        ("decimal", "24.50", Decimal("24.50")),
        ("boolean", "TRUE", True),
        ("boolean", "yes", "yes"),
        ("list", "a, b ,c", "a,b,c"),
        ("string", "24", "24"),
    ],
)
def test_texts_of_files_and_forms_get_their_type(kind: Type, text: str, value: Any) -> None:
    found = Definition(resource="product", key="k", type=kind).read(text)
    assert (found, type(found)) == (value, type(value))


def test_a_list_fits_into_a_search_term() -> None:
    definition = Definition(resource="customer", key="k" * 64, type="list")
    assert [each.code for each in definition.faults("a," * LONGEST_LIST + "b", "")] == ["too_long"]
