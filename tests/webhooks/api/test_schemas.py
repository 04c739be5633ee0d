"""Every event has a schema that is served and documented, and a sample that is valid under it."""

from typing import Any

import jsonschema
import msgspec
import pytest

from stoa.api import EVENTS
from stoa.description import openapi
from stoa.events.outbox import Event
from stoa.imports.runner import run_pending
from stoa.reference.document import inlined
from stoa.webhooks.api.samples import sample
from stoa.webhooks.api.schemas import schema
from stoa.webhooks.http.message import Event as StoredEvent
from stoa.webhooks.http.message import EventStore, body
from tests.support.shops import Shop

EVERY = [pytest.param(event, id=name) for name, event in sorted(EVENTS.items())]


def plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


@pytest.mark.parametrize("event", EVERY)
def test_a_sample_is_valid_under_the_schema_of_its_event(event: type[Event]) -> None:
    kind = jsonschema.Draft202012Validator
    jsonschema.validate(plain(sample(event)), schema(event), cls=kind, format_checker=kind.FORMAT_CHECKER)


@pytest.mark.parametrize("event", EVERY)
def test_a_sample_has_data(event: type[Event]) -> None:
    assert event.resource is not None, "an event declares the resource type of its data"
    assert len(sample(event)["data"]) > 1 or event.app_only


@pytest.mark.parametrize("event", EVERY)
async def test_a_schema_is_served(shop: Shop, event: type[Event]) -> None:
    answer = await shop.service.get(f"/schemas/events/{event.name}")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/schema+json")
    assert answer.json() == plain(schema(event))


async def test_the_schema_of_an_unknown_event_is_not_found(shop: Shop) -> None:
    answer = await shop.service.get("/schemas/events/product.exploded")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


@pytest.mark.parametrize("event", EVERY)
def test_openapi_documents_the_event_as_a_webhook(event: type[Event]) -> None:
    document = openapi()
    operation = document["webhooks"][event.name]["post"]
    content = operation["requestBody"]["content"]["application/json"]
    whole = {**content["schema"], "components": document["components"]}
    jsonschema.validate(plain(content["example"]), whole, cls=jsonschema.Draft202012Validator)
    assert {parameter["name"] for parameter in inlined(operation["parameters"], document)} == {
        "webhook-id",
        "webhook-timestamp",
        "webhook-signature",
        "webhook-store",
    }


def test_the_schema_rejects_data_of_another_shape() -> None:
    event = EVENTS["product.created"]
    wrong = plain(sample(event)) | {"data": {"id": "one"}}
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(wrong, schema(event), cls=jsonschema.Draft202012Validator)


async def produce_events(shop: Shop) -> None:
    """Change products, inventory, customers and orders so that nearly every event type is produced."""
    filled = await shop.fill()
    await run_pending(shop.db)
    product, order = f"/products/{filled['product_id']}", f"/orders/{filled['order_id']}"
    customer = f"/customers/{filled['customer_id']}"
    variants = [each["id"] for each in (await shop.client.get(f"{product}/variants")).json()["data"]]
    basket = {"line_items": [{"sku": "LS-S", "quantity": 1}], "contact": {"email": "bo@example.com"}}
    levels = [("MUG-1", 5), *(("LS-S", quantity) for quantity in (9, 2, 0, 40))]
    calls: list[tuple[str, str, Any]] = [
        ("PATCH", product, {"price": "54.00"}),
        ("PATCH", f"{product}/variants/{variants[0]}", {"barcode": "2000000000022", "low_stock_threshold": 2}),
        ("POST", f"{product}/variants", {"sku": "LS-L", "option_values": {"Size": "L"}}),
        *(
            ("POST", "/products/inventory/adjustments", {"items": [{"sku": sku, "op": "set", "quantity": quantity}]})
            for sku, quantity in levels
        ),
        ("PATCH", customer, {"first_name": "Augusta"}),
        ("POST", f"{customer}/addresses", {"address1": "1 Low Road", "city": "Bath", "country_code": "GB"}),
        ("PATCH", f"{customer}/metadata", {"shared.tier": "gold"}),
        ("POST", "/orders", basket),
        ("POST", "/orders", basket),
        ("PATCH", order, {"note": "Ring twice"}),
        ("POST", f"{order}/products", {"line_items": [{"sku": "LS-S", "quantity": 3}]}),
        ("PUT", f"{order}/status", {"status": "processing", "payment_status": "paid"}),
        ("PUT", f"{order}/status", {"status": "shipped"}),
        ("PUT", f"{order}/status", {"fulfillment_id": 1, "tracking": {"number": "P-1"}}),
        ("PUT", f"{order}/status", {"refund": {"amount": "1.00"}}),
        ("POST", f"{order}/comments", {"body": "Packed"}),
        ("POST", f"{order}/duplicates", {}),
        ("DELETE", f"{product}/variants/{variants[1]}", None),
        ("DELETE", customer, None),
        ("DELETE", product, None),
    ]
    for method, path, sent in calls:
        answer = await shop.client.request(method, path, **({"json": sent} if sent is not None else {}))
        assert answer.status_code < 300, f"{method} {path}: {answer.text}"


# A failing receiver, a changed installation or the end of a hold produces these, in other tests; `webhook.test` is never stored.
STORE = EventStore(7, "demo", "https://api.example.com/stores/demo")
TESTED_ELSEWHERE = {
    "webhook.test",
    "webhook.failing",
    "webhook.disabled",
    "app.uninstalled",
    "app.scopes_changed",
    "order.expired",
}


async def test_every_stored_event_is_valid_under_its_schema(shop: Shop) -> None:
    await produce_events(shop)
    columns = ", ".join(field.name for field in msgspec.structs.fields(StoredEvent))
    rows = await shop.db.fetch(f"SELECT {columns} FROM events WHERE store_id = $1 ORDER BY position", shop.store_id)
    stored = [StoredEvent(*row) for row in rows]
    for event in stored:
        envelope = msgspec.json.decode(body(event, 1, STORE))
        # `jsonschema.validate` would check the schema again for each event.
        checker: Any = jsonschema.Draft202012Validator(schema(EVENTS[event.type]))
        checker.validate(envelope)
    assert {event.type for event in stored} >= set(EVENTS) - TESTED_ELSEWHERE
