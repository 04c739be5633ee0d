"""Every pointer of a problem resolves in the body that was sent; the tests' client checks this for the whole suite."""

from typing import Any

import pytest
from tests.support.pointers import unresolved_at
from tests.support.shops import SHIRT, Shop

BODY: dict[str, Any] = {"items": [{"op": "create", "data": {"price": "x", "a/b": 1, "": 2}}]}


@pytest.mark.parametrize(
    ("pointer", "missing", "unresolved"),
    [
        ("", False, False),
        ("/items/0/data/price", False, False),
        ("/items/0/data/a~1b", False, False),
        ("/items/0/data/", False, False),
        ("/items/0/price", False, True),
        ("/items/1", False, True),
        ("/items/x", False, True),
        ("/items/0/op/x", False, True),
        ("items", False, True),
        ("/items/0/data/name", False, True),
        ("/items/0/data/name", True, False),
        ("/items/0/seo/title", True, True),
    ],
)
def test_the_check_follows_rfc_6901(pointer: str, missing: bool, unresolved: bool) -> None:
    assert unresolved_at(BODY, pointer, missing=missing) is unresolved


async def test_a_name_that_cannot_be_repeated_is_reported_at_its_object(shop: Shop) -> None:
    for name in ("x" * 5_000, "a\nb"):
        answer = await shop.client.post("/products", json={"name": "Bowl", "price": "1", "seo": {name: 1}})
        [fault] = answer.json()["errors"]
        assert (fault["pointer"], fault["code"]) == ("/seo", "unknown_field")
        assert fault["detail"].startswith("has the unknown field")
    answer = await shop.client.post("/products", json={"name": "Bowl", "price": "1", "a~/b": 1})
    assert [fault["pointer"] for fault in answer.json()["errors"]] == ["/a~0~1b"]


async def test_an_amount_is_reported_at_the_member_that_was_sent(shop: Shop) -> None:
    await shop.add({**SHIRT, "options": [], "variants": [{"sku": "LS", "stock": {"on_hand": 9}}]})
    line = {"sku": "LS", "quantity": 2, "discount_total": "100.00"}
    order = (await shop.client.post("/orders", json={"line_items": [line]})).json()["data"]
    path = f"/orders/{order['id']}/products/{order['line_items'][0]['id']}"
    answer = await shop.client.patch(path, json={"quantity": 1})
    assert [(fault["pointer"], fault["code"]) for fault in answer.json()["errors"]] == [("/quantity", "out_of_range")]
    await shop.client.put(f"/orders/{order['id']}/status", json={"status": "cancelled"})
    answer = await shop.client.patch(path, json={"unit_price": "70.00"})
    assert [fault["pointer"] for fault in answer.json()["errors"]] == ["/unit_price"]
