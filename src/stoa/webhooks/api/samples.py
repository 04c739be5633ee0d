"""A believable sample of every event, made from the type of its document so that the two cannot drift apart."""

from datetime import datetime
from typing import Any

import msgspec
from msgspec import NODEFAULT, inspect

from stoa.events.outbox import Actor, Event
from stoa.rest.patch import merge
from stoa.webhooks.delivery import envelope

_CREATED, _CHANGED = "2026-03-14T09:26:53.589793Z", "2026-03-14T15:09:26.535897Z"
_STOCK = {"on_hand": 40, "reserved": 3, "available": 37}

# What a field holds, by the type it belongs to and its name, or by its name alone.
_WORDS: dict[str, Any] = {
    "id": 812,
    "version": 4,
    "number": 1042,
    "name": "Linen Shirt",
    "title": "Size M",
    "slug": "linen-shirt",
    "description": "Woven in a small mill.",
    "price": "59.00",
    "effective_price": "59.00",
    "unit_price": "59.00",
    "currency": "USD",
    "sku": "LS-M",
    "brand": "Hearth & Loom",
    "category": "Clothing/Shirts",
    "tags": ["linen", "summer"],
    "options": [{"name": "Size", "values": ["S", "M"]}],
    "option_values": {"Size": "M"},
    "variants_count": 2,
    "variant_title": "Size M",
    "weight": 0.25,
    "weight_unit": "kg",
    "Product.sku": None,
    "Seo.title": "Linen Shirt by Hearth & Loom",
    "mode": "upsert",
    "on_error": "continue",
    "missing": "ignore",
    "stock": _STOCK,
    "in_stock": True,
    "taxable": True,
    "requires_shipping": True,
    "track_inventory": True,
    "low_stock_threshold": 5,
    "product_id": 812,
    "variant_id": 2041,
    "Variant.id": 2041,
    "Variant.position": 2,
    "Image.id": 31,
    "Image.position": 1,
    "url": "https://shop.example.com/hooks/stoa",
    "Image.url": "https://images.example.com/linen-shirt.jpg",
    "alt": "A linen shirt",
    "created_at": _CREATED,
    "updated_at": _CHANGED,
    "placed_at": _CREATED,
    "Tombstone.deleted_at": _CHANGED,
    "started_at": _CREATED,
    "finished_at": _CHANGED,
    "report_expires_at": "2026-04-13T09:26:53.589793Z",
    "request_id": "req_7v3k9m2q5x8c1b4n6p0t",
    "InstalledApp.id": 3,
    "InstalledApp.name": "Stock sync",
    "InstalledApp.scopes": ["products:read", "webhooks:write"],
    "app_id": 3,
    "Import.id": "imp_2c7w4m9k1v6x3q8t5n0b",
    "Import.resource": "products",
    "Import.status": "succeeded",
    "Import.progress": 1.0,
    "Import.errors": [],
    "match_by": "sku",
    "total": "121.50",
    "Counts.total": 250,
    "Counts.processed": 250,
    "Counts.created": 12,
    "Counts.updated": 238,
    "subtotal": "118.00",
    "shipping_total": "3.50",
    "amount_paid": "121.50",
    "fulfillment_status": "unfulfilled",
    "tracking": [],
    "Order.tags": ["gift"],
    "LineItem.total": "118.00",
    "Line.total": "118.00",
    "Author.type": "app",
    "Author.id": 3,
    "Author.name": "Till",
    "quantity": 2,
    "email": "ada@example.com",
    "phone": "+14155550123",
    "first_name": "Ada",
    "last_name": "Marsh",
    "Order.id": 512,
    "order_id": 512,
    "Order.status": "processing",
    "Order.payment_status": "paid",
    "allowed_transitions": ["on_hold", "shipped", "completed", "cancelled"],
    "customer_id": 77,
    "Customer.id": 77,
    "Line.id": 1801,
    "LineItem.id": 1801,
    "Comment.id": 9120,
    "body": "Please leave it with the neighbour.",
    "Address.id": 301,
    "address1": "12 Harbour Street",
    "city": "Portland",
    "province": "Oregon",
    "province_code": "OR",
    "postal_code": "97201",
    "country_code": "US",
    "locale": "en-US",
    "Customer.tags": ["regular"],
    "default_shipping_address_id": 301,
    "is_default_shipping": True,
    "last_order_at": _CREATED,
    "orders_count": 3,
    "total_spent": "312.40",
    "source": {"app_id": 3, "name": "Till"},
    "WebhookStanding.id": 9,
    "WebhookStanding.name": "Orders to the warehouse",
    "WebhookStanding.status": "active",
    "failing_since": _CREATED,
}
# What a resource shows only when asked for, but always carries when an event tells of it.
_CARRIED = {"Product.variants"}
_IDS = {
    "product": 812,
    "comment": 9120,
    "variant": 2041,
    "order": 512,
    "customer": 77,
    "app": 3,
    "webhook": 9,
    "import": 64,
}
# Where two events tell of the same type, what the second one's document holds instead.
_OF_ITS_OWN: dict[str, dict[str, Any]] = {
    "customer.import_finished": {"resource": "customers", "options": {"match_by": "email"}},
}
_CHANGES: dict[str, dict[str, Any]] = {
    "product.updated": {"price": ["64.00", "59.00"]},
    "product.variant_updated": {"barcode": [None, "2000000000015"]},
    "product.inventory_changed": {"on_hand": [42, 40], "available": [39, 37]},
    "product.low_stock": {"available": [6, 5]},
    "product.out_of_stock": {"available": [1, 0]},
    "product.back_in_stock": {"available": [0, 37]},
    "order.updated": {"note": [None, "Ring twice"]},
    "order.status_changed": {"status": ["pending", "processing"]},
    "order.payment_status_changed": {"payment_status": ["unpaid", "paid"]},
    "customer.updated": {"phone": [None, "+14155550123"]},
    "app.scopes_changed": {"scopes": [["products:read"], ["products:read", "webhooks:write"]]},
    "webhook.failing": {"health": ["healthy", "failing"]},
    "webhook.disabled": {"status": ["active", "disabled"]},
}


