"""Stores for tests, created as by an operator and called as by an app."""

import asyncio
import itertools
import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from typing import Any, cast

import httpx

from stoa.access.apps import create_app
from stoa.access.contract import SCOPES
from stoa.access.grants import install
from stoa.access.operator import Operator
from stoa.access.stores import create_store
from stoa.app import Application
from stoa.background import RECEIVERS
from stoa.db.directory_outbox import collect
from stoa.db.fan_out import Everywhere
from stoa.db.pool import Database
from stoa.db.shards import Shards
from stoa.events.outbox import Cause
from stoa.products.bodies import NewProduct
from stoa.products.rules import new_product
from stoa.products.save import save
from stoa.rest.body import convert
from stoa.rest.call import Store
from stoa.settings import Settings
from tests.support.databases import directory_of, sharded_runs
from tests.support.pointers import check_pointers

_numbers = itertools.count(1)

# For each request, httpx imports sniffio if it is installed. The search for a missing module takes longer than most requests.
if find_spec("sniffio") is None:
    sys.modules["sniffio"] = cast("Any", None)

SHIRT: dict[str, Any] = {
    "name": "Linen Shirt",
    "price": "59.00",
    "external_id": "erp-1",
    "description": "Woven in a small mill.",
    "brand": "Hearth & Loom",
    "category": "Clothing/Shirts",
    "tags": ["linen", "summer"],
    "images": [{"url": "https://images.example.com/shirt.jpg", "alt": "A shirt"}],
    "options": [{"name": "Size", "values": ["S", "M"]}],
    "variants": [
        {"sku": "LS-S", "barcode": "2000000000015", "option_values": {"Size": "S"}, "stock": {"on_hand": 4}},
        {"sku": "LS-M", "option_values": {"Size": "M"}, "price": "61.00", "stock": {"on_hand": 0}},
    ],
    "metadata": {"material": "linen", "year": 2026, "washable": True},
}
MUG: dict[str, Any] = {
    "name": "Café Mug",
    "price": 12.5,
    "sku": "MUG-1",
    "stock": {"on_hand": 0},
    "status": "draft",
}

PERSON: dict[str, Any] = {
    "email": "ada@example.com",
    "first_name": "Ada",
    "addresses": [{"address1": "1 Mill Lane", "city": "Ghent", "country_code": "BE"}],
}


@dataclass
class Shop:
    """A store with an installed app, and clients of that app."""

    application: Application
    db: Database
    store: Store
    app_id: int
    client_id: str
    client_secret: str
    token: str
    client: httpx.AsyncClient
    anonymous: httpx.AsyncClient
    service: httpx.AsyncClient
    filled: dict[str, Any] = field(default_factory=dict[str, Any])
    directory: Database | None = None  # if the store is in a shard, whose database is `db`

    @property
    def store_id(self) -> int:
        return self.store.id

    @property
    def operator(self) -> Operator:
        return operator_of(self.directory or self.db, self.application.settings, self.application.shards)

    @property
    def local_operator(self) -> Operator:
        """The operator in the database of the store, for what is written only there."""
        return Operator(
            self.db, self.application.settings, actor=self.operator.actor, request_id=self.operator.request_id
        )

    async def settle(self) -> None:
        """Do what workers do every second: bring what the store has caused in the directory there, and back in its copies."""
        if self.directory is not None:
            await collect(self.db, self.directory, RECEIVERS)
            await self.operator.at_store(self.store.handle)

    async def add(self, *products: dict[str, Any]) -> list[int]:
        """Add products; returns their ids."""
        copies = [
            new_product(convert(_decimal(each), NewProduct, digits=self.store.digits), self.store) for each in products
        ]
        async with self.db.transaction() as db:
            await save(db, self.store.id, copies, Cause(self.app_id, "req_tests"))
        return [copy.id or 0 for copy in copies]

    async def fill(self, path: str = "") -> dict[str, Any]:
        """Create one of every resource; returns the ids for path parameters."""
        if not self.filled:
            shirt, _ = await self.add(SHIRT, MUG)
            variants = (await self.client.get(f"/products/{shirt}/variants")).json()["data"]
            row = b'{"sku":"LS-S","name":"Linen Shirt"}\n'
            media = {"content-type": "application/x-ndjson"}
            job = await self.client.post("/products/imports", content=row, headers=media)
            customer = (await self.client.post("/customers", json=PERSON)).json()["data"]
            person = b'{"email":"ada@example.com"}\n'
            people = await self.client.post("/customers/imports", content=person, headers=media)
            hook = {"url": "https://hooks.example.com/stoa", "events": ["product.*"]}
            webhook = await self.client.post("/webhooks", json=hook)
            draft = {"status": "draft", "line_items": [{"sku": "LS-S", "quantity": 2}, {"sku": "MUG-1", "quantity": 1}]}
            order = (await self.client.post("/orders", json=draft)).json()["data"]
            self.filled = {
                "product_id": shirt,
                "variant_id": variants[0]["id"],
                "import_id": job.json()["data"]["id"],
                "customer_id": customer["id"],
                "address_id": customer["addresses"][0]["id"],
                "customer_import_id": people.json()["data"]["id"],
                "order_id": order["id"],
                "line_item_id": order["line_items"][0]["id"],
                "webhook_id": webhook.json()["data"]["id"],
            }
        if path.startswith("/customers/imports"):
            return {**self.filled, "import_id": self.filled["customer_import_id"]}
        return self.filled

    async def client_with(self, scopes: Sequence[str]) -> httpx.AsyncClient:
        """A client of another app with only these scopes."""
        app = await create_app(self.operator, "Narrow app", list(scopes))
        await install(self.operator, app.client_id, self.store.handle, list(scopes))
        token = await token_for(self.service, app.client_id, app.client_secret)
        return api_client(self.application, self.store.handle, token)


