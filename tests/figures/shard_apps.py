"""Apps that use one store while it moves. Each repeats a request until it is answered, and notes what the store must contain."""

import asyncio
import itertools
import json
import math
import time
from collections import Counter
from typing import Any

import httpx
import msgspec

from stoa.db.connection import Connection
from tests.support.service import Account

CREATORS, ROWS = 3, 200
COUNTED, ADJUSTED = "COUNTED", "ADJUSTED"
_PAUSE_S = 0.05
_THINK_S = 0.1
_ENDING_S = 180.0  # for requests and imports that have begun; another worker takes over an import within a minute
_STORED = """
SELECT (SELECT json_object_agg(sku, n) FROM (
            SELECT sku, count(*) AS n FROM variants WHERE store_id = $1 AND deleted_at IS NULL GROUP BY sku) v)::text,
       (SELECT count(*) FROM orders WHERE store_id = $1),
       (SELECT coalesce(sum(on_hand), 0)::bigint FROM variants WHERE store_id = $1 AND sku = $2),
       (SELECT coalesce(max(p.price), 0) FROM products p JOIN variants v ON v.store_id = p.store_id AND v.product_id = p.id
         WHERE p.store_id = $1 AND v.sku = $3)"""
_POSITIONS = """
SELECT resource_id, position FROM events
 WHERE store_id = $1 AND type = 'product.created' AND resource_id = ANY ($2::bigint[])"""


class Contents(msgspec.Struct):
    """The products of a store by SKU, the number of its orders, the stock that is adjusted, and the price that changes."""

    skus: Counter[str]
    orders: int
    adjusted: int
    price: int


class Findings(msgspec.Struct):
    """What the apps were told, compared with what the store contains. Every number except the first should be 0."""

    writes: int
    lost: int
    doubled: int
    stale: int
    descending: int
    wrong: list[str]

    @property
    def exact(self) -> bool:
        return not (self.lost or self.doubled or self.stale or self.descending or self.wrong)

    def __str__(self) -> str:
        return (
            f"{self.writes} writes acknowledged: {self.lost} lost, {self.doubled} doubled, {self.stale} stale reads,"
            f" {self.descending} ids or positions out of order, {len(self.wrong)} unexpected answers {self.wrong[:2] or ''}"
        )


async def stored_in(db: Connection, store_id: int) -> Contents:
    [row] = await db.fetch(_STORED, store_id, ADJUSTED, COUNTED)
    return Contents(Counter(json.loads(row[0] or "{}")), *row[1:])


