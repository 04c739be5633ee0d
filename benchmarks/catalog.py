"""Fills a database with catalogs: one large store among many smaller ones."""

import random
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import msgspec

from stoa.db.connection import Connection
from stoa.products.bodies import NewImage, NewProduct, NewStock, NewVariant
from stoa.products.contract import Option, Seo
from stoa.products.input_rows import product_row, variant_row
from stoa.products.rules import new_product
from stoa.rest.call import Store

STORES = 200
LARGE_STORE_PRODUCTS = 10_000
MILLION = 1_000_000
INSTALLATIONS = 10_000
CLIENT_HANDLE = "client-"  # the handles of the stores in an app's list begin with it
MANY_STORES, PAGE = 2_000, 50
_LARGE_STORE_INDEX = 100  # neither first nor last in the tables
_BEGINNING = datetime(2024, 1, 1, tzinfo=UTC)
_BATCH = 5_000

_ADJECTIVES = "Plain Washed Heavy Soft Striped Woven Brushed Organic Classic Everyday Slim Relaxed".split()
_MATERIALS = "linen cotton wool oak walnut steel ceramic glass leather cork bamboo hemp".split()
_THINGS = "Shirt Apron Blanket Bowl Chair Lamp Notebook Pillow Rug Scarf Shelf Towel Tray Vase".split()
_BRANDS = ["Arden & Co", "Fjord", "Halden", "Kiln Street", "Marlowe", "Norrland", "Piet", "Östra", "Tallis"]
_CATEGORIES = ["Home/Kitchen", "Home/Living", "Home/Bedroom", "Clothing/Women", "Clothing/Men", "Office"]
_TAGS = "summer winter new sale gift outdoor handmade vegan bestseller limited refill set".split()
_SENTENCES = (  # real shops use dashes and apostrophes outside ASCII
    "Made in small batches by people who have done little else for thirty years.",
    "It gets softer with every wash – and keeps its color in the sun.",  # noqa: RUF001
    "The edges are finished by hand, which is why no two of them are quite alike.",
    "We ship it folded in recycled paper, without a plastic bag anywhere.",
    "Care for it with cold water and a little patience; it will repay both.",
    "A plain thing, well made, that does not ask for attention and gets it all the same.",
    "Measure twice before you order: you’ll find the larger size generous.",  # noqa: RUF001
)
_SIZES = ["Small", "Medium", "Large", "Extra large"]


class Loaded(msgspec.Struct, frozen=True):
    """A measured store, and the range of its product ids."""

    store_id: int
    handle: str
    first_id: int
    last_id: int

    @property
    def products(self) -> int:
        return self.last_id - self.first_id + 1


def _sample_product(random_: random.Random, number: int) -> NewProduct:
    material, thing = random_.choice(_MATERIALS), random_.choice(_THINGS)
    name = f"{random_.choice(_ADJECTIVES)} {material} {thing} {number}"
    sizes = _SIZES[: random_.randint(1, 4)]
    return NewProduct(
        name=name,
        price=Decimal(random_.randint(500, 30_000)) / 100,
        external_id=f"erp-{number}",
        description=" ".join(random_.sample(_SENTENCES, 3)) + f" Number {number} of our {material} series.",
        status="active" if random_.random() < 0.9 else "draft",
        compare_at_price=Decimal(random_.randint(30_000, 40_000)) / 100 if random_.random() < 0.3 else None,
        brand=random_.choice(_BRANDS),
        category=random_.choice(_CATEGORIES),
        tags=sorted(random_.sample(_TAGS, 3)),
        images=[
            NewImage(url=f"https://images.example.com/{number}/{view}.jpg", alt=f"{name}, seen from the {view}")
            for view in ("front", "side")
        ],
        options=[Option(name="Size", values=sizes)],
        variants=[
            NewVariant(
                option_values={"Size": size},
                sku=f"SKU-{number}-{position}",
                barcode=f"40{number:08}{position:03}",
                price=Decimal(random_.randint(500, 30_000)) / 100 if position > 2 else None,
                weight=Decimal("0.25") * position,
                metadata={"shelf": f"A{number % 90}"},
                stock=NewStock(on_hand=random_.randint(0, 80)),
            )
            for position, size in enumerate(sizes, 1)
        ],
        weight=Decimal(random_.randint(100, 4_000)) / 1000,
        seo=Seo(title=f"{name} | buy online", description=f"{name}: delivered in two days, returned for free."),
        metadata={"material": material, "season": random_.choice(("spring", "autumn")), "pieces": number % 7},
    )


_PRODUCT_COLUMNS = "store_id id external_id slug name status price on_hand reserved in_stock created_at updated_at head edition".split()
_VARIANT_COLUMNS = (
    "store_id id product_id position sku barcode external_id options_key price on_hand track_inventory "
    "allow_backorder low_stock_threshold created_at updated_at head edition"
).split()

# COPY cannot write a tsvector in binary, so rows pass through a stage where terms are plain text. A value that the stage compressed
# would stay compressed in `products`, which keeps rows of this size as they are.
_STAGE = f"""CREATE TEMPORARY TABLE stage WITH (toast_tuple_target = 4080) AS SELECT {", ".join(_PRODUCT_COLUMNS)}, NULL::text AS terms
               FROM products WITH NO DATA"""