def _decimal(product: dict[str, Any]) -> dict[str, Any]:
    price = product["price"]
    return {**product, "price": str(price) if isinstance(price, float) else price}


class Patient(httpx.AsyncBaseTransport):
    """Repeats requests that are answered with 503: on a slow machine, a wait for a lock may end before its holder commits."""

    def __init__(self, application: Application) -> None:
        self._transport = httpx.ASGITransport(application, raise_app_exceptions=True)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        while (answer := await self._transport.handle_async_request(request)).status_code == 503:
            await asyncio.sleep(float(answer.headers["retry-after"]))
        return answer


def service_client(application: Application, *, patient: bool = False) -> httpx.AsyncClient:
    return httpx.AsyncClient(
        transport=Patient(application) if patient else httpx.ASGITransport(application, raise_app_exceptions=True),
        base_url="http://testserver",
        headers={"accept-encoding": "identity"},
        event_hooks={"response": [check_pointers]},
    )


def api_client(application: Application, handle: str, token: str = "", *, patient: bool = False) -> httpx.AsyncClient:
    client = service_client(application, patient=patient)
    client.base_url = httpx.URL(f"http://testserver/stores/{handle}/api/v3/app")
    if token:
        client.headers["authorization"] = f"Bearer {token}"
    return client


async def token_for(service: httpx.AsyncClient, client_id: str, client_secret: str, **form: str) -> str:
    answer = await service.post(
        "/oauth/token", data={"grant_type": "client_credentials", **form}, auth=(client_id, client_secret)
    )
    assert answer.status_code == 200, answer.text
    return answer.json()["access_token"]


def operator_of(
    db: Database,
    settings: Settings,
    shards: Shards | None = None,
    *,
    actor: str = "operator:tests",
    request_id: str = "req_tests",
) -> Operator:
    """An operator who works in this database; if it is the shard that has the stores of this run, in the directory and there."""
    shards = shards or sharded_runs.get(db.url)
    db = directory_of(db)
    everywhere = Everywhere(shards.directory, shards) if shards is not None else None
    return Operator(db, settings, actor=actor, request_id=request_id, everywhere=everywhere)


async def open_shop(application: Application, db: Database, *, currency: str = "USD", patient: bool = False) -> Shop:
    """Create a store, an app with all scopes on it, and a token. A `patient` client repeats requests after a 503.

    If `db` is a shard of the application, the store is there.
    """
    shard = await _shard_at(application, db)
    directory = application.database if shard else None
    operator = operator_of(directory or db, application.settings, application.shards if shard else None)
    handle = f"shop-{os.getpid()}-{next(_numbers)}"
    row = await create_store(operator, handle, "A shop", currency, shard=shard)
    app = await create_app(operator, "Test app", list(SCOPES))
    await install(operator, app.client_id, handle, rate_burst=100_000, rate_refill=10_000)
    service = service_client(application)
    token = await token_for(service, app.client_id, app.client_secret)
    return Shop(
        application=application,
        db=db,
        store=Store(row.id, row.handle, row.name, row.currency, row.status, shard=shard),
        app_id=app.app_id,
        client_id=app.client_id,
        client_secret=app.client_secret,
        token=token,
        client=api_client(application, handle, token, patient=patient),
        anonymous=api_client(application, handle),
        service=service,
        directory=directory,
    )


async def _shard_at(application: Application, db: Database) -> str:
    """The shard of the application with this database; empty for its directory."""
    if db.url == application.settings.database_url:
        return ""
    await application.shards.look()
    return next((name for name, each in application.shards.databases.items() if name and each.url == db.url), "")
