"""The wording of errors: readable, grammatical, and with the next step."""

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
import pytest
from msgspec import inspect
from tests.support.shops import MUG, SHIRT, Shop

from stoa.api import ENDPOINTS
from stoa.customers.bodies import CUSTOMER_ELSEWHERE
from stoa.orders.bodies import ORDER_ELSEWHERE
from stoa.products.bodies import PRODUCT_ELSEWHERE, VARIANT_ELSEWHERE
from stoa.rest.checks import checker
from stoa.rest.endpoint import Endpoint
from stoa.rest.problems import ExpiredToken, Fault, InvalidToken, counted

WRITES = [endpoint for endpoint in ENDPOINTS if endpoint.body is not None]
LISTS = [endpoint for endpoint in ENDPOINTS if endpoint.lists is not None]


def texts(info: inspect.Type, words: str | None = None, seen: frozenset[type] = frozenset()) -> Iterator[Any]:
    """Every string with a pattern inside a type, with the message declared for it."""
    match info:
        case inspect.Metadata(type=inner):
            told: dict[str, Any] = info.extra or {}  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
            yield from texts(inner, told.get("words", words), seen)
        case inspect.StrType(pattern=str()):
            yield info.pattern, words
        case inspect.StructType() if info.cls not in seen:
            for field in info.fields:
                yield from texts(field.type, None, seen | {info.cls})
        case inspect.UnionType():
            for each in info.types:
                yield from texts(each, words, seen)
        case inspect.ListType():
            yield from texts(info.item_type, None, seen)
        case inspect.DictType():
            yield from texts(info.key_type, None, seen)
            yield from texts(info.value_type, None, seen)
        case _:
            pass


@pytest.mark.parametrize("endpoint", WRITES, ids=lambda each: each.name)
def test_every_pattern_of_a_body_has_a_readable_message(endpoint: Endpoint) -> None:
    for pattern, words in texts(inspect.type_info(endpoint.body)):
        assert words, f"{pattern} would be shown to the caller"
        assert not set(words) & set("^$[]\\"), words


def test_bodies_have_patterns() -> None:
    found = {pattern for each in WRITES for pattern, _ in texts(inspect.type_info(each.body))}
    assert len(found) >= 10


def test_a_pattern_without_a_message_is_not_shown() -> None:
    faults: list[Fault] = []
    checker(Annotated[str, msgspec.Meta(pattern="^a+$")])("b", "/x", faults, 2)
    assert [fault.detail for fault in faults] == ["has an invalid format"]


@pytest.mark.parametrize(
    ("path", "body", "pointer", "words"),
    [
        ("/customers", {"email": "not an email"}, "/email", "must be an email address, such as maya@example.com"),
        ("/customers", {"email": "a@b.ch", "locale": "?"}, "/locale", "must be a language tag, such as en or en-US"),
        ("/webhooks", {"url": "ftp://x", "events": ["*"]}, "/url", "must be a URL that begins with http://"),
        ("/webhooks", {"events": ["*"], "headers": {"a b": "c"}}, "/headers/a b", "must be a header name"),
        ("/customers", {"first_name": "Maya"}, "/email", "is required unless phone is given"),
    ],
)
async def test_an_invalid_text_gets_the_expected_format(
    shop: Shop, path: str, body: dict[str, Any], pointer: str, words: str
) -> None:
    answer = await shop.client.post(path, json=body)
    assert answer.status_code == 422
    [fault] = answer.json()["errors"]
    assert fault["pointer"] == pointer
    assert words in fault["detail"]


# --- numbers and nouns ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("number", "words"), [(0, "0 faults"), (1, "1 fault"), (2, "2 faults")])
def test_a_noun_agrees_with_its_number(number: int, words: str) -> None:
    assert counted(number, "fault") == words


async def test_the_number_of_faults_is_grammatical(shop: Shop) -> None:
    one = (await shop.client.get("/orders", params={"status": "lost"})).json()
    two = (await shop.client.get("/orders", params={"status": "lost", "limit": "0"})).json()
    assert (one["detail"], two["detail"]) == ("1 parameter cannot be read.", "2 parameters cannot be read.")


# --- parameters ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("endpoint", LISTS, ids=lambda each: each.name)
def test_include_exists_only_for_lists_with_includes(endpoint: Endpoint) -> None:
    assert endpoint.lists is not None
    assert ("include" in endpoint.lists.parameters()) == bool(endpoint.includes)


async def test_include_is_unknown_for_lists_without_includes(shop: Shop) -> None:
    problem = (await shop.client.get("/orders", params={"include": "x"})).json()
    assert (problem["code"], problem["parameters"]) == ("unknown_parameter", ["include"])
    assert "include" not in problem["available"]
    assert (await shop.client.get("/products", params={"include": "variants"})).status_code == 200


async def test_an_unknown_parameter_gets_a_suggestion(shop: Shop) -> None:
    (shirt,) = await shop.add(SHIRT)
    for path, name, meant in (("/orders", "statsu", "status"), (f"/products/{shirt}", "field", "fields")):
        problem = (await shop.client.get(path, params={name: "a", "zzzzzz": "b"})).json()
        assert problem["parameters"] == [name, "zzzzzz"]
        first, second = problem["errors"]
        assert (first["pointer"], first["code"], first["meta"]) == (name, "unknown_parameter", {"did_you_mean": meant})
        assert second.get("meta") is None