def sample(event: type[Event]) -> dict[str, Any]:
    """An event as a subscriber receives it."""
    stored = envelope.Event(
        store_id=7,
        id="evt_5t0b2c7w4m9k1v6x3q8n",
        type=event.name,
        resource_type=event.resource_type,
        resource_id=resource_id(event),
        resource_version=4,
        actor=_json(Actor("app", 3)),
        changes=_json(changes(event)),
        data=_json(document(event)),
        created_at=datetime.fromisoformat(_CHANGED),
    )
    return msgspec.json.decode(envelope.body(stored, 88123))


def resource_id(event: type[Event]) -> int:
    return _IDS.get(event.resource_type, 812)


def changes(event: type[Event]) -> dict[str, Any]:
    return _CHANGES.get(event.name, {})


def document(event: type[Event]) -> dict[str, Any]:
    """The `data` of a sample: the resource that the event tells of."""
    if event.resource is None:
        return {}
    return merge(_value(inspect.type_info(event.resource), "", ""), _OF_ITS_OWN.get(event.name, {}))


def _json(value: Any) -> str:
    return msgspec.json.encode(value).decode()


def _value(info: inspect.Type, owner: str, name: str) -> Any:
    if isinstance(info, inspect.Metadata):
        return _value(info.type, owner, name)
    if isinstance(info, inspect.UnionType):
        return _of_several(info, owner, name)
    if isinstance(info, inspect.LiteralType):
        known = _known(owner, name)
        return known if known in info.values else info.values[0]
    if (known := _known(owner, name)) is not None and _fits(known, info):
        return known
    if isinstance(info, inspect.StructType):
        return _struct(info)
    if isinstance(info, inspect.ListType):
        return [_value(info.item_type, owner, "")] if isinstance(info.item_type, inspect.StructType) else []
    if isinstance(info, inspect.DictType | inspect.AnyType):
        return {}
    if isinstance(info, inspect.BoolType):
        return False
    if isinstance(info, inspect.IntType):
        return max(0, info.ge or 0)
    if isinstance(info, inspect.FloatType):
        return 0.0
    if isinstance(info, inspect.DecimalType):
        return "0.00"
    return _CREATED if isinstance(info, inspect.DateTimeType) else ""


def _known(owner: str, name: str) -> Any:
    return _WORDS.get(f"{owner}.{name}", _WORDS.get(name))


def _fits(known: Any, info: inspect.Type) -> bool:
    """Whether a word that is known for a name is of the kind that this field takes."""
    kinds: tuple[tuple[Any, tuple[type, ...]], ...] = (
        (inspect.BoolType, (bool,)),
        (inspect.IntType, (int,)),
        (inspect.FloatType, (int, float)),
        (inspect.StrType | inspect.DecimalType | inspect.DateTimeType, (str,)),
        (inspect.ListType, (list,)),
        (inspect.StructType | inspect.DictType, (dict,)),
    )
    return any(isinstance(info, kind) and isinstance(known, types) for kind, types in kinds)


def _of_several(info: inspect.UnionType, owner: str, name: str) -> Any:
    """The first kind for which a word is known; else null where that is allowed."""
    others = [each for each in info.types if not isinstance(each, inspect.NoneType)]
    known = _known(owner, name)
    for each in others:
        plain = each.type if isinstance(each, inspect.Metadata) else each
        if known is not None and (_fits(known, plain) or isinstance(plain, inspect.LiteralType)):
            return _value(each, owner, name)
    return None if len(others) < len(info.types) else _value(others[0], owner, name)


def _struct(info: inspect.StructType) -> dict[str, Any]:
    # A field that may be left out is left out: it stands in an answer only when asked for.
    return {
        field.encode_name: _value(field.type, info.cls.__name__, field.encode_name)
        for field in info.fields
        if field.required
        or field.default is not NODEFAULT
        or field.default_factory is not NODEFAULT
        or f"{info.cls.__name__}.{field.encode_name}" in _CARRIED
    }
