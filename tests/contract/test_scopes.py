"""A token with one scope: every operation refuses it, or shows nothing that another scope guards."""

from typing import Any

import httpx
import pytest
from tests.support.shops import PERSON, Shop, api_client, token_for
from tests.webhooks.subscriptions import route

from stoa.access.contract import SCOPES
from stoa.access.rules import expanded
from stoa.api import ENDPOINTS
from stoa.description import openapi
from stoa.rest.dispatch import PREFIX
from stoa.rest.endpoint import Endpoint
from stoa.rest.scopes import EACH, Path

GUARDED = [
    pytest.param(endpoint, path, scope, id=f"{endpoint.name}-{'.'.join(path)}")
    for endpoint in ENDPOINTS
    for path, scope in endpoint.field_scopes
    if endpoint.body is not None
]
# Values that only the scopes of their noun show.
CANARIES: dict[str, list[str]] = {
    "products": ["canary description", "canary material"],
    "inventory": ["canary count"],
    "orders": ["canary order note", "canary comment", "guest.canary@example.com"],
    "customers": ["+15550100987", "Canaryfirst", "Canarylast", "7 Canary Street", "canary person note"],
    "webhooks": ["canary.hooks.example.com"],
}
PARAMETERS: dict[str, list[dict[str, str]]] = {
    "create_order": [{}, {"dry_run": "true"}],
    "list_webhook_deliveries": [{}, {"after": "0"}],
}
EMAIL = "stored.canary@example.com"
PRODUCT: dict[str, Any] = {
    "name": "Canary mug",
    "price": "9.00",
    "sku": "CANARY",
    "options": [{"name": "Size", "values": ["S"]}],
    "description": "A canary description.",
    "metadata": {"material": "canary material"},
}


async def fill(shop: Shop) -> dict[str, Any]:
    """One of every resource with values to find again, and a delivery of each event that they cause."""
    ids = dict(await shop.fill())
    hook = {"url": "https://canary.hooks.example.com/", "events": ["*"]}
    ids["webhook_id"] = (await shop.client.post("/webhooks", json=hook)).json()["data"]["id"]
    product = (await shop.client.post("/products", json=PRODUCT)).json()["data"]
    count = {
        "reason": "stocktake",
        "reference": "canary count",
        "items": [{"sku": "CANARY", "op": "set", "quantity": 9}],
    }
    assert (await shop.client.post("/products/inventory/adjustments", json=count)).status_code == 200
    person = {
        "email": EMAIL,
        "phone": "+15550100987",
        "first_name": "Canaryfirst",
        "last_name": "Canarylast",
        "note": "canary person note",
        "addresses": [PERSON["addresses"][0] | {"address1": "7 Canary Street"}],
    }
    customer = (await shop.client.post("/customers", json=person)).json()["data"]
    guest = {
        "line_items": [{"sku": "CANARY", "quantity": 1}],
        "contact": {"email": "guest.canary@example.com"},
        "note": "canary order note",
    }
    order = (await shop.client.post("/orders", json=guest)).json()["data"]
    comment = await shop.client.post(f"/orders/{order['id']}/comments", json={"body": "canary comment"})
    assert comment.status_code == 201
    await route(shop)
    found = (await shop.client.get("/products", params={"sku": "CANARY", "include": "variants"})).json()["data"]
    return {
        **ids,
        "product_id": product["id"],
        "variant_id": found[0]["variants"][0]["id"],
        "customer_id": customer["id"],
        "address_id": customer["addresses"][0]["id"],
        "order_id": order["id"],
        "line_item_id": order["line_items"][0]["id"],
    }


def request_of(endpoint: Endpoint) -> dict[str, Any]:
    """A body without fields that need a further scope, and parameters that show as much as possible."""
    lines = {"line_items": [{"sku": "CANARY", "quantity": 1}]}
    bodies: dict[str, Any] = {
        "create_product": {"name": "Jug", "price": "9.00"},
        "batch_products": {"items": [{"op": "update", "sku": "CANARY", "data": {"brand": "Hearth"}}]},
        "update_variants": {"items": [{"sku": "CANARY", "data": {"barcode": "1"}}]},
        "create_variant": {"option_values": {"Size": "M"}},
        "update_variant": {"barcode": "2"},
        "create_order": {**lines, "customer": {"email": EMAIL}},
        "add_order_products": lines,
        "update_order_product": {"quantity": 2},
        "update_order_status": {"status": "processing"},
        "adjust_inventory": {"reason": "correction", "items": [{"sku": "CANARY", "op": "adjust", "quantity": 1}]},
        "create_webhook": {"url": "https://other.hooks.example.com/", "events": ["*"]},
        "update_webhook": {"name": "Renamed"},
        "redeliver_webhook": {"since": "2026-01-01T00:00:00Z", "dry_run": True},
        "send_webhook_test": {"event": "customer.created"},
    }
    request: dict[str, Any] = {}
    if endpoint.uploads:
        rows = {"/products/imports": '{"sku":"CANARY"}\n', "/customers/imports": f'{{"email":"{EMAIL}"}}\n'}
        request = {"content": rows[endpoint.path], "headers": {"content-type": "application/x-ndjson"}}
    elif endpoint.body is not None:
        request = {"json": bodies.get(endpoint.name, endpoint.example or {})}
    if endpoint.includes:
        request["params"] = {"include": ",".join(endpoint.includes)}
    return request


