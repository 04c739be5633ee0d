"""Fills a sample store once from its catalog: products, customers, locations, and a past of orders."""

from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.resources import files
from typing import Any
from zoneinfo import ZoneInfo

import msgspec

from stoa.access.contract import StoreRow
from stoa.access.definitions import with_definitions
from stoa.access.operator import Operator
from stoa.access.queries import STORE_BY_HANDLE
from stoa.access.stores import create_store
from stoa.customers.bodies import NewCustomer
from stoa.customers.rules import new_customer
from stoa.customers.save import save as save_customers
from stoa.db.query import Executor
from stoa.demo.backdating import backdate
from stoa.demo.past import Past
from stoa.demo.pictures import keep_pictures
from stoa.demo.sales import Cast, move_old_orders, play
from stoa.demo.story import OPENED, Market, Sold, Step, generated, told
from stoa.events.outbox import Actor, Cause
from stoa.inventory.locations import add_location
from stoa.inventory.queries import Move, move_stock
from stoa.products.bodies import NewProduct
from stoa.products.collection_changes import Details, create_collection
from stoa.products.collections import Match
from stoa.products.input_rows import Booking
from stoa.products.rules import new_product
from stoa.products.save import save
from stoa.rest.body import convert, parse
from stoa.rest.call import Store
from stoa.store_data.definitions import define, read_definitions


class NewStore(msgspec.Struct):
    handle: str
    name: str
    currency: str
    timezone: str
    locale: str
    prices_include_tax: bool = False


class NewCollection(msgspec.Struct):
    handle: str
    title: str
    description: str | None = None
    rules: list[tuple[str, str]] = []
    match: Match = "all"
    picture: str | None = None  # the address of a product's image


class NewLocation(msgspec.Struct):
    code: str
    name: str
    address: str
    priority: int
    stock: dict[str, int]  # the units that it holds, by SKU


class Sales(msgspec.Struct):
    """The generated sales of a catalog: orders a day at least, and how often each SKU is bought."""

    per_day: int
    skus: dict[str, int]


async def open_sample_store(by: Operator, catalog: str) -> StoreRow | None:
    """Create the store of a catalog, without content; None if it exists."""
    wanted = msgspec.convert(_read(catalog)["store"], NewStore)
    if await STORE_BY_HANDLE.maybe(by.db, wanted.handle) is not None:
        return None
    return await create_store(
        by,
        wanted.handle,
        wanted.name,
        wanted.currency,
        prices_include_tax=wanted.prices_include_tax,
        timezone=wanted.timezone,
        locale=wanted.locale,
    )


async def define_samples(operator: Operator, handle: str, catalog: str) -> None:
    """Define the keys of metadata that a catalog uses, in the directory, before the store is filled."""
    for each in read_definitions(_read(catalog).get("metadata_definitions", []), of_app=False):
        await define(operator, handle, each)


async def fill(operator: Operator, handle: str, catalog: str, past: Past, cast: Cast | None = None) -> None:
    """Fill an empty store with a catalog's products, customers and orders, for the demo and for development stores.

    Without a cast the store has no generated sales, because somebody waits for the page that creates it."""
    document, now = _read(catalog), datetime.now(UTC)
    await past.travel(operator.db, now - OPENED)
    store = await with_definitions(operator.db, await STORE_BY_HANDLE.one(operator.db, handle), None)
    products = [convert(each, NewProduct, digits=store.digits) for each in document["products"]]
    pictures = await keep_pictures(operator, store.id, [image.url for each in products for image in each.images])
    for each in msgspec.convert(document.get("collections", []), list[NewCollection]):
        picture = pictures[each.picture].url if each.picture else None
        await create_collection(
            operator, handle, each.handle, Details(each.title, each.description, picture, each.rules, each.match)
        )
    store = msgspec.structs.replace(store, pictures=pictures)
    async with operator.db.transaction() as db:
        cause, booking = Cause(None, operator.request_id), Booking(reason="restock", reference="opening stock")
        await save(db, store.id, [new_product(product, store) for product in products], cause, booking)
        if "people" in document:
            await _add_customers(db, store, document["people"], operator.request_id)
    for location in msgspec.convert(document.get("locations", []), list[NewLocation]):
        await _open_location(operator, store, location)
    orders = _read(document["orders"])
    await move_old_orders(operator, store, orders.get("moved", []), past)
    await play(
        operator, store, _steps(document, orders["orders"], store, now, quiet=cast is None), cast or Cast(), past
    )
    await past.return_to_present(operator.db)
    await backdate(operator.db, store.id, past)


def _steps(
    document: Mapping[str, Any], orders: list[dict[str, Any]], store: Store, now: datetime, *, quiet: bool
) -> list[Step]:
    """What happened in a store: the orders of its file, and the generated sales of the last weeks."""
    steps = told(orders, now)
    if "sales" in document and not quiet:
        sales = msgspec.convert(document["sales"], Sales)
        buyers = {
            order["customer"]["email"]: {
                name: order[name] for name in ("customer", "shipping_address") if name in order
            }
            for order in orders
        }
        bought = [(step.body["customer"]["email"], step.at) for step in steps if "customer" in step.body]
        variants = [Sold(sku, weight) for sku, weight in sales.skus.items()]
        steps += generated(Market(sales.per_day, variants, buyers, bought), len(orders), ZoneInfo(store.timezone), now)
    return steps


def _read(name: str) -> dict[str, Any]:
    return parse((files("stoa.demo") / name).read_bytes())


async def _open_location(operator: Operator, store: Store, new: NewLocation) -> None:
    """Add a location and move stock to it from the default one."""
    await add_location(operator, store.handle, new.code, new.name, new.address, new.priority)
    moves = [
        Move(sku=sku, kind="transfer", to_location=new.code, on_hand=units, reason="other", reference="opening stock")
        for sku, units in new.stock.items()
    ]
    async with operator.db.transaction() as db:
        actor, request_id = Actor("operator"), operator.request_id
        await move_stock(db, store.id, moves, atomic=True, actor=actor, request_id=request_id)


async def _add_customers(db: Executor, store: Store, people: str, request_id: str) -> None:
    """Add the customers of a file to an empty store."""
    document = _read(people)
    bodies = [convert(each, NewCustomer, digits=store.digits) for each in document["customers"]]
    customers = [
        new_customer(body, each.get("metadata", {}), None, store.definitions)
        for body, each in zip(bodies, document["customers"], strict=True)
    ]
    await save_customers(db, store.id, store.digits, customers, Cause(None, request_id))
