"""A product as a row of a batch or a file: a merge patch that may include variants and their stock."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

import msgspec
from msgspec import UNSET

from stoa.products.arrangement import WantedPosition, arrange, position_faults
from stoa.products.bodies import PRODUCT_ELSEWHERE, NewImage, NewProduct, NewVariant, ProductChanges, VariantChanges
from stoa.products.contract import Image, Product, Variant
from stoa.products.rules import add_variant, change_product, change_variant, new_product, refuse, set_stock
from stoa.products.working_copy import ProductCopy, VariantCopy
from stoa.products.workspace import Pointing, on_itself
from stoa.rest.body import convert
from stoa.rest.call import Store
from stoa.rest.checks import together_with
from stoa.rest.patch import cannot_change
from stoa.rest.problems import Fault, Refusal, ValidationFailed


def _names(kind: type[msgspec.Struct]) -> frozenset[str]:
    return frozenset(field.encode_name for field in msgspec.structs.fields(kind))


# Fields that an export contains and an import ignores, because the service maintains them.
_MAINTAINED = _names(Product) - _names(NewProduct) - _names(ProductChanges) - {"currency"}
_MAINTAINED_OF_VARIANT = _names(Variant) - _names(NewVariant) - _names(VariantChanges)
_FOUND_OUT_OF_IMAGE = _names(Image) - _names(NewImage)
_OF_THE_ONLY_VARIANT = ("sku", "barcode", "stock")


class Keys(msgspec.Struct):
    """Keys that are unique to one product or variant of the store."""

    skus: set[str] = msgspec.field(default_factory=set[str])
    external_ids: set[str] = msgspec.field(default_factory=set[str])
    variant_external_ids: set[str] = msgspec.field(default_factory=set[str])

    def __bool__(self) -> bool:
        return bool(self.skus or self.external_ids or self.variant_external_ids)

    def overlaps(self, other: "Keys") -> bool:
        """Whether both have a key in common."""
        return not (
            self.skus.isdisjoint(other.skus)
            and self.external_ids.isdisjoint(other.external_ids)
            and self.variant_external_ids.isdisjoint(other.variant_external_ids)
        )

    def add(self, row: Mapping[str, Any]) -> None:
        """Add the keys in a row, including those of its variants."""
        self.skus.update(skus_in(row))
        if isinstance(name := row.get("external_id"), str):
            self.external_ids.add(name)
        for _, variant in variants_in(row):
            if isinstance(name := variant.get("external_id"), str):
                self.variant_external_ids.add(name)


def variants_in(row: Mapping[str, Any]) -> Iterator[tuple[int, dict[str, Any]]]:
    """The variants in a row with their indexes; values that are not objects are left to validation."""
    nested = cast("list[Any]", row["variants"]) if isinstance(row.get("variants"), list) else []
    for index, each in enumerate(nested):
        if isinstance(each, dict):
            yield index, cast("dict[str, Any]", each)


def skus_in(row: Mapping[str, Any]) -> list[str]:
    """The SKUs in a row: its own, then those of its variants."""
    mentioned = [row.get("sku"), *(variant.get("sku") for _, variant in variants_in(row))]
    return [sku for sku in mentioned if isinstance(sku, str)]


def pointing_into(row: Mapping[str, Any]) -> Pointing:
    """Points to a value in a row: to the last variant that has it, otherwise to the row itself."""

    def pointer(name: str, value: str) -> str:
        indexes = [index for index, variant in variants_in(row) if variant.get(name) == value]
        return f"/variants/{indexes[-1]}/{name}" if indexes else on_itself(name, value)

    return pointer


def product_from_row(row: Mapping[str, Any], store: Store) -> ProductCopy:
    """A new product from a row."""
    _check_currency(row, store)
    members = {name: value for name, value in row.items() if name not in _MAINTAINED and name != "currency"}
    images = cast("list[Any]", members["images"]) if isinstance(members.get("images"), list) else []
    if isinstance(members.get("variants"), list):
        numbers = _new_numbers(images)
        members["variants"] = [
            _with_image(_new_variant_row(each), numbers) for each in cast("list[Any]", members["variants"])
        ]
        for name in _OF_THE_ONLY_VARIANT:
            members.pop(name, None)  # an export repeats them on the product
    if "stock" in members:
        members["stock"] = on_hand_only(members["stock"])
    if images:
        members["images"] = [_new_image(image) for image in images]
    return new_product(convert(members, NewProduct, digits=store.digits), store)


def change_by_row(product: ProductCopy, row: Mapping[str, Any], store: Store) -> bool:
    """Apply a row to an existing product, and return whether anything changed."""
    with together_with(_read_only_faults(product, row)):
        return _changed_by_row(product, row, store)


def _read_only_faults(product: ProductCopy, row: Mapping[str, Any]) -> list[Fault]:
    faults: list[Fault] = []
    if row.get("id") not in (None, product.id):
        faults.append(Fault("/id", "read_only_field", "is the id of another product"))
    if _has_new_sku(product, row):
        faults.append(Fault("/sku", "read_only_field", cannot_change(PRODUCT_ELSEWHERE["sku"])))
    return faults


def _has_new_sku(product: ProductCopy, row: Mapping[str, Any]) -> bool:
    """Whether a row has another `sku` beside the product: a SKU belongs to a variant, and changes only there, as in a PATCH."""
    if "sku" not in row or (len(product.live) > 1 and not row.get("variants")):
        return False  # of several variants, the SKU names one
    known = [product.fields.sku, *(variant.fields.sku for variant in product.live)]
    return row["sku"] not in [*known, *skus_in({"variants": row.get("variants")})]


def _changed_by_row(product: ProductCopy, row: Mapping[str, Any], store: Store) -> bool:
    _check_currency(row, store)
    patch = {
        n: v
        for n, v in row.items()
        if n not in _MAINTAINED and n not in ("currency", "variants", *_OF_THE_ONLY_VARIANT)
    }
    body = convert(patch, ProductChanges, digits=store.digits)
    changed = change_product(product, body, patch, store)
    variants: Any = row.get("variants", [])
    if not isinstance(variants, list):
        fault = Fault("/variants", "invalid_type", "must be an array")
        raise ValidationFailed("variants must be an array.", faults=[fault])
    if not variants:
        variants = variant_on_product(product, row)
    wanted: list[WantedPosition] = []
    for index, each in enumerate(cast("list[Any]", variants)):
        try:
            variant_changed, position = _variant_by_row(product, each, store)
            changed |= variant_changed
            wanted.append(position)
        except Refusal as refusal:
            for fault in refusal.faults:
                fault.pointer = f"/variants/{index}{fault.pointer}" if "variants" in row else fault.pointer
            raise
    # Together, because a row describes the order of its variants as a whole.
    refuse(position_faults([(each.position, each.is_default) for each in wanted]))
    return arrange(product, wanted) or changed


def _variant_by_row(product: ProductCopy, row: Any, store: Store) -> tuple[bool, WantedPosition]:
    """Apply a row to its variant. Returns whether anything changed, and the position that the row gives to the variant."""
    if not isinstance(row, dict):
        raise ValidationFailed("A variant must be an object.", faults=[Fault("", "invalid_type", "must be an object")])
    members: dict[str, Any] = row  # pyright: ignore[reportUnknownVariableType]
    variant = find_variant(product, members)
    if variant is None:
        new = convert(_new_variant_row(members), NewVariant, digits=store.digits)
        added = add_variant(product, msgspec.structs.replace(new, position=None, is_default=False), store)
        return True, WantedPosition(added, new.position, new.is_default)
    stock = on_hand_only(members.get("stock", {}))
    patch = {n: v for n, v in members.items() if n not in _MAINTAINED_OF_VARIANT and n != "stock"}
    body = convert(patch, VariantChanges, digits=store.digits)
    # A false `is_default` in an export only says that another variant is the default.
    position = WantedPosition(variant, None if body.position is UNSET else body.position, body.is_default is True)
    unmoved = msgspec.structs.replace(body, position=UNSET, is_default=UNSET)
    changed = change_variant(product, variant, unmoved, patch, store)
    convert({"stock": stock}, NewVariant, digits=store.digits)
    if "on_hand" in stock:
        changed |= set_stock(product, variant, stock["on_hand"])
    return changed, position


def find_variant(product: ProductCopy, row: Mapping[str, Any]) -> VariantCopy | None:
    """The variant that a row names: by id, else by SKU, else by option values, else the only variant."""
    named = [name for name in ("id", "sku", "option_values") if row.get(name) is not None]
    for name in named:
        for variant in product.live:
            if (variant.id if name == "id" else getattr(variant.fields, name)) == row[name]:
                return variant
        if name == "id":
            fault = Fault("/id", "unknown_variant", "no variant of this product has this id")
            raise ValidationFailed("The variant does not exist.", faults=[fault])
    return product.live[0] if not named and len(product.live) == 1 else None


def variant_on_product(product: ProductCopy, row: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The variant whose fields are given on the product itself: the only variant, or the one with the SKU."""
    only = {name: row[name] for name in _OF_THE_ONLY_VARIANT if name in row}
    if not only:
        return []
    if len(product.live) == 1:
        return [{"id": product.live[0].id, **only} if product.live[0].id else only]
    if row.get("sku") is not None and any(variant.fields.sku == row["sku"] for variant in product.live):
        return [only]
    _refuse_ambiguous(only)
    return []