_FROM_STAGE = f"""INSERT INTO products ({", ".join(_PRODUCT_COLUMNS)})
                  SELECT {", ".join(_PRODUCT_COLUMNS)} FROM stage ORDER BY id"""


_TERMS_FROM_STAGE = """INSERT INTO product_terms (store_id, product_id, terms)
                       SELECT store_id, id, terms::tsvector FROM stage ORDER BY id"""


async def load(db: Connection) -> Loaded:
    """Load every store with its products; returns the large one."""
    random_ = random.Random(1)  # the same catalog in every run
    # On a busy machine, making the next rows takes longer than a transaction may idle.
    await db.execute("SET idle_in_transaction_session_timeout = 0")
    await db.execute("BEGIN")  # one commit instead of hundreds
    await db.execute(_STAGE)
    large: Loaded | None = None
    number = 0
    for index in range(1, STORES + 1):
        is_large = index == _LARGE_STORE_INDEX
        handle = "large" if is_large else f"store-{index}"
        store = await _add_store(db, handle)
        first = number + 1
        number += LARGE_STORE_PRODUCTS if is_large else random_.randint(50, 200)
        await _add_products(db, random_, store, range(first, number + 1))
        if is_large:
            large = Loaded(store.id, handle, first, number)
    if large is None:
        raise RuntimeError("the large store was not loaded")
    await db.execute(f"SELECT setval('product_ids', {number}), setval('variant_ids', {number * 10})")
    await db.execute("COMMIT")
    await db.execute("VACUUM ANALYZE")
    return large


async def load_stores(db: Connection, handles: Sequence[str], products: int) -> list[Loaded]:
    """Load stores of the same size, and no others."""
    random_ = random.Random(1)
    await db.execute("SET idle_in_transaction_session_timeout = 0")
    await db.execute("BEGIN")
    await db.execute(_STAGE)
    loaded: list[Loaded] = []
    for index, handle in enumerate(handles):
        store, first = await _add_store(db, handle), index * products + 1
        await _add_products(db, random_, store, range(first, first + products))
        loaded.append(Loaded(store.id, handle, first, first + products - 1))
    last = len(handles) * products
    await db.execute(f"SELECT setval('product_ids', {last}), setval('variant_ids', {last * 10})")
    await db.execute("COMMIT")
    await db.execute("VACUUM ANALYZE")
    return loaded


async def install_everywhere(db: Connection, app_id: int) -> None:
    """Install an app on as many stores as its list of installations is measured with; `fill_stores` gives some of them products."""
    await db.execute(
        f"""WITH added AS (
               INSERT INTO stores (handle, name, currency)
               SELECT '{CLIENT_HANDLE}' || n, 'Client ' || n, 'USD' FROM generate_series(1, $2::integer) AS n RETURNING id)
           INSERT INTO installations (store_id, app_id, scopes) SELECT id, $1, '{{products:read,orders:read}}' FROM added""",
        app_id,
        INSTALLATIONS,
    )


async def fill_stores(db: Connection, large: Loaded) -> None:
    """Give the first stores of an app's list as many products as a page has."""
    await db.execute(
        f"""INSERT INTO products ({", ".join(_PRODUCT_COLUMNS)})
            SELECT s.id, nextval('product_ids'), {", ".join(f"p.{name}" for name in _PRODUCT_COLUMNS[2:])}
              FROM (SELECT id FROM stores WHERE handle LIKE '{CLIENT_HANDLE}%' ORDER BY id LIMIT $1) s
                   CROSS JOIN products p
             WHERE p.store_id = $2 AND p.id < $3::bigint + $4::bigint
             ORDER BY s.id, p.id""",
        MANY_STORES,
        large.store_id,
        large.first_id,
        PAGE,
    )
    await db.execute(
        f"""INSERT INTO row_counts (store_id, resource, delta)
            SELECT id, 'products', $1 FROM stores WHERE handle LIKE '{CLIENT_HANDLE}%' ORDER BY id LIMIT $2""",
        PAGE,
        MANY_STORES,
    )


async def _add_store(db: Connection, handle: str) -> Store:
    rows = await db.fetch(
        "INSERT INTO stores (handle, name, currency) VALUES ($1, $2, 'USD') RETURNING id", handle, handle.title()
    )
    return Store(rows[0][0], handle, handle.title(), "USD", "active")


async def _add_products(db: Connection, random_: random.Random, store: Store, ids: range) -> None:
    for start in range(ids.start, ids.stop, _BATCH):
        rows = list(_rows(random_, store, range(start, min(start + _BATCH, ids.stop))))
        await db.execute("TRUNCATE stage")
        products = [product for product, _ in rows]
        await db.copy_records_to_table("stage", records=products, columns=[*_PRODUCT_COLUMNS, "terms"])
        await db.execute(_FROM_STAGE)
        await db.execute(_TERMS_FROM_STAGE)
        variants = [variant for _, members in rows for variant in members]
        await db.copy_records_to_table("variants", records=variants, columns=_VARIANT_COLUMNS)
    await _count(db, store.id, len(ids))


