"""How a product may change, decided without a database: working copies, edits, and what follows from an edit."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import msgspec
from msgspec import UNSET

from stoa import money
from stoa.products.contract import NewProduct, NewVariant, ProductChanges, VariantChanges
from stoa.products.copies import ProductCopy, VariantCopy
from stoa.products.documents import PRODUCT_DEFAULTS, VARIANT_DEFAULTS, options_key, slug_of
from stoa.rest.endpoint import Store
from stoa.rest.patch import merge
from stoa.rest.problems import Fault, Refusal, ValidationFailed

MOST_VARIANTS, MOST_METADATA = 200, 100
_AMOUNTS = ("price", "compare_at_price", "cost_price")


class DuplicateVariant(Refusal):
    """The product has a variant with the same option values already."""

    status, code, title = 409, "duplicate_variant", "A variant with these options exists"


class LastVariant(Refusal):
    """A product keeps at least one variant; delete the product instead."""

    status, code, title = 409, "last_variant", "The last variant cannot be deleted"


def new_product(new: NewProduct, store: Store) -> ProductCopy:
    """A product as it was sent, with one default variant where none was; every fault of its variants is named."""
    fields = {**PRODUCT_DEFAULTS, **_sent(new, store, leave_out=("variants", "sku", "barcode", "stock"))}
    fields["currency"] = store.currency
    fields["slug"] = new.slug or slug_of(new.name)
    fields["images"] = _images([], fields["images"])
    product = ProductCopy(None, fields, [], touched=True)
    sent = new.variants or [NewVariant(sku=new.sku, barcode=new.barcode, stock=new.stock)]
    faults: list[Fault] = []
    if new.variants:
        for name in ("sku", "barcode"):
            if getattr(new, name) is not None:
                faults.append(Fault(f"/{name}", "invalid_format", "belongs to the variants when they are sent"))
    seen: dict[str, int] = {}
    for place, each in enumerate(sent):
        at = f"/variants/{place}"
        faults += _option_faults(fields["options"], each.option_values, f"{at}/option_values")
        if seen.setdefault(options_key(each.option_values), place) != place:
            faults.append(Fault(f"{at}/option_values", "option_mismatch", "stands twice in this product"))
        product.variants.append(_new_variant(product, each, store))
    faults += [
        f for place, v in enumerate(product.variants) for f in _stock_faults(v, f"/variants/{place}/stock/on_hand")
    ]
    if faults:
        raise ValidationFailed(f"{len(faults)} fault(s) in the variants.", faults=faults)
    settle(product)
    return product


def change_product(product: ProductCopy, body: ProductChanges, patch: Mapping[str, Any], store: Store) -> bool:
    """Apply a merge patch; says whether anything changed."""
    wanted = {**patch, **{name: _text(patch[name], store) for name in _AMOUNTS if patch.get(name) is not None}}
    if body.images is not UNSET and body.images is not None:
        wanted["images"] = _images(product.fields["images"], msgspec.to_builtins(body.images))
    after = {**PRODUCT_DEFAULTS, **merge(product.fields, wanted)}
    after["seo"] = {"title": None, "description": None, **after["seo"]}
    if not after["slug"]:
        after["slug"] = slug_of(after["name"])
    if after == product.fields:
        return False
    _refuse(_metadata_faults(after))
    if after["options"] != product.fields["options"]:
        faults = [
            f for v in product.live for f in _option_faults(after["options"], v.fields["option_values"], "/options")
        ]
        if faults:
            raise ValidationFailed("The options no longer fit the variants.", faults=faults[:1])
    if after["track_inventory"] != product.fields["track_inventory"]:
        for variant in product.live:
            _set(variant, {"track_inventory": after["track_inventory"]})
            _refuse(_stock_faults(variant, "/track_inventory"))
    product.fields = after
    product.touched = True
    settle(product)
    return True


def delete_product(product: ProductCopy) -> None:
    product.deleted = product.touched = True
    for variant in product.live:
        variant.deleted = variant.touched = True


def add_variant(product: ProductCopy, new: NewVariant, store: Store) -> VariantCopy:
    """Add a variant; option values that are new to the product are appended to its options."""
    if len(product.live) >= MOST_VARIANTS:
        raise ValidationFailed(
            f"A product has at most {MOST_VARIANTS} variants.", faults=[Fault("", "too_long", "has too many variants")]
        )
    faults = _option_faults(product.fields["options"], new.option_values, "/option_values", names_only=True)
    if faults:
        raise ValidationFailed("The option values do not fit the product's options.", faults=faults)
    _refuse_double(product, None, new.option_values)
    product.fields = {**product.fields, "options": _extended(product.fields["options"], new.option_values)}
    variant = _new_variant(product, new, store)
    _refuse(_stock_faults(variant, "/stock/on_hand"))
    product.variants.append(variant)
    product.touched = True
    settle(product)
    return variant


def change_variant(
    product: ProductCopy, variant: VariantCopy, body: VariantChanges, patch: Mapping[str, Any], store: Store
) -> bool:
    """Apply a merge patch to one variant; says whether anything changed."""
    wanted = {**patch, **{name: _text(patch[name], store) for name in _AMOUNTS if patch.get(name) is not None}}
    after = {**VARIANT_DEFAULTS, **merge(variant.fields, wanted)}
    if body.option_values is not UNSET:
        after["option_values"] = body.option_values
        faults = _option_faults(product.fields["options"], after["option_values"], "/option_values", names_only=True)
        if faults:
            raise ValidationFailed("The option values do not fit the product's options.", faults=faults)
        _refuse_double(product, variant, after["option_values"])
    images = {image["id"] for image in product.fields["images"]}
    if after["image_id"] is not None and after["image_id"] not in images:
        fault = Fault("/image_id", "invalid_format", "must be the id of one of the product's images")
        raise ValidationFailed("The image is not the product's.", faults=[fault])
    if after == variant.fields:
        return False
    _refuse(_metadata_faults(after))
    _refuse(_stock_faults(msgspec.structs.replace(variant, fields=after), "/allow_backorder"))
    product.fields = {**product.fields, "options": _extended(product.fields["options"], after["option_values"])}
    variant.fields = after
    variant.touched = product.touched = True
    settle(product)
    return True


def remove_variant(product: ProductCopy, variant: VariantCopy) -> None:
    if len(product.live) == 1:
        raise LastVariant("Delete the product instead.")
    variant.deleted = variant.touched = product.touched = True
    settle(product)


def set_stock(product: ProductCopy, variant: VariantCopy, on_hand: int) -> bool:
    if variant.on_hand == on_hand:
        return False
    _refuse(_stock_faults(msgspec.structs.replace(variant, on_hand=on_hand), "/stock/on_hand"))
    variant.on_hand = on_hand
    variant.touched = product.touched = True
    return True


def settle(product: ProductCopy) -> None:
    """Bring into line what follows from the rest: titles, effective prices, the default, the only variant's SKU."""
    live = product.live
    for place, variant in enumerate(live):
        _set(
            variant,
            {
                "title": " / ".join(variant.fields["option_values"].values()) or "Default",
                "effective_price": variant.fields["price"] or product.fields["price"],
                "is_default": place == 0,
                "position": place + 1,
            },
        )
    only = live[0].fields if len(live) == 1 else {}
    derived = {"sku": only.get("sku"), "barcode": only.get("barcode"), "variants_count": len(live)}
    if any(product.fields[name] != value for name, value in derived.items()):
        product.fields = {**product.fields, **derived}
        product.touched = True