def _refuse_ambiguous(only: Mapping[str, Any]) -> None:
    """Refuse variant fields that name no variant. Stock with `available` is the total of an export and is ignored."""
    stock: Any = only.get("stock")
    is_sum = isinstance(stock, dict) and "available" in stock
    given: dict[str, Any] = {"sku": only.get("sku"), "barcode": only.get("barcode"), "stock": None if is_sum else stock}
    faults = [
        Fault(
            f"/{name}", "unknown_variant", "does not identify a variant: give the sku of one of the product's variants"
        )
        for name, value in given.items()
        if value is not None
    ]
    if faults:
        raise ValidationFailed("The product has several variants. Name one by its sku.", faults=faults)


def _new_variant_row(row: Any) -> Any:
    if not isinstance(row, dict):
        return row  # pyright: ignore[reportUnknownVariableType]
    members: dict[str, Any] = row  # pyright: ignore[reportUnknownVariableType]
    kept = {n: v for n, v in members.items() if n not in _MAINTAINED_OF_VARIANT}
    return {**kept, "stock": on_hand_only(members.get("stock", {}))}


def _new_numbers(images: list[Any]) -> dict[int, int]:
    """The image ids in a new product, by the ids in the source."""
    numbers: dict[int, int] = {}
    for number, image in enumerate(images, 1):
        known = cast("dict[str, Any]", image).get("id") if isinstance(image, dict) else None
        numbers[known if type(known) is int else number] = number
    return numbers