class StoreApps:
    """The apps of one store. `name` distinguishes them from those of an earlier run, whose products they go on changing."""

    def __init__(self, account: Account, name: str, earlier: "StoreApps | None" = None) -> None:
        self._account = account
        self._name = name
        self._counted = earlier._counted if earlier else 0  # the product whose price counts the changes
        self._changed_before = earlier._changes if earlier else 0
        self._changes = self._changed_before  # acknowledged ones
        self._adjustments = 0
        self._created: list[list[tuple[str, int]]] = [[] for _ in range(CREATORS)]
        self._imported: list[str] = []
        self._orders: list[int] = []
        self._stale: list[str] = []
        self._wrong: list[str] = []
        self.took: list[float] = []  # seconds of each write, with its repetitions
        self.refused: Counter[str] = Counter()
        self._until = math.inf
        self._over = asyncio.Event()

    def stop(self) -> None:
        """Let the apps end what they have begun."""
        self._until = time.monotonic() + _ENDING_S
        self._over.set()

    async def prepare(self, hook: str) -> None:
        """Create the products that the apps change, and a subscription to orders."""
        async with self._account.client() as client:
            for sku in (COUNTED, ADJUSTED):
                stock = {"on_hand": 10_000_000 if sku == COUNTED else 0}
                new = {"name": sku, "price": "0.00", "sku": sku, "stock": stock}
                answer = await client.post("/products", json=new)
                assert answer.status_code == 201, answer.text
                if sku == COUNTED:
                    self._counted = answer.json()["data"]["id"]
            answer = await client.post("/webhooks", json={"url": hook, "events": ["order.*"]})
            assert answer.status_code == 201, answer.text

    async def run(self) -> None:
        """Use the store until it is stopped."""
        creators = [self._create(number) for number in range(CREATORS)]
        await asyncio.gather(*creators, self._change(), self._watch(), self._adjust(), self._order(), self._import())

    async def _create(self, number: int) -> None:
        """Create products, and read each of them."""
        async with self._account.client() as client:
            for turn in itertools.count():
                sku = f"{self._name}-{number}-{turn}"
                product = await self._write(client, "POST", "/products", sku, name=sku, price="1.00", sku=sku)
                if product is None:
                    return
                self._created[number].append((sku, product["id"]))
                read = await self._send(client, "GET", f"/products/{product['id']}")
                if read is not None and (read.status_code != 200 or read.json()["data"]["sku"] != sku):
                    self._stale.append(read.text)
                await asyncio.sleep(_THINK_S)

    async def _change(self) -> None:
        async with self._account.client() as client:
            for turn in itertools.count(self._changes + 1):
                key, path = f"{self._name}-change-{turn}", f"/products/{self._counted}"
                if await self._write(client, "PATCH", path, key, price=f"{turn}.00") is None:
                    return
                self._changes = turn
                await asyncio.sleep(_THINK_S)

    async def _watch(self) -> None:
        """Read the product that changes: a read that began after a change was acknowledged must show it."""
        async with self._account.client() as client:
            while not self._over.is_set():
                known = self._changes
                read = await self._send(client, "GET", f"/products/{self._counted}")
                if read is not None and (read.status_code != 200 or float(read.json()["data"]["price"]) < known):
                    self._stale.append(read.text)
                await asyncio.sleep(_THINK_S)

    async def _adjust(self) -> None:
        async with self._account.client() as client:
            for turn in itertools.count():
                items = [{"sku": ADJUSTED, "quantity": 1}]
                path, key = "/products/inventory/adjustments", f"{self._name}-adjust-{turn}"
                if await self._write(client, "POST", path, key, items=items, reference=key) is None:
                    return
                self._adjustments += 1
                await asyncio.sleep(_THINK_S)

    async def _order(self) -> None:
        async with self._account.client() as client:
            for turn in itertools.count():
                lines = [{"sku": COUNTED, "quantity": 1}]
                placed = await self._write(client, "POST", "/orders", f"{self._name}-order-{turn}", line_items=lines)
                if placed is None:
                    return
                self._orders.append(placed["id"])
                await asyncio.sleep(_THINK_S)

    async def _import(self) -> None:
        """Import files one after the other, and wait until each is done."""
        async with self._account.client() as client:
            for turn in itertools.count():
                skus = [f"{self._name}-row-{turn}-{row}" for row in range(ROWS)]
                answer = await self._import_rows(client, skus)
                if answer is not None and (not answer.is_success or answer.json()["data"]["counts"]["created"] != ROWS):
                    self._wrong.append(answer.text)
                    return
                if answer is not None:
                    self._imported += skus
                if self._over.is_set():
                    return
                await asyncio.sleep(10 * _THINK_S)

    async def _import_rows(self, client: httpx.AsyncClient, skus: list[str]) -> httpx.Response | None:
        rows = b"".join(msgspec.json.encode({"name": sku, "price": "1.00", "sku": sku}) + b"\n" for sku in skus)
        headers = {"idempotency-key": skus[0], "content-type": "application/x-ndjson"}
        answer = await self._send(client, "POST", "/products/imports", content=rows, headers=headers)
        while answer is not None and answer.is_success and not answer.json()["data"]["finished_at"]:
            if time.monotonic() > self._until:
                self._wrong.append(f"not ended: {answer.text}")
                return None
            await asyncio.sleep(0.2)
            path = f"/products/imports/{answer.json()['data']['id']}"
            answer = await self._send(client, "GET", path, ending=True)
        return answer

    async def _write(
        self, client: httpx.AsyncClient, method: str, path: str, key: str, **body: Any
    ) -> dict[str, Any] | None:
        """The acknowledged resource; None as soon as the run is over."""
        if self._over.is_set():
            return None
        started = time.monotonic()
        answer = await self._send(client, method, path, json=body, headers={"idempotency-key": key}, ending=True)
        if answer is None:
            return None
        if not answer.is_success:
            self._wrong.append(answer.text)
            return None
        self.took.append(time.monotonic() - started)
        return answer.json()["data"]

    async def _send(
        self, client: httpx.AsyncClient, method: str, path: str, *, ending: bool = False, **more: Any
    ) -> httpx.Response | None:
        """The answer to a request, which is repeated while the service refuses it. What has begun to write has time to end."""
        while not self._over.is_set() or (ending and time.monotonic() < self._until):
            try:
                answer = await client.request(method, path, **more)
            except httpx.TransportError as error:
                self.refused[type(error).__name__] += 1
            else:
                if answer.status_code not in (409, 429, 500, 503):
                    return answer
                self.refused[str(answer.status_code)] += 1
            await asyncio.sleep(_PAUSE_S)
        self._wrong += [f"not answered: {method} {path}"] if ending else []
        return None

    async def compare(self, db: Connection, store_id: int, before: Contents) -> Findings:
        """Compare what was acknowledged with the database that now holds the store."""
        now = await stored_in(db, store_id)
        created = [sku for some in self._created for sku, _ in some] + self._imported
        expected = before.skus + Counter(created)
        orders, adjusted = (
            now.orders - before.orders - len(self._orders),
            now.adjusted - before.adjusted - self._adjustments,
        )
        rows = await db.fetch("SELECT id FROM orders WHERE store_id = $1 AND id = ANY ($2)", store_id, self._orders)
        lost = (expected - now.skus).total() + len(self._orders) - len(rows) + max(0, -adjusted)
        lost += max(0, self._changes - now.price // 100)
        doubled = (now.skus - expected).total() + max(0, orders) + max(0, adjusted)
        positions = [await self._positions(db, store_id, some) for some in self._created]
        ids = [[product for _, product in some] for some in self._created]
        descending = sum(map(_descents, [*ids, self._orders, *positions]))
        writes = len(created) + len(self._orders) + self._adjustments + self._changes - self._changed_before
        return Findings(writes, lost, doubled, len(self._stale), descending, self._wrong)

    async def _positions(self, db: Connection, store_id: int, created: list[tuple[str, int]]) -> list[int]:
        rows = await db.fetch(_POSITIONS, store_id, [product for _, product in created])
        found = {row[0]: row[1] for row in rows}
        return [found[product] for _, product in created if product in found]


def _descents(numbers: list[int]) -> int:
    return sum(later <= earlier for earlier, later in itertools.pairwise(numbers))
