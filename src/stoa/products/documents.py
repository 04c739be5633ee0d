"""The stored form of products and variants: their members, keys and search terms, built without a database."""

from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any, TypeVar

import msgspec

from stoa import money, terms
from stoa.db.documents import fields_of, head_of
from stoa.db.editions import Part, edition_of
from stoa.products.bodies import ProductFields, VariantFields
from stoa.products.contract import Product, Variant
from stoa.rest.patch import is_same

# Variants and their stock are rows of their own.
PARTS = (
    Part("product_head", "head", Product, frozenset(Product.__struct_fields__) - {"variants", "inventory"}),
    Part("variant_head", "head", Variant),
)
PRODUCT_EDITION, VARIANT_EDITION = (edition_of([part]) for part in PARTS)

Fields = TypeVar("Fields", ProductFields, VariantFields)
_NAMES = {kind: frozenset(kind.__struct_fields__) for kind in (ProductFields, VariantFields)}


def split(kind: type[Fields], head: str) -> tuple[Fields, dict[str, Any]]:
    """The members of a stored head, and those that a later release added, which are kept."""
    members, names = fields_of(head), _NAMES[kind]
    if members.keys() <= names:
        return kind(**members), {}
    unknown = {name: value for name, value in members.items() if name not in names}
    return kind(**{name: value for name, value in members.items() if name in names}), unknown


def join(fields: ProductFields | VariantFields, unknown: Mapping[str, Any]) -> str:
    """The head to store."""
    return head_of({**members_of(fields), **unknown} if unknown else fields)


def members_of(fields: ProductFields | VariantFields) -> dict[str, Any]:
    """The members by name."""
    return msgspec.structs.asdict(fields)


def changes_between(before: Fields, after: Fields) -> dict[str, tuple[Any, Any]]:
    """The old and new values of the members that differ as JSON."""
    changes: dict[str, tuple[Any, Any]] = {}
    for name in before.__struct_fields__ if after is not before else ():
        old, new = getattr(before, name), getattr(after, name)
        if new is not old and not is_same(old, new):
            changes[name] = (old, new)
    return changes


def minor(amount: str | None) -> int | None:
    """The minor units of an amount in a document; the amount has all fraction digits of its currency."""
    if amount is None:
        return None
    return money.to_minor(Decimal(amount), len(amount.partition(".")[2]))


def options_key(values: Mapping[str, str]) -> str:
    """A key for a combination of option values, independent of their order."""
    return msgspec.json.encode(sorted(values.items())).decode()


def terms_of(product: ProductFields, variants: Iterable[VariantFields], store_id: int) -> str:
    """The search terms of a product, as a tsvector; a category is also found by each of its parents."""
    text = [product.name, product.brand or "", product.category or "", *product.tags]
    for variant in variants:
        text += [variant.sku or "", variant.barcode or ""]
    found = {terms.lexeme(store_id, "word", word) for word in terms.words(" ".join(text))}
    found |= {terms.lexeme(store_id, "tag", tag) for tag in product.tags}
    found |= {terms.lexeme(store_id, "meta", terms.entry(k, v)) for k, v in product.metadata.items()}
    if product.brand:
        found.add(terms.lexeme(store_id, "brand", product.brand))
    if product.category:
        parts = product.category.split("/")
        found |= {terms.lexeme(store_id, "category", "/".join(parts[: n + 1])) for n in range(len(parts))}
    return terms.vector(found)
