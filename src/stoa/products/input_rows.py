"""The rows that `save_products` stores, built from working copies: products, variants, movements of stock and events."""

from collections.abc import Sequence
from datetime import datetime
from operator import attrgetter

import msgspec

from stoa.db.query import InputRow, json_of, json_rows
from stoa.products.bodies import VariantFields
from stoa.products.documents import PRODUCT_EDITION, VARIANT_EDITION, join, minor, options_key, terms_of
from stoa.products.events import events_of
from stoa.products.working_copy import ProductCopy, VariantCopy

_unique = attrgetter("sku", "external_id", "option_values")


class ProductRow(InputRow):
    """A product to store. `index` is its position in the list, from 1."""

    arguments = ("save_products.in_products",)

    index: int
    id: int | None
    external_id: str | None
    slug: str
    name: str
    status: str
    price: int
    on_hand: int
    reserved: int
    in_stock: bool
    deleted: bool
    head: str
    edition: int
    terms: str
    created_at: datetime | None  # of a new product; None: now
    actor: str | None  # None: that of the whole call
    request_id: str | None  # None: that of the whole call
    unruled: bool  # whether no rules were read, because the store probably has none


class VariantRow(InputRow):
    """A variant to store. `product_index` refers to a product of the same call."""

    arguments = ("save_products.in_variants",)

    index: int
    product_index: int
    id: int | None
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
    deleted: bool
    head: str
    edition: int
    created_at: datetime | None  # of a new variant; None: now
    hands_over: bool = False  # whether another variant of the call takes over a key of this one


class MovementRow(InputRow):
    """A change of on_hand for the ledger. `initial` marks one that causes no stock event, such as the first of a new variant."""

    arguments = ("save_products.in_movements",)

    product_index: int
    variant_index: int
    initial: bool
    kind: str
    delta: int
    reason: str
    reference: str | None


class EventRow(InputRow):
    """An event of a product, or of one of its variants."""

    arguments = ("save_products.in_events",)

    product_index: int
    variant_index: int | None
    type: str
    changes: str


class Booking(msgspec.Struct, frozen=True):
    """How the ledger records stock that changes with a product."""

    kind: str = "set"
    reason: str = "other"
    reference: str | None = None


class Rows(msgspec.Struct, frozen=True):
    """The arguments of `save_products`, and the variants in them."""

    changed: list[VariantCopy]
    products: str
    variants: str
    movements: str
    events: str


class Prepared(msgspec.Struct):
    """Touched copies that will be saved. Their rows are built in advance unless the rules of collections have to be read."""

    products: list[ProductCopy]
    booking: Booking
    events: bool
    rows: Rows | None = None


def rows_of(prepared: Prepared, store_id: int, *, unruled: bool) -> Rows:
    product_rows: list[ProductRow] = []
    variant_rows: list[VariantRow] = []
    movements: list[MovementRow] = []
    event_rows: list[EventRow] = []
    changed: list[VariantCopy] = []
    booking, events = prepared.booking, prepared.events
    for product_index, product in enumerate(prepared.products, 1):
        product_rows.append(product_row(product, product_index, store_id, unruled=unruled))
        indexes: dict[int, int] = {}
        for variant in product.variants:
            if not variant.touched or (variant.id is None and variant.deleted):
                continue
            changed.append(variant)
            index = indexes[id(variant)] = len(changed)
            variant_rows.append(variant_row(variant, index, product_index, product.created_at))
            delta = variant.on_hand - variant.on_hand_before
            if delta and not variant.deleted:
                initial = variant.before is None or not events
                movements.append(
                    MovementRow(product_index, index, initial, booking.kind, delta, booking.reason, booking.reference)
                )
        for event, variant, changes in events_of(product) if events else ():
            variant_index = indexes[id(variant)] if variant else None
            event_rows.append(EventRow(product_index, variant_index, event.name, json_of(changes)))
    _mark_keys_handed_over(variant_rows, changed)
    return Rows(changed, *map(json_rows, (product_rows, variant_rows, movements, event_rows)))


def product_row(product: ProductCopy, index: int, store_id: int, *, unruled: bool = False) -> ProductRow:
    fields, live = product.fields, product.live
    return ProductRow(
        index=index,
        id=product.id,
        external_id=fields.external_id,
        slug=fields.slug,
        name=fields.name,
        status=fields.status,
        price=minor(fields.price) or 0,
        on_hand=sum(variant.on_hand for variant in live),
        reserved=sum(variant.reserved for variant in live),
        in_stock=any(variant.is_sellable for variant in live),
        deleted=product.deleted,
        head=join(fields, product.unknown),
        edition=PRODUCT_EDITION,
        terms=terms_of(fields, [variant.fields for variant in live], store_id),
        created_at=product.created_at,
        actor=product.cause.actor_json if product.cause else None,
        request_id=product.cause.request_id if product.cause else None,
        unruled=unruled,
    )


def variant_row(variant: VariantCopy, index: int, product_index: int, created_at: datetime | None = None) -> VariantRow:
    fields = variant.fields
    return VariantRow(
        index=index,
        product_index=product_index,
        id=variant.id,
        position=fields.position,
        sku=fields.sku,
        barcode=fields.barcode,
        external_id=fields.external_id,
        options_key=options_key(fields.option_values),
        price=minor(fields.price),
        on_hand=variant.on_hand,
        track_inventory=fields.track_inventory,
        allow_backorder=fields.allow_backorder,
        low_stock_threshold=fields.low_stock_threshold,
        deleted=variant.deleted,
        head=join(fields, variant.unknown),
        edition=VARIANT_EDITION,
        created_at=created_at,
    )


def _mark_keys_handed_over(rows: Sequence[VariantRow], changed: Sequence[VariantCopy]) -> None:
    """Mark the stored variants whose key another one takes over. A new variant is stored when such a key is free."""
    renamed = [
        (row, _keys(row, variant.before), _keys(row, variant.fields))
        for row, variant in zip(rows, changed, strict=True)
        if variant.before and not variant.deleted and _unique(variant.before) != _unique(variant.fields)
    ]
    taken = {key for _, before, after in renamed for key in after - before}
    for row, before, _ in renamed:
        row.hands_over = not taken.isdisjoint(before)


def _keys(row: VariantRow, fields: VariantFields) -> set[tuple[str | int, str]]:
    """The unique keys of a variant; its option values are unique in its product."""
    keys = [
        ("sku", fields.sku),
        ("external_id", fields.external_id),
        (row.product_index, options_key(fields.option_values)),
    ]
    return {(of, value) for of, value in keys if value is not None}