def _with_image(variant: Any, numbers: Mapping[int, int]) -> Any:
    if not isinstance(variant, dict):
        return variant  # pyright: ignore[reportUnknownVariableType]
    members = cast("dict[str, Any]", variant)
    number = members.get("image_id")
    return {**members, "image_id": numbers.get(number, number)} if type(number) is int else members


def on_hand_only(stock: Any) -> Any:
    """Stock without `reserved` and `available`, which follow from orders."""
    if not isinstance(stock, dict):
        return stock  # pyright: ignore[reportUnknownVariableType]
    members: dict[str, Any] = stock  # pyright: ignore[reportUnknownVariableType]
    return {name: value for name, value in members.items() if name not in ("reserved", "available")}


def _new_image(image: Any) -> Any:
    if not isinstance(image, dict):
        return image  # pyright: ignore[reportUnknownVariableType]
    members: dict[str, Any] = image  # pyright: ignore[reportUnknownVariableType]
    return {name: value for name, value in members.items() if name not in _FOUND_OUT_OF_IMAGE}


def _check_currency(row: Mapping[str, Any], store: Store) -> None:
    if row.get("currency", store.currency) != store.currency:
        fault = Fault("/currency", "currency_mismatch", f"must be the store's currency, {store.currency}")
        raise ValidationFailed("The currency differs from the store's currency.", faults=[fault])
