"""From a product as it is sent to the rows that hold it: documents, sort keys and search terms, without a database."""

import re
from collections.abc import Iterable, Mapping
from decimal import Decimal
from typing import Any

import msgspec

from stoa import money, terms
from stoa.products.contract import Image, NewProduct, NewVariant, Option, Seo
from stoa.rest.endpoint import Store


class ProductHead(msgspec.Struct):
    """The part of a product's document that rarely moves; the order of fields is the order callers see."""

    name: str
    price: str
    external_id: str | None
    slug: str
    description: str | None
    status: str
    compare_at_price: str | None
    cost_price: str | None
    currency: str
    sku: str | None
    barcode: str | None
    brand: str | None
    category: str | None
    tags: list[str]
    images: list[Image]
    options: list[Option]
    variants_count: int
    weight: Any
    weight_unit: str
    requires_shipping: bool
    taxable: bool
    track_inventory: bool
    seo: Seo
    metadata: Mapping[str, Any]


class VariantHead(msgspec.Struct):
    title: str
    option_values: Mapping[str, str]
    sku: str | None
    barcode: str | None
    price: str | None
    effective_price: str
    compare_at_price: str | None
    cost_price: str | None
    weight: Any
    image_id: int | None
    position: int
    is_default: bool
    track_inventory: bool
    allow_backorder: bool
    low_stock_threshold: int | None
    external_id: str | None
    metadata: Mapping[str, Any]


class VariantRow(msgspec.Struct):
    """A variant's columns, in the order in which the statement takes them."""

    position: int
    sku: str | None
    barcode: str | None
    external_id: str | None
    options_key: str
    price: int | None
    on_hand: int
    track_inventory: bool
    allow_backorder: bool
    low_stock_threshold: int | None
    head: str


class ProductRow(msgspec.Struct):
    """A product's columns, in the order in which the statement takes them."""

    external_id: str | None
    slug: str
    name: str
    status: str
    price: int
    on_hand: int
    in_stock: bool
    head: str
    terms: list[str]


_encoder = msgspec.json.Encoder(decimal_format="number")


def rows_for(new: NewProduct, store: Store) -> tuple[ProductRow, list[VariantRow]]:
    """The product's row and those of its variants; one default variant where none was sent."""
    sent = new.variants or [NewVariant(sku=new.sku, barcode=new.barcode, stock=new.stock)]
    variants = [_variant_row(new, each, place, store) for place, each in enumerate(sent, 1)]
    only = variants[0] if len(variants) == 1 else None
    head = ProductHead(
        name=new.name,
        price=_amount(new.price, store),
        external_id=new.external_id,
        slug=new.slug or slug_of(new.name),
        description=new.description,
        status=new.status,
        compare_at_price=_maybe_amount(new.compare_at_price, store),
        cost_price=_maybe_amount(new.cost_price, store),
        currency=store.currency,
        sku=only.sku if only else None,
        barcode=only.barcode if only else None,
        brand=new.brand,
        category=new.category,
        tags=new.tags,
        images=[Image(place, image.url, image.alt, place) for place, image in enumerate(new.images, 1)],
        options=new.options,
        variants_count=len(variants),
        weight=new.weight,
        weight_unit=new.weight_unit,
        requires_shipping=new.requires_shipping,
        taxable=new.taxable,
        track_inventory=new.track_inventory,
        seo=new.seo,
        metadata=new.metadata,
    )
    row = ProductRow(
        external_id=new.external_id,
        slug=head.slug,
        name=new.name,
        status=new.status,
        price=money.to_minor(new.price, store.digits),
        on_hand=sum(variant.on_hand for variant in variants),
        in_stock=any(sellable(v.on_hand, v.track_inventory, v.allow_backorder) for v in variants),
        head=_members(head),
        terms=terms_of(head, variants, store.id),
    )
    return row, variants


def _variant_row(product: NewProduct, new: NewVariant, place: int, store: Store) -> VariantRow:
    values = new.option_values
    tracked = product.track_inventory if new.track_inventory is None else new.track_inventory
    head = VariantHead(
        title=" / ".join(values.values()) or "Default",
        option_values=values,
        sku=new.sku,
        barcode=new.barcode,
        price=_maybe_amount(new.price, store),
        effective_price=_amount(product.price if new.price is None else new.price, store),
        compare_at_price=_maybe_amount(new.compare_at_price, store),
        cost_price=_maybe_amount(new.cost_price, store),
        weight=new.weight,
        image_id=None,
        position=place,
        is_default=place == 1,
        track_inventory=tracked,
        allow_backorder=new.allow_backorder,
        low_stock_threshold=new.low_stock_threshold,
        external_id=new.external_id,
        metadata=new.metadata,
    )
    return VariantRow(
        position=place,
        sku=new.sku,
        barcode=new.barcode,
        external_id=new.external_id,
        options_key=options_key(values),
        price=None if new.price is None else money.to_minor(new.price, store.digits),
        on_hand=new.stock.on_hand,
        track_inventory=tracked,
        allow_backorder=new.allow_backorder,
        low_stock_threshold=new.low_stock_threshold,
        head=_members(head),
    )


def sellable(available: int, track_inventory: bool, allow_backorder: bool) -> bool:
    return available > 0 or allow_backorder or not track_inventory


def options_key(values: Mapping[str, str]) -> str:
    """One text for one combination of option values, whatever the order they were sent in."""
    return msgspec.json.encode(sorted(values.items())).decode()


def slug_of(name: str) -> str:
    """A name as it may stand in an address."""
    return re.sub(r"[\W_]+", "-", "-".join(terms.words(name))).strip("-")[:255] or "product"


def terms_of(head: ProductHead, variants: Iterable[VariantRow], store_id: int) -> list[str]:
    """Everything a product can be found by; a category is found by each of its parents too."""
    text = [head.name, head.brand or "", head.category or "", *head.tags]
    for variant in variants:
        text += [variant.sku or "", variant.barcode or ""]
    found = {terms.lexeme(store_id, "word", word) for word in terms.words(" ".join(text))}
    found |= {terms.lexeme(store_id, "tag", tag) for tag in head.tags}
    found |= {terms.lexeme(store_id, "meta", terms.entry(k, v)) for k, v in head.metadata.items()}
    if head.brand:
        found.add(terms.lexeme(store_id, "brand", head.brand))
    if head.category:
        parts = head.category.split("/")
        found |= {terms.lexeme(store_id, "category", "/".join(parts[: n + 1])) for n in range(len(parts))}
    return sorted(found)


def _members(head: msgspec.Struct) -> str:
    """A document's members without its braces, to stand behind its id."""
    return "," + _encoder.encode(head)[1:-1].decode()


def _amount(value: Decimal, store: Store) -> str:
    return money.to_text(money.to_minor(value, store.digits), store.digits)


def _maybe_amount(value: Decimal | None, store: Store) -> str | None:
    return None if value is None else _amount(value, store)
