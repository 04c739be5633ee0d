"""The stored form of products and variants: defaults, keys and search terms, built without a database."""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import msgspec

from stoa import money, terms
from stoa.db.editions import Part, added_members, edition_of
from stoa.products.contract import Product, Variant

# Variants and their stock are rows of their own.
PARTS = (
    Part("product_head", "head", Product, frozenset(Product.__struct_fields__) - {"variants", "inventory"}),
    Part("variant_head", "head", Variant),
)
PRODUCT_EDITION, VARIANT_EDITION = (edition_of([part]) for part in PARTS)

# The members of a document's head with their defaults, in the order that callers see.
PRODUCT_DEFAULTS: dict[str, Any] = {
    "name": "",
    "price": "0",
    "external_id": None,
    "slug": "",
    "description": None,
    "status": "active",
    "compare_at_price": None,
    "cost_price": None,
    "currency": "",
    "sku": None,
    "barcode": None,
    "brand": None,
    "category": None,
    "tags": [],
    "images": [],
    "options": [],
    "variants_count": 0,
    "weight": None,
    "weight_unit": "kg",
    "requires_shipping": True,
    "taxable": True,
    "track_inventory": True,
    "seo": {"title": None, "description": None},
    "metadata": {},
    **added_members(Product),
}
VARIANT_DEFAULTS: dict[str, Any] = {
    "title": "Default",
    "option_values": {},
    "sku": None,
    "barcode": None,
    "price": None,
    "effective_price": "0",
    "compare_at_price": None,
    "cost_price": None,
    "weight": None,
    "image_id": None,
    "position": 1,
    "is_default": False,
    "track_inventory": True,
    "allow_backorder": False,
    "low_stock_threshold": None,
    "external_id": None,
    "metadata": {},
    **added_members(Variant),
}


def minor(amount: str | None) -> int | None:
    """The minor units of an amount in a document; the amount has all fraction digits of its currency."""
    if amount is None:
        return None
    return money.to_minor(Decimal(amount), len(amount.partition(".")[2]))


def options_key(values: Mapping[str, str]) -> str:
    """A key for a combination of option values, independent of their order."""
    return msgspec.json.encode(sorted(values.items())).decode()


def slug_of(name: str) -> str:
    """A URL slug for a name."""
    return re.sub(r"[^a-z0-9]+", "-", "-".join(terms.words(name))).strip("-")[:255].strip("-") or "product"


def terms_of(product: Mapping[str, Any], variants: Iterable[Mapping[str, Any]], store_id: int) -> str:
    """The search terms of a product, as a tsvector; a category is also found by each of its parents."""
    text = [product["name"], product["brand"] or "", product["category"] or "", *product["tags"]]
    for variant in variants:
        text += [variant["sku"] or "", variant["barcode"] or ""]
    found = {terms.lexeme(store_id, "word", word) for word in terms.words(" ".join(text))}
    found |= {terms.lexeme(store_id, "tag", tag) for tag in product["tags"]}
    found |= {terms.lexeme(store_id, "meta", terms.entry(k, v)) for k, v in product["metadata"].items()}
    if product["brand"]:
        found.add(terms.lexeme(store_id, "brand", product["brand"]))
    if product["category"]:
        parts = product["category"].split("/")
        found |= {terms.lexeme(store_id, "category", "/".join(parts[: n + 1])) for n in range(len(parts))}
    return terms.vector(found)
