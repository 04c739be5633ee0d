"""What is told of the catalogue: one event for each kind of change of a resource, none when nothing changed."""

from typing import Any

from stoa.events.outbox import Event
from stoa.products.contract import Product, Variant
from stoa.products.working_copy import ProductCopy, VariantCopy
from stoa.rest.lists import Tombstone
from stoa.rest.patch import changes_between


class ProductCreated(Event):
    """A product was created, its variants with it."""

    name, scope, resource_type = "product.created", "products:read", "product"
    resource = Product


class ProductUpdated(Event):
    """A product's own fields changed."""

    name, scope, resource_type = "product.updated", "products:read", "product"
    resource = Product


class ProductDeleted(Event):
    """A product was deleted, its variants with it."""

    name, scope, resource_type = "product.deleted", "products:read", "product"
    resource = Tombstone


class VariantCreated(Event):
    """A variant was added to a product."""

    name, scope, resource_type = "product.variant_created", "products:read", "variant"
    resource = Variant


class VariantUpdated(Event):
    """A variant's own fields changed."""

    name, scope, resource_type = "product.variant_updated", "products:read", "variant"
    resource = Variant


class VariantDeleted(Event):
    """A variant was removed from a product that stays."""

    name, scope, resource_type = "product.variant_deleted", "products:read", "variant"
    resource = Variant


class ProductInventoryChanged(Event):
    """A variant's stock moved: what is on hand, what is available, or both."""

    name, scope, resource_type = "product.inventory_changed", "inventory:read", "variant"
    resource = Variant


class ProductLowStock(Event):
    """What is available of a tracked variant fell to its low-stock threshold or below."""

    name, scope, resource_type = "product.low_stock", "inventory:read", "variant"
    resource = Variant


class ProductOutOfStock(Event):
    """Nothing is available of a tracked variant any more."""

    name, scope, resource_type = "product.out_of_stock", "inventory:read", "variant"
    resource = Variant


class ProductBackInStock(Event):
    """A tracked variant of which nothing was available is available again."""

    name, scope, resource_type = "product.back_in_stock", "inventory:read", "variant"
    resource = Variant


# What follows from other fields tells nothing by itself.
_DERIVED = frozenset({"sku", "barcode", "variants_count"})
_DERIVED_OF_VARIANT = frozenset({"title", "effective_price", "position", "is_default"})

Told = tuple[type[Event], VariantCopy | None, dict[str, tuple[Any, Any]]]


def events_of(product: ProductCopy) -> list[Told]:
    """The events of one product's change, its variants' among them."""
    if product.before is None:
        return [(ProductCreated, None, {})]
    if product.deleted:
        return [(ProductDeleted, None, {})]
    told: list[Told] = []
    changes = changes_between(product.before, product.fields)
    if changes.keys() - _DERIVED:
        told.append((ProductUpdated, None, changes))
    for variant in product.variants:
        if variant.before is None:
            if not variant.deleted:
                told.append((VariantCreated, variant, {}))
        elif variant.deleted:
            told.append((VariantDeleted, variant, {}))
        else:
            changes = changes_between(variant.before, variant.fields)
            if changes.keys() - _DERIVED_OF_VARIANT:
                told.append((VariantUpdated, variant, changes))
    return told
