"""The events of the catalog: one event for each kind of change of a resource, none if nothing changed."""

from collections.abc import Mapping
from typing import Any, ClassVar

from stoa.events.outbox import Event
from stoa.products.bodies import ProductFields, VariantFields
from stoa.products.contract import Product, Variant
from stoa.products.documents import changes_between
from stoa.products.working_copy import ProductCopy, VariantCopy
from stoa.rest.lists import Tombstone

# Derived fields: a change of these alone causes no event.
_DERIVED = frozenset({"sku", "barcode", "variants_count"})
_DERIVED_OF_VARIANT = frozenset({"title", "effective_price", "position"})


class ProductCreated(Event):
    """A product was created with its variants."""

    name, scope, resource_type = "product.created", "products:read", "product"
    resource = Product


class ProductUpdated(Event):
    """Fields of a product changed."""

    name, scope, resource_type = "product.updated", "products:read", "product"
    resource = Product
    recorded = frozenset(ProductFields.__struct_fields__) - _DERIVED - {"currency"}


class ProductDeleted(Event):
    """A product was deleted with its variants."""

    name, scope, resource_type = "product.deleted", "products:read", "product"
    resource = Tombstone


class VariantCreated(Event):
    """A variant was added to a product."""

    name, scope, resource_type = "product.variant_created", "products:read", "variant"
    resource = Variant


class VariantUpdated(Event):
    """Fields of a variant changed."""

    name, scope, resource_type = "product.variant_updated", "products:read", "variant"
    resource = Variant
    recorded = frozenset(VariantFields.__struct_fields__) - _DERIVED_OF_VARIANT | {"position"}


class VariantDeleted(Event):
    """A variant was deleted; its product remains."""

    name, scope, resource_type = "product.variant_deleted", "products:read", "variant"
    resource = Variant


class StockEvent(Event):
    """An event of a variant's stock. `inventory:read` alone shows what it shows in a stock level: no prices, no metadata."""

    scope, resource_type, resource = "inventory:read", "variant", Variant
    full_scope = "products:read"
    changed_paths: ClassVar[Mapping[str, str]] = {
        name: f"stock.{name}" for name in ("on_hand", "reserved", "available", "locations")
    }
    recorded = frozenset({"stock"})
    basic_fields = frozenset(
        {"id", "product_id", "sku", "track_inventory", "allow_backorder", "low_stock_threshold", "stock", "updated_at",
         "version"}
    )  # fmt: skip


class ProductInventoryChanged(StockEvent):
    """The on-hand or available stock of a variant changed."""

    name = "product.inventory_changed"


class ProductLowStock(StockEvent):
    """The available stock of a tracked variant fell to its low-stock threshold or below."""

    name = "product.low_stock"


class ProductOutOfStock(StockEvent):
    """The available stock of a tracked variant fell to zero or below."""

    name = "product.out_of_stock"


class ProductBackInStock(StockEvent):
    """The available stock of a tracked variant rose above zero."""

    name = "product.back_in_stock"


Caused = tuple[type[Event], VariantCopy | None, dict[str, tuple[Any, Any]]]


def events_of(product: ProductCopy) -> list[Caused]:
    """The events of a changed product and its variants. `save_products` adds the events of stock."""
    if product.before is None:
        return [(ProductCreated, None, {})]
    if product.deleted:
        return [(ProductDeleted, None, {})]
    caused: list[Caused] = []
    changes = changes_between(product.before, product.fields)
    if changes.keys() - _DERIVED:
        caused.append((ProductUpdated, None, changes))
    for variant in product.variants:
        if variant.before is None:
            if not variant.deleted:
                caused.append((VariantCreated, variant, {}))
        elif variant.deleted:
            caused.append((VariantDeleted, variant, {}))
        else:
            changes = changes_between(variant.before, variant.fields)
            if changes.keys() - _DERIVED_OF_VARIANT or (variant.moved and "position" in changes):
                caused.append((VariantUpdated, variant, changes))
    return caused