def _refuse(faults: list[Fault]) -> None:
    if faults:
        raise ValidationFailed(f"{len(faults)} fault(s) found.", faults=faults)


def _stock_faults(variant: VariantCopy, at: str) -> list[Fault]:
    """Stock below what is promised needs backorder, or not to be counted at all."""
    owed = variant.on_hand < variant.reserved
    if owed and variant.fields["track_inventory"] and not variant.fields["allow_backorder"]:
        return [Fault(at, "out_of_range", "leaves less than nothing to sell, and the variant takes no backorders")]
    return []


def _metadata_faults(fields: Mapping[str, Any]) -> list[Fault]:
    too_many = len(fields["metadata"]) > MOST_METADATA
    return [Fault("/metadata", "metadata_limit", f"may hold at most {MOST_METADATA} keys")] if too_many else []


def _set(variant: VariantCopy, members: Mapping[str, Any]) -> None:
    if any(variant.fields[name] != value for name, value in members.items()):
        variant.fields = {**variant.fields, **members}
        variant.touched = True


def _new_variant(product: ProductCopy, new: NewVariant, store: Store) -> VariantCopy:
    fields = {**VARIANT_DEFAULTS, **_sent(new, store, leave_out=("stock",))}
    if new.track_inventory is None:
        fields["track_inventory"] = product.fields["track_inventory"]
    return VariantCopy(None, fields, on_hand=new.stock.on_hand, touched=True)


def _sent(body: msgspec.Struct, store: Store, *, leave_out: tuple[str, ...]) -> dict[str, Any]:
    """A body's members as a document holds them: plain values, amounts as text."""
    members = msgspec.structs.asdict(body)
    for name in leave_out:
        del members[name]
    plain: dict[str, Any] = msgspec.to_builtins(members, builtin_types=(Decimal,))
    return {**plain, **{name: _text(plain[name], store) for name in _AMOUNTS if plain.get(name) is not None}}


def _text(amount: Any, store: Store) -> str:
    return money.to_text(money.to_minor(Decimal(amount), store.digits), store.digits)


def _images(before: list[dict[str, Any]], sent: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Images in the order sent; one that was there before, by id or address, keeps its id."""
    by_id = {image["id"]: image for image in before}
    by_url = {image["url"]: image for image in before}
    last = max(by_id, default=0)
    found: list[dict[str, Any]] = []
    for place, image in enumerate(sent, 1):
        known = by_id.get(image.get("id") or 0) or by_url.get(image["url"])
        if known is None or known["id"] in [each["id"] for each in found]:
            last += 1
        number = known["id"] if known and known["id"] not in [each["id"] for each in found] else last
        found.append({"id": number, "url": image["url"], "alt": image.get("alt"), "position": place})
    return found


def _option_faults(
    options: list[dict[str, Any]], values: Mapping[str, str], at: str, *, names_only: bool = False
) -> list[Fault]:
    wanted = {option["name"]: option["values"] for option in options}
    if set(values) != set(wanted):
        words = ", ".join(wanted) or "none, for the product has no options"
        return [Fault(at, "option_mismatch", f"must name exactly these options: {words}")]
    if names_only:
        return []
    return [
        Fault(f"{at}/{name}" if at != "/options" else at, "option_mismatch", "is not among the option's values")
        for name, value in values.items()
        if value not in wanted[name]
    ]


def _refuse_double(product: ProductCopy, mine: VariantCopy | None, values: Mapping[str, str]) -> None:
    key = options_key(values)
    for other in product.live:
        if other is not mine and options_key(other.fields["option_values"]) == key:
            raise DuplicateVariant("Another variant has these option values.", existing_id=other.id)


def _extended(options: list[dict[str, Any]], values: Mapping[str, str]) -> list[dict[str, Any]]:
    return [
        option
        if values[option["name"]] in option["values"]
        else {**option, "values": [*option["values"], values[option["name"]]]}
        for option in options
    ]
