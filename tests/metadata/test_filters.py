"""Lists by typed metadata: ranges of numbers and dates, values of lists, and the types of equal values."""

from decimal import Decimal
from operator import ge, gt, le, lt
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stoa import terms
from stoa.rest.metadata_types import Resource
from tests.metadata.support import app_defines, in_force, merchant_defines
from tests.support.shops import Shop

OPERATORS: dict[terms.Operator, Any] = {"gte": ge, "gt": gt, "lte": le, "lt": lt}
NUMBERS = st.one_of(
    st.integers(-(10**18) + 1, 10**18 - 1).map(Decimal),
    st.integers(-120, 120).map(Decimal),
    st.decimals(-200, 200, places=2),
    st.decimals(-1, 1, places=9),
)
SIZES = [-100, -20.5, -3, 0, 0.05, 0.5, 3, 9, 10, 23.75, 24, 24.001, 25, 99, 100, 120000]


async def comparable(shop: Shop, values: list[Any], query: str) -> list[bool]:
    """Whether the terms of each value match a query on the comparable terms, as the database decides it."""
    lexemes = [terms.vector([terms.lexeme(7, "meta", terms.entry("k", value))]) for value in values]
    rows = await shop.db.fetch(
        """SELECT coalesce(comparable_terms(v::tsvector) @@ $2::text::tsquery, false)
             FROM unnest($1::text[]) WITH ORDINALITY AS t (v, n) ORDER BY n""",
        lexemes,
        query,
    )
    return [row[0] for row in rows]


async def test_ranges_of_numbers_are_those_of_arithmetic(shop: Shop) -> None:
    examples: list[tuple[list[Decimal], Decimal]] = []

    @settings(max_examples=100, database=None)
    @given(st.lists(NUMBERS, min_size=1, max_size=12), NUMBERS)
    def draw(values: list[Decimal], bound: Decimal) -> None:
        examples.append(([*values, bound], bound))

    draw()
    for values, bound in examples:
        for operator, compare in OPERATORS.items():
            query = terms.number_range(7, "k", operator, bound)
            assert await comparable(shop, values, query) == [compare(each, bound) for each in values], (bound, operator)
        equal = await comparable(shop, values, terms.number_is(7, "k", bound))
        assert equal == [each == bound for each in values], bound


async def test_numbers_are_found_in_every_notation(shop: Shop) -> None:
    notations = ["1E+2", "100.00", "1e2", "1e+02", "0100", 100, 100.0]
    assert await comparable(shop, notations, terms.number_is(7, "k", Decimal(100))) == [True] * len(notations)
    others = ["1E+99", "9" * 27, "1e999", "-", "1.2.3", "0x64", "100 ", "", "a=100", True]
    assert not any(await comparable(shop, others, terms.number_range(7, "k", "gte", Decimal(0))))


@given(st.dates().map(str), st.dates().map(str), st.sampled_from(list(OPERATORS)))
def test_ranges_of_dates_are_those_of_the_calendar(day: str, bound: str, operator: terms.Operator) -> None:
    query = terms.date_range(7, "k", operator, bound).strip("()")
    found = any(
        f"'7/m/k={day}".startswith(each.removesuffix("':*")) if each.endswith(":*") else each == f"'7/m/k={day}'"
        for each in query.split(" | ")
    )
    assert found is OPERATORS[operator](day, bound)


async def created(client: httpx.AsyncClient, resource: Resource, n: int, metadata: dict[str, Any]) -> None:
    bodies: dict[str, Any] = {
        "product": {"name": f"Mug {n}", "price": "9.00"},
        "order": {"line_items": [{"name": "Repair", "unit_price": "1.00", "quantity": 1 + n}]},
        "customer": {"email": f"{n}@example.com"},
    }
    answer = await client.post(f"/{resource}s", json={**bodies[resource], "metadata": metadata})
    assert answer.status_code == 201, answer.text


async def found(client: httpx.AsyncClient, resource: Resource, key: str, **filters: str) -> list[Any]:
    names = {f"metadata[{key}]{f'[{name}]' if name != 'eq' else ''}": text for name, text in filters.items()}
    answer = await client.get(f"/{resource}s", params=names)
    assert answer.status_code == 200, answer.text
    assert answer.json()["meta"]["total"] == len(answer.json()["data"])
    return [each["metadata"][key] for each in answer.json()["data"]]


