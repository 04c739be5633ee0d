"""The products that a request works on, found by what names them, with SKUs and external ids kept unique among them."""

from collections.abc import Callable, Iterable
from typing import Literal

from stoa.products.contract import ExternalIdTaken, SkuTaken
from stoa.products.copies import ProductCopy, VariantCopy
from stoa.rest.problems import Fault, Refusal

MatchBy = Literal["id", "sku", "external_id"]


class Shelf:
    """Everything loaded or made in one transaction; an edit is tried on a copy and put back only when it is right."""

    def __init__(self, products: Iterable[ProductCopy]) -> None:
        self.products: list[ProductCopy] = []
        self._skus: dict[str, tuple[ProductCopy, VariantCopy]] = {}
        self._external_ids: dict[str, ProductCopy] = {}
        self._variant_external_ids: dict[str, VariantCopy] = {}
        for product in products:
            self._add(product)

    def find(self, by: MatchBy, value: int | str | None) -> ProductCopy | None:
        if by == "sku":
            held = self._skus.get(str(value))
            return held[0] if held else None
        if by == "external_id":
            return self._external_ids.get(str(value))
        return next((product for product in self.products if product.id == value and not product.deleted), None)

    def find_variant(
        self, *, variant_id: int | None = None, sku: str | None = None
    ) -> tuple[ProductCopy, VariantCopy] | None:
        if sku is not None:
            return self._skus.get(sku)
        for product in self.products:
            found = product.variant(variant_id or 0)
            if found is not None:
                return product, found
        return None

    def edit(self, product: ProductCopy, change: Callable[[ProductCopy], bool]) -> bool:
        """Try a change on a copy and say whether it changed anything; when it is refused all is as before."""
        tried = product.copy()
        if not change(tried):
            return False
        self._remove(product)
        try:
            self._check(tried)
        except Refusal:
            self._add(product)
            raise
        product.become(tried)
        self._add(product)
        return True

    def put(self, product: ProductCopy) -> ProductCopy:
        """Add a new product."""
        self._check(product)
        self._add(product)
        return product

    def _check(self, product: ProductCopy) -> None:
        if product.deleted:
            return
        taken: list[Fault] = []
        own: set[str] = set()
        existing: int | None = None
        for place, variant in enumerate(product.live):
            sku = variant.fields["sku"]
            if sku is None:
                continue
            if sku in self._skus or sku in own:
                existing = existing or (self._skus[sku][0].id if sku in self._skus else product.id)
                at = "/sku" if len(product.live) == 1 else f"/variants/{place}/sku"
                taken.append(Fault(at, "sku_taken", "is another variant's SKU", {"sku": sku}))
            own.add(sku)
        if taken:
            raise SkuTaken("A SKU belongs to one variant of the store.", faults=taken, existing_id=existing)
        external_id = product.fields["external_id"]
        if external_id is not None and external_id in self._external_ids:
            raise ExternalIdTaken(
                "Another product has this external id.",
                faults=[Fault("/external_id", "external_id_taken", "is another product's")],
                existing_id=self._external_ids[external_id].id,
            )
        seen: set[str] = set()
        for variant in product.live:
            name = variant.fields["external_id"]
            if name is not None and (name in self._variant_external_ids or name in seen):
                raise ExternalIdTaken("Another variant has this external id.")
            seen |= {name} if name else set()

    def _add(self, product: ProductCopy) -> None:
        self.products.append(product)
        if product.deleted:
            return
        if product.fields["external_id"] is not None:
            self._external_ids[product.fields["external_id"]] = product
        for variant in product.live:
            if variant.fields["sku"] is not None:
                self._skus[variant.fields["sku"]] = (product, variant)
            if variant.fields["external_id"] is not None:
                self._variant_external_ids[variant.fields["external_id"]] = variant

    def _remove(self, product: ProductCopy) -> None:
        self.products.remove(product)
        self._external_ids.pop(product.fields["external_id"], None)
        for variant in product.live:
            self._skus.pop(variant.fields["sku"], None)
            self._variant_external_ids.pop(variant.fields["external_id"], None)
