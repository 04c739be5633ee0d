"""The stored form of products and variants: documents, sort keys and search terms, made without a database."""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import msgspec

from stoa import money, terms

# The members of a document's head with their values when nothing is said; this order is the order callers see.
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
}


def minor(amount: str | None) -> int | None:
    """Minor units of an amount in a document; its own digits say how many there are."""
    if amount is None:
        return None
    return money.to_minor(Decimal(amount), len(amount.partition(".")[2]))


def options_key(values: Mapping[str, str]) -> str:
    """One text for one combination of option values, whatever the order they were sent in."""
    return msgspec.json.encode(sorted(values.items())).decode()


def slug_of(name: str) -> str:
    """A name as it may stand in an address."""
    return re.sub(r"[^a-z0-9]+", "-", "-".join(terms.words(name))).strip("-")[:255].strip("-") or "product"


def terms_of(product: Mapping[str, Any], variants: Iterable[Mapping[str, Any]], store_id: int) -> str:
    """Everything a product can be found by, as a tsvector; a category is found by each of its parents too."""
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
