"""A read-only field is one fault among others: it neither hides them, nor do they hide it."""

from typing import Any

import httpx
import pytest
from tests.support.shops import MUG, PERSON, SHIRT, Shop

from stoa.customers.bodies import NewCustomer
from stoa.customers.rows import change_by_row
from stoa.customers.rules import new_customer
from stoa.rest.call import Store
from stoa.rest.problems import ValidationFailed

READ_ONLY = "read_only_field"


def found(answer: httpx.Response) -> dict[str, str]:
    assert (answer.status_code, answer.json()["code"]) == (422, "validation_failed"), answer.text
    return {fault["pointer"]: fault["code"] for fault in answer.json()["errors"]}


async def paths(shop: Shop) -> dict[str, str]:
    ids = await shop.fill()
    return {
        "product": f"/products/{ids['product_id']}",
        "variant": f"/products/{ids['product_id']}/variants/{ids['variant_id']}",
        "order": f"/orders/{ids['order_id']}",
        "line": f"/orders/{ids['order_id']}/products/{ids['line_item_id']}",
        "customer": f"/customers/{ids['customer_id']}",
        "address": f"/customers/{ids['customer_id']}/addresses/{ids['address_id']}",
        "webhook": f"/webhooks/{ids['webhook_id']}",
    }


@pytest.mark.parametrize(
    ("resource", "body", "faults"),
    [
        # A fault that only the stored resource shows.
        ("product", {"variants_count": 9, "options": []}, {"/options": "option_mismatch"}),
        ("variant", {"product_id": 9, "image_id": 99}, {"/image_id": "invalid_format"}),
        ("order", {"number": 5, "discount_total": "9999.00"}, {"/discount_total": "out_of_range"}),
        ("line", {"number": 5, "discount_total": "9999.00"}, {"/discount_total": "out_of_range"}),
        ("customer", {"orders_count": 5, "email": None, "phone": None}, {"/email": "required"}),
        ("address", {"version": 1, "id": 999, "country_code": "XX"}, {"/country_code": "invalid_format"}),
        ("webhook", {"created_at": "x", "filter": {"color": "red"}}, {"/filter/color": "unknown_field"}),
        # A fault of the body itself.
        ("product", {"variants_count": 9, "price": "much", "color": 1}, {"/price": "invalid_money", "/color": "unknown_field"}),
        ("variant", {"product_id": 9, "price": "much"}, {"/price": "invalid_money"}),
        ("order", {"number": 5, "tags": 1}, {"/tags": "invalid_type"}),
        ("line", {"number": 5, "quantity": "two"}, {"/quantity": "invalid_type"}),
        ("customer", {"orders_count": 5, "email": 7}, {"/email": "invalid_type"}),
        ("address", {"id": 999, "city": 7}, {"/city": "invalid_type"}),
        ("webhook", {"created_at": "x", "url": 7}, {"/url": "invalid_type"}),
    ],
)  # fmt: skip
async def test_a_patch_reports_read_only_fields_with_all_other_faults(
    shop: Shop, resource: str, body: dict[str, Any], faults: dict[str, str]
) -> None:
    path = (await paths(shop))[resource]
    read_only = next(name for name in body if name != "version")
    assert found(await shop.client.patch(path, json=body)) == {f"/{read_only}": READ_ONLY, **faults}


@pytest.mark.parametrize(
    ("path", "body", "faults"),
    [
        ("/products", {**SHIRT, "variants_count": 2, "options": []}, {"/variants/0/option_values": "option_mismatch"}),
        ("/orders", {"number": 7, "line_items": [{"sku": "NOPE", "quantity": 1}]}, {"/line_items/0/sku": "unknown_sku"}),
        ("/customers", {**PERSON, "orders_count": 1, "phone": "12"}, {"/phone": "invalid_format"}),
        ("/webhooks", {"health": 1, "url": "http://10.0.0.1/", "events": ["order.*"]}, {"/url": "url_not_allowed"}),
    ],
)  # fmt: skip
async def test_a_creation_reports_read_only_fields_with_all_other_faults(
    shop: Shop, path: str, body: dict[str, Any], faults: dict[str, str]
) -> None:
    codes = found(await shop.client.post(path, json=body))
    read_only = {pointer for pointer, code in codes.items() if code == READ_ONLY}
    assert len(read_only) == 1
    assert faults.items() <= codes.items()


async def test_a_read_only_field_alone_writes_nothing(shop: Shop) -> None:
    all_paths = await paths(shop)
    for resource, body in {
        "product": {"variants_count": 9, "name": "Changed"},
        "order": {"number": 5, "note": "Changed"},
        "customer": {"orders_count": 5, "first_name": "Changed"},
        "webhook": {"created_at": "x", "name": "Changed"},
    }.items():
        before = (await shop.client.get(all_paths[resource])).json()
        read_only = next(iter(body))
        assert found(await shop.client.patch(all_paths[resource], json=body)) == {f"/{read_only}": READ_ONLY}
        assert (await shop.client.get(all_paths[resource])).json() == before
    totals = [(await shop.client.get(path)).json()["meta"]["total"] for path in ("/products", "/orders", "/customers")]
    await shop.client.post("/products", json={"id": 1, **MUG, "sku": "NEW"})
    await shop.client.post("/customers", json={"id": 1, "email": "new@example.com"})
    line = {"name": "Wrapping", "unit_price": "1.00", "quantity": 1}
    key = {"idempotency-key": "placed-once"}
    refused = await shop.client.post("/orders", json={"id": 1, "line_items": [line]}, headers=key)
    assert found(refused) == {"/id": READ_ONLY}
    for path, total in zip(("/products", "/orders", "/customers"), totals, strict=True):
        assert (await shop.client.get(path)).json()["meta"]["total"] == total
    placed = await shop.client.post("/orders", json={"line_items": [line]}, headers=key)
    assert placed.status_code == 201, "a refused request does not keep its key"


async def test_items_of_a_batch_report_read_only_fields_with_all_other_faults(shop: Shop) -> None:
    (shirt,) = await shop.add(SHIRT)
    items = [
        {"sku": "LS-S", "data": {"product_id": 9, "price": "much"}},
        {"sku": "LS-M", "data": {"product_id": 9, "image_id": 99}},
    ]
    assert found(await shop.client.patch("/products/variants", json={"items": items})) == {
        "/items/0/data/product_id": READ_ONLY,
        "/items/0/data/price": "invalid_money",
        "/items/1/data/product_id": READ_ONLY,
        "/items/1/data/image_id": "invalid_format",
    }
    item = {
        "op": "update",
        "id": shirt,
        "data": {"id": 9, "sku": "OTHER", "price": "much", "variants": [{"sku": "LS-S"}]},
    }
    assert found(await shop.client.post("/products/batch", json={"items": [item]})) == {
        "/items/0/data/id": READ_ONLY,
        "/items/0/data/sku": READ_ONLY,
        "/items/0/data/price": "invalid_money",
    }


def test_a_row_of_customers_reports_a_foreign_id_with_all_other_faults() -> None:
    customer = new_customer(NewCustomer(email="ada@example.com"), {}, None)
    with pytest.raises(ValidationFailed) as refused:
        change_by_row(customer, {"id": 9, "first_name": 7}, None, Store(1, "demo", "Demo", "USD", "active"))
    assert {fault.pointer: fault.code for fault in refused.value.faults} == {
        "/id": READ_ONLY,
        "/first_name": "invalid_type",
    }
