"""The products that every platform sells, read from Stoa, and the orders for them."""

import random
from collections.abc import Iterator, Sequence
from decimal import Decimal

import httpx
import msgspec

from benchmarks.drive import CannotMeasure
from benchmarks.writes import ENDLESS

SHIPPING = Decimal("4.90")
QUANTITIES = (2, 1, 1)


class Variant(msgspec.Struct, frozen=True):
    sku: str
    barcode: str
    size: str
    price: Decimal


class Product(msgspec.Struct, frozen=True):
    number: int
    name: str
    slug: str
    description: str
    status: str
    brand: str
    category: str
    tags: list[str]
    images: list[str]
    variants: list[Variant]
    units: int = ENDLESS  # in stock of each variant


class Order(msgspec.Struct, frozen=True):
    """An order for the first variants of three products."""

    key: str  # unique
    products: list[Product]

    @property
    def total(self) -> Decimal:
        return SHIPPING + sum(
            (product.variants[0].price * count for product, count in zip(self.products, QUANTITIES, strict=True)),
            Decimal(0),
        )


class _Page(msgspec.Struct):
    class Meta(msgspec.Struct):
        next_cursor: str | None

    class Row(msgspec.Struct):
        class Image(msgspec.Struct):
            url: str

        class RowVariant(msgspec.Struct):
            sku: str
            barcode: str
            option_values: dict[str, str]
            effective_price: Decimal

        id: int
        name: str
        slug: str
        description: str
        status: str
        brand: str
        category: str
        tags: list[str]
        images: list[Image]
        variants: list[RowVariant]

    data: list[Row]
    meta: Meta


def read(address: str, token: str) -> list[Product]:
    """Every product of a store with its variants, by Stoa's own API."""
    found: list[Product] = []
    cursor: str | None = ""
    while cursor is not None:
        answer = httpx.get(
            f"{address}/products",
            params={"limit": 250, "include": "variants", **({"cursor": cursor} if cursor else {})},
            headers={"Authorization": f"Bearer {token}"},
            timeout=60,
        )
        if answer.status_code != 200:
            raise CannotMeasure(f"the products of Stoa: {answer.status_code} {answer.text[:500]}")
        page = msgspec.json.decode(answer.content, type=_Page, strict=False)
        found += map(_product, page.data)
        cursor = page.meta.next_cursor
    return found


def _product(row: _Page.Row) -> Product:
    variants = [
        Variant(variant.sku, variant.barcode, variant.option_values["Size"], variant.effective_price)
        for variant in row.variants
    ]
    about = (row.name, row.slug, row.description, row.status, row.brand, row.category, row.tags)
    return Product(row.id, *about, [image.url for image in row.images], variants)


def orders(products: Sequence[Product], seed: int) -> Iterator[Order]:
    """Endless orders for products that are for sale, as requests.lua chooses them."""
    random_ = random.Random(seed)
    sold = [product for product in products if product.status == "active"]
    third = len(sold) // 3
    while True:
        first = random_.randrange(len(sold))
        yield Order(
            f"{random_.randrange(10**17, 10**18)}",
            [sold[(first + third * n) % len(sold)] for n in range(len(QUANTITIES))],
        )
