"""Edge cases of customers: hostile requests, repeated values, and concurrent changes."""

import asyncio
from typing import Any

from tests.customers.people import HOUSE, JUN, MAYA, created, events, patched
from tests.support.shops import Shop

HOSTILE: list[tuple[str, str, Any]] = [
    ("POST", "/customers", {}),
    ("POST", "/customers", []),
    ("POST", "/customers", {"email": "a@b"}),
    ("POST", "/customers", {"email": "\u0130" * 120 + "@x.example"}),
    ("POST", "/customers", {"phone": "+" + "9" * 39}),
    ("POST", "/customers", {"phone": "+1 800 FLOWERS"}),
    ("POST", "/customers", {"phone": "\uff0b\uff11\uff15\uff15\uff15\uff10\uff11\uff10\uff10\uff11\uff12\uff13"}),
    ("POST", "/customers", {"email": "x1@example.com", "addresses": [HOUSE] * 101}),
    ("POST", "/customers", {"email": "x2@example.com", "addresses": [{**HOUSE, "latitude": 1e308}]}),
    ("POST", "/customers", {"email": "x3@example.com", "addresses": [{**HOUSE, "country_code": "\u0131t"}]}),
    ("POST", "/customers", {"email": "x4@example.com", "metadata": {"a": {"b": 1}}}),
    ("POST", "/customers", {"email": "x5@example.com", "metadata": {"A": 1, "": 2, "x" * 65: 3}}),
    ("POST", "/customers", {"email": "x6@example.com", "metadata": {"a": 2**63 - 1, "b": -(2**63), "c": 1e-300}}),
    ("POST", "/customers", {"email": "x7@example.com", "metadata": {"a": "\u001e0:\u0001", "shared.": "\u2028"}}),
    ("POST", "/customers", {"email": "x8@example.com", "tags": ["'", "\\", "a'b\\:*"], "first_name": "'; DROP --"}),
    ("POST", "/customers", {"email": "x9@example.com", "last_name": "\U0001d54f" * 255, "note": "\u0001" * 5000}),
    ("POST", "/customers", {"email": "x10@example.com", "external_id": "\U0001d54f" * 255}),
    ("PATCH", "{customer}", {"email": None, "phone": None}),
    ("PATCH", "{customer}", {"addresses": []}),
    ("PATCH", "{customer}", {"tags": None, "note": None, "locale": None, "external_id": None}),
    ("PATCH", "{customer}", {"status": "erased"}),
    ("PATCH", "{customer}", {"orders_count": 9, "total_spent": "1.00", "version": 99}),
    ("PATCH", "{customer}/addresses/{address}", {"country_code": None, "address1": None}),
    ("PATCH", "{customer}/addresses/{address}", {"is_default_shipping": None}),
    ("PATCH", "{customer}/addresses/99999999999999999999", {"city": "x"}),
    ("PATCH", "{customer}/metadata", {"a": []}),
    ("PATCH", "{customer}/metadata", []),
    ("PATCH", "{customer}/metadata", {f"k{n}": n for n in range(101)}),
    ("PATCH", "{customer}/metadata", {"x": "\U0001d54f" * 1001}),
    ("POST", "{customer}/addresses", {"address1": "", "country_code": "US"}),
    ("GET", "/customers?orders_count[gte]=99999999999999999999", None),
    ("GET", "/customers?orders_count[gte]=-1", None),
    ("GET", "/customers?total_spent[lt]=1e30", None),
    ("GET", "/customers?phone=%2B", None),
    ("GET", "/customers?phone=%EF%BC%8B15550100123", None),
    ("GET", "/customers?email=%00", None),
    ("GET", "/customers?q=%2B%2B%2B", None),
    ("GET", "/customers?q=(((", None),
    ("GET", "/customers?q='%5C%3A*%20%26", None),
    ("GET", "/customers?name=%F0%9D%95%8F", None),
    ("GET", "/customers?metadata[]=1", None),
    ("GET", "/customers?metadata[a'b]=%5C'", None),
    ("GET", "/customers?metadata[shared.x]=true&metadata[y]=1", None),
    ("GET", "/customers?created_at[gte]=0001-01-01T00:00:00%2B14:00", None),
    ("GET", "/customers?sort=-last_order_at,last_name&limit=250", None),
    ("GET", "/customers?sort=nope", None),
    ("GET", "/customers?fields=metadata,addresses,nope", None),
    ("GET", "/customers?status=erased&include_deleted=true", None),
    ("DELETE", "{customer}/addresses/999999999999999999", None),
    ("DELETE", "/customers/999999999999999999", None),
]  # fmt: skip


