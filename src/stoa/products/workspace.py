"""The working copies of a request, indexed by their keys; SKUs and external ids stay unique among them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from stoa.products.contract import SkuTaken
from stoa.products.working_copy import ProductCopy, VariantCopy
from stoa.rest.problems import ExternalIdTaken, Fault, Refusal

MatchBy = Literal["id", "sku", "external_id"]
Pointing = Callable[[str, str], str]  # from a field and its value to the JSON pointer in the request


def on_itself(name: str, value: str) -> str:
    """The pointer in a request for a single resource: the field is at the top level."""
    return f"/{name}"


class ProductWorkspace:
    """The products that one transaction loaded or created. An edit is tried on a copy and adopted if it is valid."""

    def __init__(self, products: Iterable[ProductCopy]) -> None:
        self.products: list[ProductCopy] = []
        self._skus: dict[str | None, tuple[ProductCopy, VariantCopy]] = {}
        self._external_ids: dict[str | None, ProductCopy] = {}
        self._variant_external_ids: dict[str | None, VariantCopy] = {}
        self.documents: dict[
            int, dict[str, Any]
        ] = {}  # of variants by id, to compare with read-only fields that a request repeats
        for product in products:
            self._add(product)

    def find(self, by: MatchBy, value: int | str | None) -> ProductCopy | None:
        if by == "sku":
            found = self._skus.get(str(value))
            return found[0] if found else None
        if by == "external_id":
            return self._external_ids.get(str(value))
        return next((product for product in self.products if product.id == value and not product.deleted), None)

    def find_variant(
        self, *, variant_id: int | None = None, sku: str | None = None
    ) -> tuple[ProductCopy, VariantCopy] | None:
        if sku is not None:
            return self._skus.get(sku)
        if variant_id is None:
            return None
        for product in self.products:
            found = product.variant(variant_id)
            if found is not None:
                return product, found
        return None

    def edit(self, product: ProductCopy, change: Callable[[ProductCopy], bool], at: Pointing = on_itself) -> bool:
        """Try a change on a copy, and return whether anything changed. A refused change has no effect."""
        tried = product.copy()
        if not change(tried):
            return False
        self._remove(product)
        try:
            self.check(tried, at)
        except Refusal:
            self._add(product)
            raise
        product.become(tried)
        self._add(product)
        return True

    def put(self, product: ProductCopy, at: Pointing = on_itself) -> ProductCopy:
        """Add a new product."""
        self.check(product, at)
        self._add(product)
        return product

    def check(self, product: ProductCopy, at: Pointing) -> None:
        """Refuse a product with a SKU or external id of another one."""
        if product.deleted:
            return
        faults = list(self._taken_skus(product, at))
        if faults:
            raise SkuTaken(
                "A SKU must be unique among the variants of the store.",
                faults=faults,
                existing_id=_first_existing(faults),
            )
        external_id = product.fields.external_id
        if external_id in self._external_ids:
            meta = _existing(self._external_ids[external_id])
            faults = [Fault("/external_id", ExternalIdTaken.code, "is the external id of another product", meta)]
            raise ExternalIdTaken(
                "Another product has this external id.", faults=faults, existing_id=_first_existing(faults)
            )
        faults = list(self._taken_external_ids(product, at))
        if faults:
            raise ExternalIdTaken(
                "Another variant has this external id.", faults=faults, existing_id=_first_existing(faults)
            )

    def _taken_skus(self, product: ProductCopy, at: Pointing) -> Iterator[Fault]:
        seen: set[str] = set()
        for sku in [variant.fields.sku for variant in product.live if variant.fields.sku is not None]:
            if sku in self._skus or sku in seen:
                holder = self._skus[sku][0] if sku in self._skus else product
                meta = {"sku": sku, **_existing(holder)}
                yield Fault(at("sku", sku), SkuTaken.code, "is the SKU of another variant", meta)
            seen.add(sku)

    def _taken_external_ids(self, product: ProductCopy, at: Pointing) -> Iterator[Fault]:
        seen: dict[str, VariantCopy] = {}
        for variant in product.live:
            name = variant.fields.external_id
            if name is None:
                continue
            holder = self._variant_external_ids.get(name) or seen.get(name)
            if holder is not None:
                meta = _existing(holder)
                yield Fault(
                    at("external_id", name), ExternalIdTaken.code, "is the external id of another variant", meta
                )
            seen[name] = variant

    def _add(self, product: ProductCopy) -> None:
        self.products.append(product)
        if product.deleted:
            return
        if product.fields.external_id is not None:
            self._external_ids[product.fields.external_id] = product
        for variant in product.live:
            if variant.fields.sku is not None:
                self._skus[variant.fields.sku] = (product, variant)
            if variant.fields.external_id is not None:
                self._variant_external_ids[variant.fields.external_id] = variant

    def _remove(self, product: ProductCopy) -> None:
        self.products.remove(product)
        self._external_ids.pop(product.fields.external_id, None)
        for variant in product.live:
            self._skus.pop(variant.fields.sku, None)
            self._variant_external_ids.pop(variant.fields.external_id, None)


def _existing(holder: ProductCopy | VariantCopy) -> dict[str, int]:
    """The id of the existing resource; none for a resource of the same request, which may be saved already."""
    return {} if holder.before is None or holder.id is None else {"existing_id": holder.id}


def _first_existing(faults: list[Fault]) -> int | None:
    return next((fault.meta["existing_id"] for fault in faults if fault.meta and "existing_id" in fault.meta), None)