async def _count(db: Connection, store_id: int, products: int) -> None:
    await db.execute(
        "INSERT INTO row_counts (store_id, resource, delta) VALUES ($1, 'products', $2)", store_id, products
    )


def _rows(random_: random.Random, store: Store, ids: range) -> Iterator[tuple[Sequence[Any], Sequence[Sequence[Any]]]]:
    for number in ids:
        product = new_product(_sample_product(random_, number), store)
        row = product_row(product, 1, store.id)
        created = _BEGINNING + timedelta(minutes=number, microseconds=1 + number * 7 % 999_999)
        updated = created + timedelta(days=random_.randint(0, 90), seconds=7)
        state = (row.price, row.on_hand, row.reserved, row.in_stock, created, updated)
        members = [
            (store.id, number * 10 + v.position, number, v.position, v.sku, v.barcode, v.external_id, v.options_key,
             v.price, v.on_hand, v.track_inventory, v.allow_backorder, v.low_stock_threshold, created, updated, v.head,
             v.edition)
            for v in (variant_row(variant, n, 1) for n, variant in enumerate(product.live, 1))
        ]  # fmt: skip
        columns = (
            store.id,
            number,
            row.external_id,
            row.slug,
            row.name,
            row.status,
            *state,
            row.head,
            row.edition,
            row.terms,
        )
        yield columns, members


PLACES = ("east", "north", "south", "west")  # besides the default location, and before it
_COPIED = ", ".join(f"{name}" for name in _PRODUCT_COLUMNS[2:])
_COPIED_VARIANTS = ", ".join(_VARIANT_COLUMNS[5:])


async def load_places(db: Connection, large: Loaded, units: int) -> Loaded:
    """Add a copy of the large store whose stock is at five locations."""
    store = await _add_store(db, "places")
    shift = (await db.fetch("SELECT max(id) FROM products"))[0][0]
    await db.execute(
        f"""INSERT INTO products (store_id, id, {_COPIED}) SELECT $1::bigint, id + $2::bigint, {_COPIED}
              FROM products WHERE store_id = $3""",
        store.id,
        shift,
        large.store_id,
    )
    await db.execute(
        f"""INSERT INTO variants (store_id, id, product_id, position, sku, {_COPIED_VARIANTS}, other_on_hand)
            SELECT $1::bigint, id + 10 * $2::bigint, product_id + $2, position, 'SKU-' || product_id + $2 || '-' || position,
                   {_COPIED_VARIANTS.replace("on_hand", "5 * $4::bigint")}, 4 * $4
              FROM variants WHERE store_id = $3""",
        store.id,
        shift,
        large.store_id,
        units,
    )
    await db.execute(
        """INSERT INTO locations (store_id, code, name, priority)
           SELECT $1::bigint, code, code, n FROM unnest($2::text[]) WITH ORDINALITY AS t (code, n)""",
        store.id,
        [*PLACES, "default"],
    )
    await db.execute(
        """INSERT INTO stock_levels (store_id, variant_id, location, on_hand, reserved)
           SELECT store_id, id, code, $3::bigint, 0 FROM variants, unnest($2::text[]) AS t (code) WHERE store_id = $1""",
        store.id,
        list(PLACES),
        units,
    )
    await db.execute(f"SELECT setval('product_ids', {2 * shift}), setval('variant_ids', {20 * shift})")
    await _count(db, store.id, large.products)
    return Loaded(store.id, store.handle, large.first_id + shift, large.last_id + shift)


# Copies of the large store's products, made in the database, so that pages of both stores have the same size.
# They get few terms: no measured page reads them, and indexing them would take most of the time.
_MULTIPLY = f"""
INSERT INTO products ({", ".join(_PRODUCT_COLUMNS)})
SELECT $1::bigint, $2::bigint + n, 'copy-' || n, slug || '-' || n, name || ' ' || n, status, price, on_hand, reserved, in_stock,
       created_at + n * interval '1 minute', updated_at + n * interval '1 minute', head, edition
  FROM generate_series(0, $3::bigint - 1) n
       JOIN products template ON template.store_id = $4 AND template.id = $5::bigint + n % $6::bigint
 ORDER BY n"""


async def load_million(db: Connection, large: Loaded) -> Loaded:
    """Add a store with a million products, without variants, because its pages do not read them."""
    store = await _add_store(db, "million")
    first = (await db.fetch("SELECT nextval('product_ids')"))[0][0] + 1
    await db.execute(_MULTIPLY, store.id, first, MILLION, large.store_id, large.first_id, large.products)
    await db.execute(
        """INSERT INTO product_terms (store_id, product_id, terms)
           SELECT store_id, id, array_to_tsvector(ARRAY[$1::bigint || '/w/copy']) FROM products WHERE store_id = $1""",
        store.id,
    )
    await _count(db, store.id, MILLION)
    await db.execute("VACUUM ANALYZE products, product_terms")
    return Loaded(store.id, store.handle, first, first + MILLION - 1)
