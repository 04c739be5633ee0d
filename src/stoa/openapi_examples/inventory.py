"""Example responses about stock: the levels and ledger entries that the example adjustments leave."""

from stoa.inventory import examples
from stoa.inventory.contract import StockLevel
from stoa.openapi_examples.fixtures import APP_ID, CREATED_AT, REQUEST_ID, Resource, Responses, batch
from stoa.openapi_examples.products import shirt, variant_resource
from stoa.products.stock_locations import DEFAULT_LOCATION

_ENTRY_ID = 48_210


def resources() -> dict[str, Resource]:
    product = shirt()
    known = variant_resource(product, product.variants[1])
    level = {**known, "variant_id": known["id"]}
    return {
        "StockLevel": {name: level[name] for name in StockLevel.__struct_fields__ if name in level},
        "LedgerEntry": _entries()[0],
    }


def responses() -> Responses:
    return {"adjust_inventory": batch("updated", *_entries())}


def _entries() -> list[Resource]:
    sent, product = examples.ADJUSTMENTS, shirt()
    entries: list[Resource] = []
    for index, item in enumerate(sent["items"]):
        variant = next(each for each in product.variants if each.fields.sku == item["sku"])
        delta = item["quantity"] - variant.on_hand if item["op"] == "set" else item["quantity"]
        entries.append(
            {
                "id": _ENTRY_ID + index,
                "variant_id": variant.id,
                "sku": item["sku"],
                "kind": item["op"],
                "location": item.get("location", DEFAULT_LOCATION),
                "delta_on_hand": delta,
                "delta_reserved": 0,
                "on_hand_after": variant.on_hand + delta,
                "reserved_after": 0,
                "reason": sent["reason"],
                "reference": sent["reference"],
                "order_id": None,
                "actor": {"type": "app", "app_id": APP_ID},
                "request_id": REQUEST_ID,
                "created_at": CREATED_AT,
            }
        )
    return entries