async def test_an_unknown_operator_gets_the_list_of_operators(shop: Shop) -> None:
    problem = (await shop.client.get("/products", params={"price[foo]": "1"})).json()
    [fault] = problem["errors"]
    assert fault["meta"] == {"operators": ["gte", "gt", "lte", "lt"]}
    assert "price[gte], price[gt], price[lte], price[lt]" in fault["detail"]
    [fault] = (await shop.client.get("/products", params={"status[gte]": "draft"})).json()["errors"]
    assert "status takes no brackets" in fault["detail"]


# --- tokens, addresses, versions -----------------------------------------------------------------------------------


async def test_an_invalid_token_gets_the_token_endpoint(shop: Shop) -> None:
    problem = (await shop.client.get("/products", headers={"authorization": "Bearer nonsense"})).json()
    assert problem["code"] == "invalid_token"
    assert problem["detail"] != problem["title"]
    for kind in (InvalidToken, ExpiredToken):
        assert "/oauth/token" in kind().detail


@pytest.mark.parametrize("path", ["/products/", "/products/7/", "/orders/7/comments/"])
async def test_a_trailing_slash_is_explained(shop: Shop, path: str) -> None:
    answer = await shop.client.get(path)
    assert answer.status_code == 404
    assert answer.json()["detail"] == f"There is no such path. Use {path[:-1]}, without the trailing slash."


async def test_a_trailing_slash_on_an_unknown_path_is_not_explained(shop: Shop) -> None:
    for path in ("/nothing/", "/products//", "/"):
        assert (await shop.client.get(path)).json()["detail"] == "There is no such path."


async def test_a_version_is_accepted_with_and_without_quotes(shop: Shop) -> None:
    (mug,) = await shop.add(MUG)
    path = f"/products/{mug}"
    assert (await shop.client.patch(path, json={"brand": "a"}, headers={"if-match": "1"})).status_code == 200
    stale = await shop.client.patch(path, json={"brand": "b"}, headers={"if-match": "1"})
    assert (stale.status_code, stale.json()["current_version"]) == (412, 2)
    assert (await shop.client.patch(path, json={"brand": "b"}, headers={"if-match": "2x"})).status_code == 412


# --- fields that are only read -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "body", "names"),
    [
        ("/products", MUG, {"id", "currency", "created_at", "version"}),
        ("/customers", {"email": "maya@example.com"}, {"id", "orders_count", "updated_at"}),
        ("/webhooks", {"events": ["order.*"]}, {"id", "health", "secret"}),
    ],
)
async def test_a_response_only_field_is_refused_as_read_only(
    shop: Shop, path: str, body: dict[str, Any], names: set[str]
) -> None:
    answer = await shop.client.post(path, json={**body, **dict.fromkeys(names, 1), "color": "red"})
    assert answer.status_code == 422
    codes = {fault["pointer"]: fault["code"] for fault in answer.json()["errors"]}
    assert codes == {**{f"/{name}": "read_only_field" for name in names}, "/color": "unknown_field"}


async def test_a_patch_of_stock_gets_the_adjustments_endpoint(shop: Shop) -> None:
    (mug,) = await shop.add(MUG)
    [variant] = (await shop.client.get(f"/products/{mug}/variants")).json()["data"]
    for path in (f"/products/{mug}", f"/products/{mug}/variants/{variant['id']}"):
        answer = await shop.client.patch(path, json={"stock": {"on_hand": 3}})
        [fault] = answer.json()["errors"]
        assert (fault["pointer"], fault["code"]) == ("/stock", "read_only_field")
        assert "POST /products/inventory/adjustments" in fault["detail"]
    batch = {"items": [{"id": variant["id"], "data": {"stock": {"on_hand": 3}}}]}
    [fault] = (await shop.client.patch("/products/variants", json=batch)).json()["errors"]
    assert (fault["pointer"], "adjustments" in fault["detail"]) == ("/items/0/data/stock", True)


def test_the_endpoint_that_changes_a_field_exists() -> None:
    known = {f"{each.method} {each.path}" for each in ENDPOINTS}
    for elsewhere in (CUSTOMER_ELSEWHERE, ORDER_ELSEWHERE, PRODUCT_ELSEWHERE, VARIANT_ELSEWHERE):
        assert set(elsewhere.values()) <= known


# --- money ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("price", ["99999999999999999999", "10000000000000000.00", 99999999999999])
async def test_a_price_that_is_too_large_gets_the_limit(shop: Shop, price: str | int) -> None:
    [fault] = (await shop.client.post("/products", json={**MUG, "price": price})).json()["errors"]
    assert fault["code"] == "invalid_money"
    assert fault["detail"] == "must be at most 9999999999999.99"


async def test_an_invalid_amount_gets_an_example(shop: Shop) -> None:
    [fault] = (await shop.client.post("/products", json={**MUG, "price": "much"})).json()["errors"]
    assert fault["detail"] == 'must be an amount such as "19.99"'
    [fault] = (await shop.client.get("/products", params={"price[gte]": "9" * 40})).json()["errors"]
    assert "amount" in fault["detail"]