@pytest.mark.parametrize("resource", ["product", "order", "customer"])
async def test_a_list_is_filtered_by_typed_values(shop: Shop, resource: Resource) -> None:
    key, day, list_ = ("size", "on", "for") if resource != "customer" else ("shared.size", "shared.on", "shared.for")
    await merchant_defines(
        shop,
        {"resource": resource, "key": key, "type": "decimal"},
        {"resource": resource, "key": day, "type": "date"},
        {"resource": resource, "key": list_, "type": "list"},
    )
    for n, size in enumerate(SIZES):
        metadata = {key: size, day: f"2026-{1 + n % 12:02}-15", list_: ["wool", "wool,linen", "silk"][n % 3]}
        await created(shop.client, resource, n, metadata)
    for bound in (0, 24, -20.5, 100):
        for operator, compare in OPERATORS.items():
            expected = [size for size in SIZES if compare(size, bound)]
            assert await found(shop.client, resource, key, **{operator: str(bound)}) == expected
    assert await found(shop.client, resource, key, gte="9", lt="24.001") == [9, 10, 23.75, 24]
    assert await found(shop.client, resource, key, eq="24.00") == [24]
    spring = await found(shop.client, resource, day, gt="2026-03-15", lte="2026-05-15")
    assert set(spring) == {"2026-04-15", "2026-05-15"}
    wool = await found(shop.client, resource, list_, eq="wool")
    assert (len(wool), set(wool)) == (11, {"wool", "wool,linen"})
    both = await shop.client.get(f"/{resource}s", params={f"metadata[{list_}]": "linen", f"metadata[{key}][lt]": "0"})
    assert [each["metadata"][key] for each in both.json()["data"]] == [-20.5]
    page = await shop.client.get(f"/{resource}s", params={f"metadata[{key}][gte]": "9", "limit": 2})
    following = await shop.client.get(f"/{resource}s", params={"cursor": page.json()["meta"]["next_cursor"]})
    assert [each["metadata"][key] for each in following.json()["data"]] == [23.75, 24]


async def test_an_app_filters_by_its_own_keys(shop: Shop) -> None:
    await app_defines(shop, {"resource": "customer", "key": "visits", "type": "integer"})
    theirs = await shop.client_with(["customers:write"])
    await created(shop.client, "customer", 1, {"visits": 3})
    await created(theirs, "customer", 2, {"visits": 4})
    assert await found(shop.client, "customer", "visits", gte="1") == [3]
    refused = await theirs.get("/customers", params={"metadata[visits][gte]": "1"})
    assert refused.json()["errors"][0]["pointer"] == "metadata[visits][gte]"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("metadata[undefined][gte]", "1"),
        ("metadata[name][gte]", "a"),
        ("metadata[size][gte]", "big"),
        ("metadata[size][gte]", "1e5"),
        ("metadata[size]", "big"),
        ("metadata[size][ne]", "1"),
        ("metadata[size][gte][lt]", "1"),
        ("metadata[on][lt]", "2026-02-30"),
    ],
)
async def test_an_operator_needs_an_ordered_type_and_a_valid_value(shop: Shop, name: str, text: str) -> None:
    await merchant_defines(
        shop,
        {"resource": "product", "key": "size", "type": "integer"},
        {"resource": "product", "key": "name", "type": "string"},
        {"resource": "product", "key": "on", "type": "date"},
    )
    answer = await shop.client.get("/products", params={name: text})
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_parameter"), answer.text
    assert [each["pointer"] for each in answer.json()["errors"]] == [name]


async def test_only_one_list_can_be_searched_at_a_time(shop: Shop) -> None:
    for resource, keys in (("product", ("a", "b")), ("customer", ("shared.a", "shared.b"))):
        await merchant_defines(shop, *({"resource": resource, "key": key, "type": "list"} for key in keys))
    await in_force()
    for path, keys in (("/products", ("a", "b")), ("/customers", ("shared.a", "shared.b"))):
        answer = await shop.client.get(path, params={f"metadata[{key}]": "x" for key in keys})
        assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, "metadata")