async def test_hostile_requests_never_cause_a_server_error(shop: Shop) -> None:
    maya = await created(shop, MAYA)
    broken: list[tuple[str, str, Any, int]] = []
    for method, path, body in HOSTILE:
        target = path.replace("{customer}", f"/customers/{maya['id']}")
        target = target.replace("{address}", str(maya["addresses"][0]["id"]))
        sent = {"json": body} if body is not None else {}
        answer = await shop.client.request(method, target, **sent)
        if answer.status_code >= 500:
            broken.append((method, path, body, answer.status_code))
    assert broken == []
    assert (await shop.client.get("/customers", params={"limit": 250})).status_code == 200


async def test_repeated_tags_are_stored_once(shop: Shop) -> None:
    jun = await created(shop, {**JUN, "tags": ["vip", "vip", "new"]})
    assert jun["tags"] == ["vip", "new"]
    assert (await patched(shop, f"/customers/{jun['id']}", {"tags": ["new", "new"]}))["tags"] == ["new"]


async def test_metadata_and_fields_changed_in_one_request_are_one_version_and_two_events(shop: Shop) -> None:
    jun = await created(shop, JUN)
    after = await patched(shop, f"/customers/{jun['id']}", {"first_name": "June", "metadata": {"shared.a": 1, "b": 2}})
    assert after["version"] == 2
    assert await events(shop) == [
        ("customer.created", jun["id"], {}),
        ("customer.updated", jun["id"], {"first_name": ["Jun", "June"]}),
        ("customer.metadata_changed", jun["id"], {"metadata": [{}, {"shared.a": 1}]}),
    ]


async def test_concurrent_orders_and_changes_of_one_customer_are_all_counted(shop: Shop) -> None:
    jun = await created(shop, JUN)
    await shop.add({"name": "Class", "price": "3.00", "sku": "CLASS", "track_inventory": False})
    body = {"line_items": [{"sku": "CLASS", "quantity": 1}], "customer_id": jun["id"], "payment_status": "paid"}
    path = f"/customers/{jun['id']}"
    answers = await asyncio.gather(
        *(shop.client.post("/orders", json=body) for _ in range(8)),
        *(shop.client.patch(f"{path}/metadata", json={f"shared.k{n}": n}) for n in range(4)),
        *(shop.client.post(f"{path}/addresses", json=HOUSE) for _ in range(4)),
    )
    assert {answer.status_code for answer in answers} == {200, 201}
    after = (await shop.client.get(path)).json()["data"]
    assert (after["orders_count"], after["total_spent"], len(after["addresses"]), len(after["metadata"])) == (
        8, "24.00", 4, 4,
    )  # fmt: skip
    assert after["version"] == 17


async def test_null_metadata_clears_the_keys_that_the_app_sees(shop: Shop) -> None:
    maya = await created(shop, MAYA)
    other = await shop.client_with(["customers:read", "customers:write"])
    path = f"/customers/{maya['id']}"
    assert (await other.patch(f"{path}/metadata", json={"theirs": 1})).status_code == 200
    assert (await patched(shop, path, {"metadata": None}))["metadata"] == {}
    assert (await other.get(path)).json()["data"]["metadata"] == {"theirs": 1}
    await other.aclose()
