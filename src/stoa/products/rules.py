"""The rules by which products change, without a database: edits of working copies, and the fields derived from them."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import UNSET, UnsetType

from stoa import money
from stoa.products import options
from stoa.products.arrangement import WantedPosition, arrange, in_order, position_faults
from stoa.products.bodies import (
    NewProduct,
    NewStock,
    NewVariant,
    ProductChanges,
    ProductFields,
    VariantChanges,
    VariantFields,
)
from stoa.products.collections import choose
from stoa.products.contract import MOST_VARIANTS
from stoa.products.documents import changes_between, members_of, options_key
from stoa.products.images import faults_of_images, images_of
from stoa.products.slugs import slug_of
from stoa.products.stock_locations import DEFAULT_LOCATION
from stoa.products.working_copy import Level, ProductCopy, VariantCopy, has_unlimited_stock
from stoa.rest.call import Store
from stoa.rest.checks import MOST_FAULTS
from stoa.rest.metadata import Definitions
from stoa.rest.patch import merge
from stoa.rest.problems import Fault, Refusal, ValidationFailed, counted, first_sent

MOST_METADATA = 100
_OWED = "leaves less than zero available, and the variant does not allow backorders"
_ARRANGED = ("position", "is_default")
_AMOUNTS = ("price", "compare_at_price", "cost_price")


class DuplicateVariant(Refusal):
    """Another variant of the product has the same option values. `existing_id` names that variant."""

    status, code, title = 409, "duplicate_variant", "A variant with these options exists"


class LastVariant(Refusal):
    """A product must have at least one variant. Delete the product instead."""

    status, code, title = 409, "last_variant", "The last variant cannot be deleted"


def new_product(new: NewProduct, store: Store) -> ProductCopy:
    """A new product, with a default variant if none was sent. A refusal names all faults of its variants."""
    members = _sent(new, store, leave_out=("variants", "sku", "barcode", "stock"))
    members["currency"] = store.currency
    members["slug"] = new.slug or slug_of(new.name)
    refuse(faults_of_images([], members["images"], store.pictures))
    members["images"] = images_of([], members["images"], store.pictures)
    members["collections"] = choose([], new.collections)
    fields = ProductFields(**members)
    product = ProductCopy(None, fields, [], touched=True, derives_slug=not new.slug)
    refuse([*options.faults_of_options(fields.options), *_faults_of_variants(new, fields, store.definitions)])
    sent = _variants_of(new)
    product.variants = [_new_variant(product, each, store, index) for index, each in enumerate(sent, 1)]
    arrange(
        product,
        [WantedPosition(v, each.position, each.is_default) for v, each in zip(product.variants, sent, strict=True)],
    )
    derive_fields(product)
    return product


def _variants_of(new: NewProduct) -> Sequence[NewVariant]:
    """The variants as sent, or a default variant with the fields of the product and the first value of each option."""
    stock = NewStock() if isinstance(new.stock, UnsetType) else new.stock
    first = {option.name: option.values[0] for option in new.options}
    return new.variants or [NewVariant(option_values=first, sku=new.sku, barcode=new.barcode, stock=stock)]


def _faults_of_variants(new: NewProduct, fields: ProductFields, definitions: Definitions) -> list[Fault]:
    faults = definitions.faults_of_new("product", new.metadata)
    if new.variants:
        faults += [
            Fault(f"/{name}", "invalid_format", "must be omitted when variants are sent")
            for name in ("sku", "barcode", "stock")
            if getattr(new, name) not in (None, UNSET)
        ]
    images = {image["id"] for image in fields.images}
    seen: dict[str, int] = {}
    faults += position_faults([(each.position, each.is_default) for each in new.variants])
    for index, each in enumerate(_variants_of(new)):
        at = f"/variants/{index}" if new.variants else ""
        faults += options.faults_of_values(fields.options, each.option_values, f"{at}/option_values")
        if seen.setdefault(options_key(each.option_values), index) != index:
            faults.append(
                Fault(f"{at}/option_values", "option_mismatch", "are the option values of another variant too")
            )
        faults += _image_faults(images, each.image_id, at)
        if new.variants:
            faults += definitions.faults_of_new("variant", each.metadata, f"{at}/metadata")
        tracked = new.track_inventory if each.track_inventory is None else each.track_inventory
        if each.stock.on_hand < 0 and not has_unlimited_stock(tracked, each.allow_backorder):
            faults.append(Fault(f"{at}/stock/on_hand", "out_of_range", _OWED))
    return faults


def change_product(product: ProductCopy, body: ProductChanges, patch: Mapping[str, Any], store: Store) -> bool:
    """Apply a merge patch, and return whether anything changed."""
    wanted = {**patch, **{name: _text(patch[name], store) for name in _AMOUNTS if patch.get(name) is not None}}
    if body.images is not UNSET and body.images is not None:
        sent = msgspec.to_builtins(body.images)
        refuse(faults_of_images(product.fields.images, sent, store.pictures))
        wanted["images"] = images_of(product.fields.images, sent, store.pictures)
    if body.collections is not UNSET:
        wanted["collections"] = choose(product.fields.collections, body.collections or [])
    merged = merge(members_of(product.fields), wanted)
    merged["seo"] = {"title": None, "description": None, **merged.get("seo", {})}
    sent_slug = merged.get("slug")
    merged["slug"] = sent_slug or slug_of(merged["name"], product.fields.slug)
    after = ProductFields(**merged)
    refuse(store.definitions.faults_of_changes("product", patch.get("metadata", {})))
    if not changes_between(product.fields, after):
        return False
    refuse(_metadata_faults(after.metadata))
    if after.options != product.fields.options:
        _refit(product, after.options)
    if after.images != product.fields.images:
        _clear_removed_images(product, {image["id"] for image in after.images})
    if after.track_inventory != product.fields.track_inventory:
        for variant in product.live:
            variant.set_fields(track_inventory=after.track_inventory)
            refuse(_stock_faults(variant, "/track_inventory"))
    if after.slug != product.fields.slug:
        product.derives_slug = not sent_slug
    product.fields = after
    product.touched = True
    derive_fields(product)
    return True


def _refit(product: ProductCopy, wanted: list[dict[str, Any]]) -> None:
    """Give the variants values that fit the changed options."""
    refuse(options.faults_of_options(wanted))
    before = product.fields.options
    fitted = [options.refitted(before, wanted, variant.fields.option_values) for variant in product.live]
    refuse(options.faults_of_refitting(wanted, fitted))
    for variant, values in zip(product.live, fitted, strict=True):
        _give_values(variant, values)


def _clear_removed_images(product: ProductCopy, kept: set[int]) -> None:
    for variant in product.live:
        if variant.fields.image_id not in kept:
            variant.set_fields(image_id=None)


def delete_product(product: ProductCopy) -> bool:
    """Delete a product with its variants. Returns True, because an edit returns whether anything changed."""
    product.deleted = product.touched = True
    for variant in product.live:
        variant.deleted = variant.touched = True
    return True


def add_variant(product: ProductCopy, new: NewVariant, store: Store) -> VariantCopy:
    """Add a variant, and append new option values to the options of the product."""
    if len(product.live) >= MOST_VARIANTS:
        raise ValidationFailed(
            f"A product has at most {MOST_VARIANTS} variants.",
            faults=[Fault("", "too_long", f"would exceed {MOST_VARIANTS} variants")],
        )
    images = {image["id"] for image in product.fields.images}
    faults = options.faults_of_names(product.fields.options, new.option_values, "/option_values")
    faults += store.definitions.faults_of_new("variant", new.metadata)
    refuse([*faults, *_image_faults(images, new.image_id, "")])
    _refuse_duplicate(product, None, new.option_values)
    _extend_options(product, new.option_values)
    variant = _new_variant(product, new, store, len(product.live) + 1)
    refuse(_stock_faults(variant, "/stock/on_hand"))
    product.variants.append(variant)
    arrange(product, [WantedPosition(variant, new.position, new.is_default)])
    product.touched = True
    derive_fields(product)
    return variant


def change_variant(
    product: ProductCopy, variant: VariantCopy, body: VariantChanges, patch: Mapping[str, Any], store: Store
) -> bool:
    """Apply a merge patch to a variant, and return whether anything changed."""
    given = {name: value for name, value in patch.items() if name not in _ARRANGED}
    wanted = {**given, **{name: _text(patch[name], store) for name in _AMOUNTS if patch.get(name) is not None}}
    members = merge(members_of(variant.fields), wanted)
    if body.is_default is False and variant.fields.is_default:
        fault = Fault("/is_default", "invalid_format", "cannot be unset; make another variant the default")
        raise ValidationFailed("A product always has one default variant.", faults=[fault])
    position = None if body.position is UNSET else body.position
    moved = arrange(product, [WantedPosition(variant, position, body.is_default is True)])
    members |= {name: getattr(variant.fields, name) for name in _ARRANGED}
    if body.option_values is not UNSET:
        refuse(options.faults_of_names(product.fields.options, members["option_values"], "/option_values"))
        _refuse_duplicate(product, variant, members["option_values"])
        members["option_values"] = options.in_order(product.fields.options, members["option_values"])
    after = VariantFields(**members)
    faults = store.definitions.faults_of_changes("variant", patch.get("metadata", {}))
    refuse([*faults, *_image_faults({image["id"] for image in product.fields.images}, after.image_id, "")])
    if not changes_between(variant.fields, after):
        return moved
    refuse(_metadata_faults(after.metadata))
    at = first_sent(patch, "/allow_backorder", "/track_inventory")
    refuse(_stock_faults(msgspec.structs.replace(variant, fields=after), at))
    _extend_options(product, after.option_values)
    variant.fields = after
    variant.touched = product.touched = True
    derive_fields(product)
    return True


def remove_variant(product: ProductCopy, variant: VariantCopy) -> None:
    if len(product.live) == 1:
        raise LastVariant("Delete the product instead.")
    variant.deleted = variant.touched = product.touched = True
    derive_fields(product)


def set_stock(product: ProductCopy, variant: VariantCopy, total: int) -> bool:
    """Set the sum of all locations; the difference goes to the default location. Returns whether anything changed."""
    if variant.total == total:
        return False
    on_hand = variant.on_hand + total - variant.total
    refuse(_stock_faults(msgspec.structs.replace(variant, on_hand=on_hand), "/stock/on_hand"))
    variant.on_hand = on_hand
    variant.touched = product.touched = True
    return True


def set_level(product: ProductCopy, variant: VariantCopy, location: str, on_hand: int) -> bool:
    """Set the stock at one location, and return whether anything changed. The caller moves the stock in `levels` itself."""
    if location == DEFAULT_LOCATION:
        default = variant.on_hand - variant.other_on_hand
        return set_stock(product, variant, variant.total - default + on_hand)
    level = variant.levels.get(location, Level())
    if level.on_hand == on_hand:
        return False
    if on_hand < level.reserved:
        words = f"must be at least {level.reserved}, the units that are reserved at the location"
        refuse([Fault("/stock/on_hand", "out_of_range", words)])
    variant.levels = {**variant.levels, location: msgspec.structs.replace(level, on_hand=on_hand)}
    return True


def derive_fields(product: ProductCopy) -> None:
    """Update derived fields: titles, effective prices, positions without gaps, and the SKU of an only variant.

    If the default variant was deleted, the first one becomes the default.
    """
    live = in_order(product)
    without_default = not any(variant.fields.is_default for variant in live)
    for index, variant in enumerate(live):
        variant.set_fields(
            title=" / ".join(variant.fields.option_values.values()) or "Default",
            effective_price=variant.fields.price or product.fields.price,
            is_default=variant.fields.is_default or (without_default and index == 0),
            position=index + 1,
        )
    only = live[0].fields if len(live) == 1 else VariantFields()
    product.set_fields(sku=only.sku, barcode=only.barcode, variants_count=len(live))


def refuse(faults: list[Fault]) -> None:
    if faults:
        raise ValidationFailed(f"{counted(len(faults), 'fault')} found.", faults=faults[:MOST_FAULTS])


def _stock_faults(variant: VariantCopy, at: str) -> list[Fault]:
    """Stock below what is reserved requires backorders, or a variant whose inventory is not tracked."""
    if variant.owed and not variant.has_unlimited_stock:
        return [Fault(at, "out_of_range", _OWED)]
    return []


def _metadata_faults(metadata: Mapping[str, Any]) -> list[Fault]:
    too_many = len(metadata) > MOST_METADATA
    return [Fault("/metadata", "metadata_limit", f"must have at most {MOST_METADATA} keys")] if too_many else []


def _image_faults(images: set[int], image_id: int | None, at: str) -> list[Fault]:
    if image_id is None or image_id in images:
        return []
    return [Fault(f"{at}/image_id", "invalid_format", "must be the id of one of the product's images")]


def _give_values(variant: VariantCopy, values: dict[str, str]) -> None:
    # Compares the order too, because the title shows it.
    if list(variant.fields.option_values.items()) != list(values.items()):
        variant.fields = msgspec.structs.replace(variant.fields, option_values=values)
        variant.touched = True


def _new_variant(product: ProductCopy, new: NewVariant, store: Store, position: int) -> VariantCopy:
    members = _sent(new, store, leave_out=("stock", *_ARRANGED))
    members["position"] = position
    members["option_values"] = options.in_order(product.fields.options, new.option_values)
    if new.track_inventory is None:
        members["track_inventory"] = product.fields.track_inventory
    return VariantCopy(None, VariantFields(**members), on_hand=new.stock.on_hand, touched=True)


def _extend_options(product: ProductCopy, values: Mapping[str, str]) -> None:
    """Append the new values of a variant to the options of its product. The caller marks the product as touched."""
    product.fields = msgspec.structs.replace(product.fields, options=options.extended(product.fields.options, values))


def _sent(body: msgspec.Struct, store: Store, *, leave_out: tuple[str, ...]) -> dict[str, Any]:
    """The members of a body as a document stores them: plain values, with amounts as text."""
    members = msgspec.structs.asdict(body)
    for name in leave_out:
        del members[name]
    plain: dict[str, Any] = msgspec.to_builtins(members, builtin_types=(Decimal,))
    return {**plain, **{name: _text(plain[name], store) for name in _AMOUNTS if plain.get(name) is not None}}


def _text(amount: Any, store: Store) -> str:
    return money.to_text(money.to_minor(Decimal(amount), store.digits), store.digits)


def _refuse_duplicate(product: ProductCopy, edited: VariantCopy | None, values: Mapping[str, str]) -> None:
    key = options_key(values)
    for other in product.live:
        if other is not edited and options_key(other.fields.option_values) == key:
            raise DuplicateVariant("Another variant has these option values.", existing_id=other.id)