async def call(client: httpx.AsyncClient, endpoint: Endpoint, ids: dict[str, Any], **more: Any) -> httpx.Response:
    names = {name: ids[name] for name in endpoint.path_parameters}
    if endpoint.path.startswith("/customers/imports"):
        names = dict.fromkeys(names, ids["customer_import_id"])
    request = request_of(endpoint)
    request["params"] = {**request.get("params", {}), **more}
    return await client.request(endpoint.method, endpoint.path.format(**names), **request)


@pytest.mark.parametrize("scope", SCOPES)
async def test_a_single_scope_shows_nothing_of_the_others(shop: Shop, scope: str) -> None:
    ids = await fill(shop)
    token = await token_for(shop.service, shop.client_id, shop.client_secret, scope=scope)
    client = api_client(shop.application, shop.store.handle, token)
    granted = expanded([scope])
    hidden = [word for noun, words in CANARIES.items() if f"{noun}:read" not in granted for word in words]
    shown: set[str] = set()
    for endpoint in sorted(ENDPOINTS, key=lambda endpoint: endpoint.method == "DELETE"):
        for each in PARAMETERS.get(endpoint.name, [{}]):
            answer = await call(client, endpoint, ids, **each)
            if endpoint.scope not in granted:
                assert (answer.status_code, answer.json()["required_scope"]) == (403, endpoint.scope)
            else:
                done = (200, 204, 404) if endpoint.method == "DELETE" else (200, 201, 202, 207)
                # A subscription, a test and a redelivery also need the scopes of their events.
                of_event = endpoint.path.startswith("/webhooks") and answer.status_code == 403
                assert answer.status_code in done or of_event, f"{endpoint.name}: {answer.text}"
                assert not of_event or answer.json()["required_scope"] not in granted
            assert [word for word in hidden if word in answer.text] == [], endpoint.name
            shown |= {word for words in CANARIES.values() for word in words if word in answer.text}
    # The values are really there to be shown: every reader sees those of its noun.
    expected = {word for noun, words in CANARIES.items() if f"{noun}:read" in granted for word in words}
    assert shown == expected


def sample(path: Path, scope: str) -> Any:
    """The smallest body that sends the field."""
    if not path:
        return 1 if scope == "customers:read" else {"on_hand": 1}
    inner = sample(path[1:], scope)
    return [inner] if path[0] == EACH else {path[0]: inner}


@pytest.mark.parametrize(("endpoint", "path", "scope"), GUARDED)
async def test_a_guarded_field_needs_its_scope_beside_that_of_the_endpoint(
    shop: Shop, endpoint: Endpoint, path: Path, scope: str
) -> None:
    url = endpoint.path.format(**dict.fromkeys(endpoint.path_parameters, 1))
    narrow, wide = await shop.client_with([endpoint.scope]), await shop.client_with([endpoint.scope, scope])
    answer = await narrow.request(endpoint.method, url, json=sample(path, scope))
    assert (answer.status_code, answer.json()["required_scope"]) == (403, scope)
    pointer = "/" + "/".join("0" if name == EACH else name for name in path)
    assert [fault["pointer"] for fault in answer.json()["errors"]] == [pointer]
    assert (await wide.request(endpoint.method, url, json=sample(path, scope))).status_code != 403


def test_the_guarded_fields_are_those_of_the_contract() -> None:
    guarded = {
        endpoint.name: {"/".join(path): scope for path, scope in endpoint.field_scopes}
        for endpoint in ENDPOINTS
        if endpoint.field_scopes
    }
    stock = dict.fromkeys(("variants/*/stock", "stock"), "inventory:write")
    assert guarded == {
        "create_product": stock,
        "batch_products": {f"items/*/data/{path}": scope for path, scope in stock.items()},
        "create_product_import": stock,
        "create_variant": {"stock": "inventory:write"},
        "create_order": {
            f"{prefix}{name}": scope
            for prefix in ("", "items/*/")
            for name, scope in (("customer_id", "customers:read"), ("historical", "orders:import"))
        },
    }


def test_the_openapi_document_names_the_scope_of_each_guarded_field() -> None:
    document = openapi()
    for endpoint in ENDPOINTS:
        operation = document["paths"][PREFIX + endpoint.path][endpoint.method.lower()]
        declared = {f"/{'/'.join(path)}": scope for path, scope in endpoint.field_scopes}
        assert operation.get("x-field-scopes", {}) == declared
    schemas = document["components"]["schemas"]
    for name, field, scope in (
        ("NewProduct", "stock", "inventory:write"),
        ("NewVariant", "stock", "inventory:write"),
        ("NewOrder", "customer_id", "customers:read"),
    ):
        schema = schemas[name]["properties"][field]
        schema = schema.get("anyOf", [schema])[0]
        assert schema["x-required-scope"] == scope
        assert f"`{scope}`" in schema["description"]
