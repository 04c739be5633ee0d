"""A product as one row of a batch or a file: a merge patch that may carry its variants and their stock."""

from collections.abc import Mapping
from typing import Any, cast

import msgspec

from stoa.products.contract import NewProduct, NewVariant, Product, ProductChanges, Variant, VariantChanges
from stoa.products.copies import ProductCopy, VariantCopy
from stoa.products.rules import add_variant, change_product, change_variant, new_product, set_stock
from stoa.rest.body import convert
from stoa.rest.endpoint import Store
from stoa.rest.problems import Fault, Refusal, ValidationFailed


def _names(kind: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(field.encode_name for field in msgspec.structs.fields(kind))


# What an exported row carries and an import leaves as it is: the service's own book-keeping.
_KEPT_BOOKS = _names(Product) - _names(NewProduct) - _names(ProductChanges) - {"currency"}
_KEPT_BOOKS_OF_VARIANT = _names(Variant) - _names(NewVariant) - _names(VariantChanges)
_OF_THE_ONLY_VARIANT = ("sku", "barcode", "stock")


def product_from_row(row: Mapping[str, Any], store: Store) -> ProductCopy:
    """A new product from a row."""
    _check_currency(row, store)
    members = {name: value for name, value in row.items() if name not in _KEPT_BOOKS and name != "currency"}
    if "variants" in members and isinstance(members["variants"], list):
        members["variants"] = [_new_variant_row(each) for each in cast("list[Any]", members["variants"])]
        for name in _OF_THE_ONLY_VARIANT:
            members.pop(name, None)  # an exported product repeats them
    if "stock" in members:
        members["stock"] = _on_hand_only(members["stock"])
    if isinstance(members.get("images"), list):
        members["images"] = [_new_image(image) for image in cast("list[Any]", members["images"])]
    return new_product(convert(members, NewProduct, digits=store.digits), store)


def change_by_row(product: ProductCopy, row: Mapping[str, Any], store: Store) -> bool:
    """Apply a row to a product that exists; says whether anything changed."""
    _check_currency(row, store)
    if row.get("id") not in (None, product.id):
        raise ValidationFailed(
            "The row names another product.", faults=[Fault("/id", "read_only_field", "is another product's id")]
        )
    patch = {
        n: v
        for n, v in row.items()
        if n not in _KEPT_BOOKS and n not in ("currency", "variants", *_OF_THE_ONLY_VARIANT)
    }
    body = convert(patch, ProductChanges, digits=store.digits)
    changed = change_product(product, body, patch, store)
    variants: Any = row.get("variants") or []
    if not isinstance(variants, list):
        fault = Fault("/variants", "invalid_type", "must be an array")
        raise ValidationFailed("The row's variants cannot be read.", faults=[fault])
    if not variants:
        variants = _named_variant(product, row)
    for place, each in enumerate(cast("list[Any]", variants)):
        try:
            changed |= _variant_by_row(product, each, store)
        except Refusal as refusal:
            for fault in refusal.faults:
                fault.pointer = f"/variants/{place}{fault.pointer}" if "variants" in row else fault.pointer
            raise
    return changed


def _variant_by_row(product: ProductCopy, row: Any, store: Store) -> bool:
    if not isinstance(row, dict):
        raise ValidationFailed("A variant must be an object.", faults=[Fault("", "invalid_type", "must be an object")])
    members: dict[str, Any] = row  # pyright: ignore[reportUnknownVariableType]
    variant = _find(product, members)
    if variant is None:
        new = convert(_new_variant_row(members), NewVariant, digits=store.digits)
        add_variant(product, new, store)
        return True
    stock = _on_hand_only(members.get("stock", {}))
    patch = {n: v for n, v in members.items() if n not in _KEPT_BOOKS_OF_VARIANT and n != "stock"}
    changed = change_variant(product, variant, convert(patch, VariantChanges, digits=store.digits), patch, store)
    convert({"stock": stock}, NewVariant, digits=store.digits)
    if "on_hand" in stock:
        changed |= set_stock(product, variant, stock["on_hand"])
    return changed


def _find(product: ProductCopy, row: Mapping[str, Any]) -> VariantCopy | None:
    """The variant a row means: by id, else by SKU, else by its option values, else the only one there is."""
    named = [name for name in ("id", "sku", "option_values") if row.get(name) is not None]
    for name in named:
        for variant in product.live:
            if (variant.id if name == "id" else variant.fields[name]) == row[name]:
                return variant
        if name == "id":
            fault = Fault("/id", "unknown_variant", "is no variant of this product")
            raise ValidationFailed("The row names an unknown variant.", faults=[fault])
    return product.live[0] if not named and len(product.live) == 1 else None


def _named_variant(product: ProductCopy, row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The variant whose fields stand on the product itself: the only one, or the one of several that has the SKU."""
    only = {name: row[name] for name in _OF_THE_ONLY_VARIANT if name in row}
    if not only:
        return []
    if len(product.live) == 1:
        return [{"id": product.live[0].id, **only} if product.live[0].id else only]
    return [only] if any(variant.fields["sku"] == row.get("sku") is not None for variant in product.live) else []


def _new_variant_row(row: Any) -> Any:
    if not isinstance(row, dict):
        return row  # pyright: ignore[reportUnknownVariableType]
    members: dict[str, Any] = row  # pyright: ignore[reportUnknownVariableType]
    kept = {n: v for n, v in members.items() if n not in _KEPT_BOOKS_OF_VARIANT and n != "image_id"}
    return {**kept, "stock": _on_hand_only(members.get("stock", {}))}


def _on_hand_only(stock: Any) -> Any:
    """What is reserved and available follows from orders, and is left to them."""
    if not isinstance(stock, dict):
        return stock  # pyright: ignore[reportUnknownVariableType]
    members: dict[str, Any] = stock  # pyright: ignore[reportUnknownVariableType]
    return {name: value for name, value in members.items() if name not in ("reserved", "available")}


def _new_image(image: Any) -> Any:
    if not isinstance(image, dict):
        return image  # pyright: ignore[reportUnknownVariableType]
    members: dict[str, Any] = image  # pyright: ignore[reportUnknownVariableType]
    return {name: value for name, value in members.items() if name not in ("id", "position")}


def _check_currency(row: Mapping[str, Any], store: Store) -> None:
    if row.get("currency", store.currency) != store.currency:
        fault = Fault("/currency", "currency_mismatch", f"must be the store's own, {store.currency}")
        raise ValidationFailed("The amounts are in another currency.", faults=[fault])
