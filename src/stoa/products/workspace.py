"""The products that a request works on, found by what names them, with SKUs and external ids kept unique among them."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal

from stoa.products.contract import SkuTaken
from stoa.products.working_copy import ProductCopy, VariantCopy
from stoa.rest.problems import ExternalIdTaken, Fault, Refusal

MatchBy = Literal["id", "sku", "external_id"]
Pointing = Callable[[str, str], str]  # from a field and its value to where a request says it


def on_itself(name: str, value: str) -> str:
    """In a request that is about one resource, a field stands at its top."""
    return f"/{name}"


class ProductWorkspace:
    """Everything loaded or made in one transaction; an edit is tried on a copy and put back only when it is right."""

    def __init__(self, products: Iterable[ProductCopy]) -> None:
        self.products: list[ProductCopy] = []
        self._skus: dict[str, tuple[ProductCopy, VariantCopy]] = {}
        self._external_ids: dict[str, ProductCopy] = {}
        self._variant_external_ids: dict[str, VariantCopy] = {}
        self.documents: dict[int, dict[str, Any]] = {}  # of variants, as those know them who send them back
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

    def edit(self, product: ProductCopy, change: Callable[[ProductCopy], bool], at: Pointing = on_itself) -> bool:
        """Try a change on a copy and say whether it changed anything; when it is refused all is as before."""
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
        """Refuse a product that takes what is another's."""
        if product.deleted:
            return
        faults = list(self._taken_skus(product, at))
        if faults:
            raise SkuTaken(
                "A SKU belongs to one variant of the store.", faults=faults, existing_id=_first_existing(faults)
            )
        external_id = product.fields["external_id"]
        if external_id in self._external_ids:
            meta = _existing(self._external_ids[external_id].id)
            faults = [Fault("/external_id", ExternalIdTaken.code, "is another product's", meta)]
            raise ExternalIdTaken(
                "Another product has this external id.", faults=faults, existing_id=_first_existing(faults)
            )
        faults = list(self._taken_external_ids(product, at))
        if faults:
            raise ExternalIdTaken(
                "Another variant has this external id.", faults=faults, existing_id=_first_existing(faults)
            )

    def _taken_skus(self, product: ProductCopy, at: Pointing) -> Iterator[Fault]:
        own: set[str] = set()
        for sku in [variant.fields["sku"] for variant in product.live if variant.fields["sku"] is not None]:
            if sku in self._skus or sku in own:
                holder = self._skus[sku][0] if sku in self._skus else product
                meta = {"sku": sku, **_existing(holder.id)}
                yield Fault(at("sku", sku), SkuTaken.code, "is another variant's SKU", meta)
            own.add(sku)

    def _taken_external_ids(self, product: ProductCopy, at: Pointing) -> Iterator[Fault]:
        own: dict[str, VariantCopy] = {}
        for variant in [variant for variant in product.live if variant.fields["external_id"] is not None]:
            name = variant.fields["external_id"]
            holder = self._variant_external_ids.get(name) or own.get(name)
            if holder is not None:
                meta = _existing(holder.id)
                yield Fault(at("external_id", name), ExternalIdTaken.code, "is another variant's", meta)
            own[name] = variant

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


def _existing(known: int | None) -> dict[str, int]:
    """The id of who has it already; one that comes with the same request has none yet."""
    return {} if known is None else {"existing_id": known}


def _first_existing(faults: list[Fault]) -> int | None:
    return next((fault.meta["existing_id"] for fault in faults if fault.meta and "existing_id" in fault.meta), None)
