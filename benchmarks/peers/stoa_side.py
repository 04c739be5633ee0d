"""Stoa, with the store whose products the others get."""

import asyncio
import secrets
from collections.abc import Callable, Generator
from contextlib import contextmanager
from decimal import Decimal
from http.client import HTTPConnection
from importlib.metadata import version
from pathlib import Path
from typing import Any

from tests.support.nodes import Node

from benchmarks import catalog, measures, services, writes
from benchmarks.apps import get_token, register
from benchmarks.catalog import Loaded
from benchmarks.drive import NUMBER
from benchmarks.measures import Access
from benchmarks.peers import goods
from benchmarks.peers.goods import Order, Product
from benchmarks.peers.sides import Checkout, Placed, Read, Seen, Side, post
from stoa.access.contract import NewSecret
from stoa.db.connection import connect
from stoa.db.embedded import EmbeddedPostgres
from stoa.db.migrate import migrate
from stoa.rest.dispatch import PREFIX
from stoa.settings import Settings, load

NAME = f"Stoa {version('stoa-commerce')}"


@contextmanager
def running(folder: Path, products: int, workers: int) -> Generator[tuple[Side, list[Product]], None, None]:
    """Load a store with products and serve it; yields the products too."""
    folder.mkdir(mode=0o711)
    server = EmbeddedPostgres(folder / "postgres")
    key = secrets.token_hex(32)
    settings = load({}, database_url=server.dsn, secret_key=key, metrics="off", access_log=False)
    with server:
        store, app = asyncio.run(_load(settings, products))
    with server, services.stoa(server.dsn, folder, workers=workers, secret_key=key) as service:
        access = Access(app, get_token(service, app))
        sold = goods.read(f"{service.origin}/stores/{store.handle}{PREFIX}", access.token)
        database = asyncio.run(Node.of(server.dsn, NAME))
        checkout = Checkout(_placing(store, access), "one request: `POST /orders`")
        yield Side(NAME, service, database, reads(store, access), checkout), sold


async def _load(settings: Settings, products: int) -> tuple[Loaded, NewSecret]:
    await migrate(settings.database_url)
    db = await connect(settings.database_url, statement_timeout_ms=0)
    try:
        [store] = await catalog.load_stores(db, ["shop"], products)
        app = await register(settings, store.handle)
        await writes.prepare(db, store, baseline=False)
        await db.execute("VACUUM ANALYZE")
    finally:
        await db.close()
    return store, app


def reads(store: Loaded, access: Access) -> dict[str, Read]:
    rows = {row.name: row.request for row in measures.of_large_store(store, access)}
    listing = Read(rows["listing"], _listed, "`GET /products`, also for the row of the shop")
    return {
        "listing": listing,
        "listing-shop": listing,
        "one": Read(rows["one"], lambda answer: (None, [_one(answer["data"])]), "`GET /products/{id}`"),
    }


def _listed(answer: Any) -> tuple[int | None, list[Seen]]:
    return answer["meta"]["total"], [Seen(each["name"], {Decimal(each["price"])}) for each in answer["data"]]


def _one(product: Any) -> Seen:
    return Seen(product["name"], {Decimal(variant["effective_price"]) for variant in product["variants"]})


def _placing(store: Loaded, access: Access) -> Callable[[HTTPConnection, Order], Placed]:
    request = writes.post(store, access, "/orders", writes.NEW_ORDER)

    def place(connection: HTTPConnection, order: Order) -> Placed:
        body = request.body.replace(NUMBER, order.key)
        for name, product in zip(("%d", "%e", "%f"), order.products, strict=True):
            body = body.replace(name, str(product.number))
        headers = {name: value.replace(NUMBER, order.key) for name, value in request.headers.items()}
        placed = post(connection, request.path, body.encode(), headers)["data"]
        return Placed([line["quantity"] for line in placed["line_items"]], Decimal(placed["total"]))

    return place
