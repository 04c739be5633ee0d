"""Medusa beside Stoa: filled by its workflows, served by its REST APIs."""

import asyncio
import secrets
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from decimal import Decimal
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import httpx
import msgspec
from tests.support.nodes import Node

from benchmarks.drive import CannotMeasure, Request
from benchmarks.peers import node
from benchmarks.peers.goods import QUANTITIES, SHIPPING, Order, Product
from benchmarks.peers.sides import PAGE, Checkout, Placed, Read, Seen, Side, post
from benchmarks.services import Service
from benchmarks.trade import ADDRESS
from stoa.db.connection import connect
from stoa.db.embedded import EmbeddedPostgres

HOME = Path(__file__).parent
_CLI = "node_modules/@medusajs/cli/cli.js"
_SHOWN = "id,title,handle,description,metadata,created_at,updated_at"
_LISTED = (
    f"{_SHOWN},status,external_id,tags.value,images.url,options.title,options.values.value,variants.sku,"
    "variants.prices.amount"
)
_ONE = f"{_LISTED},variants.id,variants.title,variants.barcode,variants.options.value,variants.inventory_quantity"
_STORE = f"{_SHOWN},*tags,*images,*options,*options.values,variants.sku,*variants.calculated_price"
_STEPS = "two requests to the Admin API: POST /admin/draft-orders, POST /admin/draft-orders/{id}/convert-to-order"


class Loaded(msgspec.Struct, frozen=True):
    """The ids that requests name, and the publishable key of the sales channel."""

    channel: str
    region: str
    shipping: str
    key: str


@contextmanager
def running(folder: Path, products: Sequence[Product], workers: int) -> Generator[Side, None, None]:
    """Load the products into a new database and serve it."""
    folder.mkdir(mode=0o711)
    server = EmbeddedPostgres(folder / "postgres")
    password = secrets.token_hex(16)
    settings = {
        "DATABASE_URL": node.database_url(server.dsn),
        "ADMIN_PASSWORD": password,
        "JWT_SECRET": secrets.token_hex(16),
        "COOKIE_SECRET": secrets.token_hex(16),
        "LOG_LEVEL": "warn",
    }
    catalog, loaded, log = folder / "catalog.json", folder / "loaded.json", folder / "load.log"
    catalog.write_bytes(msgspec.json.encode(products))
    with EmbeddedPostgres(folder / "postgres", durable=False):  # only while it is loaded
        node.run(HOME, [_CLI, "db:migrate"], settings, log)
        node.run(HOME, [_CLI, "exec", "./load.js", str(catalog), str(loaded)], settings, log)
        asyncio.run(_analyze(server.dsn))
    ids = msgspec.json.decode(loaded.read_bytes(), type=Loaded)
    with server, node.serving(HOME, settings, workers, folder / "serve.log") as service:
        database = asyncio.run(Node.of(server.dsn, "Medusa"))
        admin = {"Authorization": f"Bearer {_log_in(service, password)}"}
        name = f"Medusa {node.version(HOME, '@medusajs/medusa')}"
        yield Side(name, service, database, reads(products, ids, admin), Checkout(_placing(ids, admin), _STEPS))


async def _analyze(dsn: str) -> None:
    db = await connect(dsn, statement_timeout_ms=0)
    try:
        await db.execute("VACUUM ANALYZE")
    finally:
        await db.close()


def _log_in(service: Service, password: str) -> str:
    secret = {"email": "admin@example.com", "password": password}
    answer = httpx.post(f"{service.origin}/auth/user/emailpass", json=secret, timeout=60)
    if answer.status_code != 200:
        raise CannotMeasure(f"Medusa: no token: {answer.status_code} {answer.text[:500]}")
    return answer.json()["token"]


def reads(products: Sequence[Product], ids: Loaded, admin: dict[str, str]) -> dict[str, Read]:
    store = f"/store/products?limit={PAGE}&region_id={ids.region}&fields={_STORE}"
    first, last = products[0].number, products[-1].number
    return {
        "listing": Read(
            Request(f"/admin/products?limit={PAGE}&order=id&fields={_LISTED}", headers=admin),
            _listed,
            "Admin API, `GET /admin/products` with the prices of the variants",
        ),
        "listing-shop": Read(
            Request(store, headers={"x-publishable-api-key": ids.key}),
            _sold,
            "Store API, `GET /store/products` with calculated prices, cached",
        ),
        "one": Read(
            Request(f"/admin/products/prod_%d?fields={_ONE}", first_id=first, last_id=last, headers=admin),
            lambda answer: (None, [_seen(answer["product"])]),
            "Admin API, `GET /admin/products/{id}`",
        ),
    }


def _listed(answer: Any) -> tuple[int | None, list[Seen]]:
    return answer["count"], [_seen(product) for product in answer["products"]]


def _seen(product: Any) -> Seen:
    prices = (price["amount"] for variant in product["variants"] for price in variant["prices"])
    return Seen(product["title"], {_money(price) for price in prices})


def _sold(answer: Any) -> tuple[int | None, list[Seen]]:
    return answer["count"], [
        Seen(
            product["title"],
            {_money(variant["calculated_price"]["calculated_amount"]) for variant in product["variants"]},
        )
        for product in answer["products"]
    ]


def _money(amount: float) -> Decimal:
    return Decimal(str(amount)).quantize(Decimal("0.01"))


def _placing(ids: Loaded, admin: dict[str, str]) -> Callable[[HTTPConnection, Order], Placed]:
    address = {
        "first_name": ADDRESS["first_name"],
        "last_name": ADDRESS["last_name"],
        "address_1": ADDRESS["address1"],
        "city": ADDRESS["city"],
        "postal_code": ADDRESS["postal_code"],
        "country_code": ADDRESS["country_code"].lower(),
    }

    def place(connection: HTTPConnection, order: Order) -> Placed:
        draft = {
            "email": f"new-{order.key}@example.com",
            "region_id": ids.region,
            "sales_channel_id": ids.channel,
            "shipping_address": address,
            "items": [
                {"variant_id": f"variant_{product.number}_1", "quantity": count}
                for product, count in zip(order.products, QUANTITIES, strict=True)
            ],
            "shipping_methods": [
                {"shipping_option_id": ids.shipping, "name": "Standard", "amount": float(SHIPPING)},
            ],
            "metadata": {"channel": "web"},
        }
        path = "/admin/draft-orders"
        made = post(connection, f"{path}?fields=id", msgspec.json.encode(draft), admin)["draft_order"]["id"]
        shown = "id,status,total,items.quantity"
        placed = post(connection, f"{path}/{made}/convert-to-order?fields={shown}", b"{}", admin)["order"]
        if placed["status"] != "pending":
            raise CannotMeasure(f"Medusa did not place an order: {placed}")
        return Placed([item["quantity"] for item in placed["items"]], _money(placed["total"]))

    return place
