"""A product as one row of a batch or a file: a merge patch that may carry its variants and their stock."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec

from stoa.products.bodies import NewProduct, NewVariant, ProductChanges, VariantChanges
from stoa.products.contract import Product, Variant
from stoa.products.rules import add_variant, change_product, change_variant, new_product, set_stock
from stoa.products.working_copy import ProductCopy, VariantCopy
from stoa.products.workspace import Pointing, on_itself
from stoa.rest.body import convert
from stoa.rest.endpoint import Store
from stoa.rest.problems import Fault, Refusal, ValidationFailed


def _names(kind: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(field.encode_name for field in msgspec.structs.fields(kind))


# What an exported row carries and an import leaves as it is: the service's own book-keeping.
_KEPT_BOOKS = _names(Product) - _names(NewProduct) - _names(ProductChanges) - {"currency"}
_KEPT_BOOKS_OF_VARIANT = _names(Variant) - _names(NewVariant) - _names(VariantChanges)
_OF_THE_ONLY_VARIANT = ("sku", "barcode", "stock")


class Keys(msgspec.Struct):
    """What belongs to one product of the store alone, or to one variant."""

    skus: set[str] = msgspec.field(default_factory=set[str])
    external_ids: set[str] = msgspec.field(default_factory=set[str])
    variant_external_ids: set[str] = msgspec.field(default_factory=set[str])

    def add(self, row: Mapping[str, Any]) -> None:
        """Take up the keys that a row mentions, its variants' among them."""
        self.skus.update(skus_in(row))
        if isinstance(name := row.get("external_id"), str):
            self.external_ids.add(name)
        for _, variant in variants_in(row):
            if isinstance(name := variant.get("external_id"), str):
                self.variant_external_ids.add(name)


def variants_in(row: Mapping[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The variants nested in a row, each with its place; what is no variant is left for the checks to name."""
    nested = cast("list[Any]", row["variants"]) if isinstance(row.get("variants"), list) else []
    for place, each in enumerate(nested):
        if isinstance(each, dict):
            yield place, cast("dict[str, Any]", each)


def skus_in(row: Mapping[str, Any]) -> list[str]:
    """The SKUs that a row mentions, its own before its variants'."""
    mentioned = [row.get("sku"), *(variant.get("sku") for _, variant in variants_in(row))]
    return [sku for sku in mentioned if isinstance(sku, str)]


def pointing_into(row: Mapping[str, Any]) -> Pointing:
    """Where a row says something: in the last of its variants that says so, else on itself."""

    def pointer(name: str, value: str) -> str:
        places = [place for place, variant in variants_in(row) if variant.get(name) == value]
        return f"/variants/{places[-1]}/{name}" if places else on_itself(name, value)

    return pointer


def product_from_row(row: Mapping[str, Any], store: Store) -> ProductCopy:
    """A new product from a row."""
    _check_currency(row, store)
    members = {name: value for name, value in row.items() if name not in _KEPT_BOOKS and name != "currency"}
    images = cast("list[Any]", members["images"]) if isinstance(members.get("images"), list) else []
    if isinstance(members.get("variants"), list):
        numbers = _new_numbers(images)
        members["variants"] = [
            _with_image(_new_variant_row(each), numbers) for each in cast("list[Any]", members["variants"])
        ]
        for name in _OF_THE_ONLY_VARIANT:
            members.pop(name, None)  # an exported product repeats them
    if "stock" in members:
        members["stock"] = _on_hand_only(members["stock"])
    if images:
        members["images"] = [_new_image(image) for image in images]
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
    variants: Any = row.get("variants", [])
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
    if row.get("sku") is not None and any(variant.fields["sku"] == row["sku"] for variant in product.live):
        return [only]
    _refuse_of_several(only)
    return []


def _refuse_of_several(only: Mapping[str, Any]) -> None:
    """What is said of a variant must say of which; the sum that a product of several shows says nothing."""
    stock: Any = only.get("stock")
    is_sum = isinstance(stock, dict) and "available" in stock
    said: dict[str, Any] = {"sku": only.get("sku"), "barcode": only.get("barcode"), "stock": None if is_sum else stock}
    faults = [
        Fault(f"/{name}", "unknown_variant", "is no variant's of this product, or does not say which it means")
        for name, value in said.items()
        if value is not None
    ]
    if faults:
        raise ValidationFailed("The product has several variants: name one by its sku.", faults=faults)


def _new_variant_row(row: Any) -> Any:
    if not isinstance(row, dict):
        return row  # pyright: ignore[reportUnknownVariableType]
    members: dict[str, Any] = row  # pyright: ignore[reportUnknownVariableType]
    kept = {n: v for n, v in members.items() if n not in _KEPT_BOOKS_OF_VARIANT}
    return {**kept, "stock": _on_hand_only(members.get("stock", {}))}


def _new_numbers(images: list[Any]) -> dict[int, int]:
    """The ids that images will have in a new product, by those that they had where they come from."""
    numbers: dict[int, int] = {}
    for place, image in enumerate(images, 1):
        known = cast("dict[str, Any]", image).get("id") if isinstance(image, dict) else None
        numbers[known if type(known) is int else place] = place
    return numbers


def _with_image(variant: Any, numbers: Mapping[int, int]) -> Any:
    if not isinstance(variant, dict):
        return variant  # pyright: ignore[reportUnknownVariableType]
    members = cast("dict[str, Any]", variant)
    number = members.get("image_id")
    return {**members, "image_id": numbers.get(number, number)} if type(number) is int else members


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
