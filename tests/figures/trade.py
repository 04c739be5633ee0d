"""Apps that write continuously and keep a ledger of acknowledged writes, and the verification of that ledger."""

import asyncio
import itertools
import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import httpx
import msgspec

from stoa.backup import invariants
from stoa.db.connection import Connection, connect
from stoa.secret_keys import read_keys
from tests.conftest import SECRET_KEY
from tests.support.service import Account

SKUS = [f"MUG-{n}" for n in range(8)]
ON_HAND = 10_000_000
REPLAYED = 200
WRITE_PATIENCE_S = 180  # far above the few seconds in which a killed database recovers
_PAUSE_S = 0.05
_AGAIN = {
    409: ("idempotency_in_progress",),
    429: ("rate_limited", "too_many_in_flight"),
    503: ("unavailable", "overloaded"),
}


class Write(msgspec.Struct):
    """A write and its response."""

    kind: str
    method: str
    path: str
    body: dict[str, Any]
    key: str
    status: int = 0
    answer: bytes = b""


class Trade:
    """Writers of one store; each write has an idempotency key and is retried until it is acknowledged."""

    def __init__(self, account: Account) -> None:
        self.account = account
        self.ledger: list[Write] = []
        self.trouble: Counter[str] = Counter()  # unacknowledged attempts, by status or error
        self.wrong: list[str] = []  # unexpected error responses
        self.reads = 0
        self.took: list[tuple[float, float]] = []  # when each answered request began, and its seconds
        self.over = asyncio.Event()
        self._numbers = itertools.count(1)
        self._product = 1

    async def create_products(self) -> None:
        async with self.account.client() as client:
            for sku in SKUS:
                body = {"name": f"Mug {sku}", "price": "9.90", "sku": sku, "stock": {"on_hand": ON_HAND}}
                answer = await client.post("/products", json=body)
                assert answer.status_code == 201, answer.text
                self._product = answer.json()["data"]["id"]

    async def write_on(self, *, fresh: bool = False, think_s: float = 0.0) -> None:
        """Write until `over` is set: on one connection or on a new one each time, with an optional pause."""
        client = self.account.client()
        placed: list[int] = []
        while not self.over.is_set():
            write = self._next(placed)
            await self._complete(client, write)
            self.ledger.append(write)
            if write.kind == "order":
                placed.append(json.loads(write.answer)["data"]["id"])
            if fresh:
                await client.aclose()
                client = self.account.client()
            if think_s:
                await asyncio.sleep(random.uniform(0, 2 * think_s))
        await client.aclose()

    async def read_on(self, *, fresh: bool = False, think_s: float = 0.0) -> None:
        """Read until `over` is set; failed reads are counted."""
        client = self.account.client()
        while not self.over.is_set():
            path = random.choice(("/products?limit=5", "/orders?limit=5&sort=-id", f"/products/{self._product}"))
            answer = await self._try(client, Write("read", "GET", path, {}, ""))
            self.reads += answer is not None
            if fresh:
                await client.aclose()
                client = self.account.client()
            if think_s:
                await asyncio.sleep(random.uniform(0, 2 * think_s))
        await client.aclose()

    def _next(self, placed: list[int]) -> Write:
        key = f"key-{next(self._numbers)}"
        kind = random.choice(("product", "order", "order", "adjust", "cancel" if placed else "order"))
        sku, units = random.choice(SKUS), random.randint(1, 3)
        match kind:
            case "product":
                return Write(
                    kind, "POST", "/products", {"name": key, "price": "4.00", "stock": {"on_hand": units}}, key
                )
            case "order":
                lines = [{"sku": sku, "quantity": units}, {"sku": random.choice(SKUS), "quantity": 1}]
                body = {"line_items": lines if lines[1]["sku"] != sku else lines[:1], "metadata": {"fingerprint": key}}
                return Write(kind, "POST", "/orders", body, key)
            case "adjust":
                body = {"items": [{"sku": sku, "quantity": units}], "reference": key}
                return Write(kind, "POST", "/products/inventory/adjustments", body, key)
            case _:
                order = placed.pop(random.randrange(len(placed)))
                return Write("cancel", "PUT", f"/orders/{order}/status", {"status": "cancelled"}, key)

    async def _complete(self, client: httpx.AsyncClient, write: Write) -> None:
        async with asyncio.timeout(WRITE_PATIENCE_S):
            while (answer := await self._try(client, write)) is None:
                await asyncio.sleep(_PAUSE_S)
        write.status, write.answer = answer.status_code, answer.content

    async def _try(self, client: httpx.AsyncClient, write: Write) -> httpx.Response | None:
        began = time.monotonic()
        try:
            answer = await send(client, write)
        except httpx.TransportError as error:
            self.trouble[type(error).__name__] += 1
            return None
        if answer.is_success:
            self.took.append((began, time.monotonic() - began))
            return answer
        expected = any(f'"code":"{code}"' in answer.text for code in _AGAIN.get(answer.status_code, ()))
        self.trouble[str(answer.status_code)] += 1
        self.wrong += [] if expected else [answer.text]
        return None


async def send(client: httpx.AsyncClient, write: Write) -> httpx.Response:
    if write.method == "GET":
        return await client.get(write.path)
    headers = {"idempotency-key": write.key}
    return await client.request(write.method, write.path, json=write.body, headers=headers)


class Verification(msgspec.Struct):
    """The comparison of the ledger with the database. Every number except the first should be 0."""

    acknowledged: int
    lost: int = 0
    repeated: int = 0
    unexpected: int = 0
    replays_differ: int = 0
    broken: list[str] = []

    @property
    def intact(self) -> bool:
        return not (self.lost or self.repeated or self.unexpected or self.replays_differ or self.broken)

    def __str__(self) -> str:
        faults = f"{self.lost} lost, {self.repeated} applied twice, {self.unexpected} unexpected"
        rest = "; ".join(self.broken) or "every invariant holds"
        return f"{self.acknowledged} writes acknowledged: {faults}, {self.replays_differ} replays differ, {rest}"


async def verify(*trades: Trade, url: str = "") -> Verification:
    """Compare the ledgers of all stores with the database after all writers have finished. `url` names their shard."""
    db = await connect(url or trades[0].account.service.database_url, statement_timeout_ms=0)
    try:
        found = Verification(sum(len(trade.ledger) for trade in trades))
        for trade in trades:
            [[store_id]] = await db.fetch("SELECT id FROM stores WHERE handle = $1", trade.account.handle)
            for kind, effects in (await _effects(db, store_id)).items():
                expected = {_fingerprint(write) for write in trade.ledger if write.kind == kind}
                found.lost += len(expected - effects.keys())
                found.unexpected += len(effects.keys() - expected)
                found.repeated += sum(times - 1 for times in effects.values())
            found.replays_differ += await _replay(trade, REPLAYED // len(trades))
            found.broken += await _arithmetic(db, store_id)
            found.broken += _violations({"only retryable refusals": len(trade.wrong)}) + trade.wrong[:3]
        checks = await invariants.check(db, read_keys(SECRET_KEY))
        found.broken += [f"{check.invariant}: {check.broken}" for check in checks if check.broken]
        found.broken += await _events(db)
        return found
    finally:
        await db.close()


def _fingerprint(write: Write) -> str:
    return write.path.split("/")[2] if write.kind == "cancel" else write.key


async def _effects(db: Connection, store_id: int) -> dict[str, dict[str, int]]:
    """The rows of each kind in the store, by fingerprint, and how often each occurs."""
    statements = {
        "product": "SELECT name, count(*) FROM products WHERE store_id = $1 AND name LIKE 'key-%' GROUP BY 1",
        "order": """SELECT order_document(o.id, o.head, o.lines, o.person, o.tail)::json->'metadata'->>'fingerprint', count(*)
                      FROM orders o WHERE o.store_id = $1 GROUP BY 1""",
        "adjust": "SELECT reference, count(*) FROM stock_movements WHERE store_id = $1 AND kind = 'adjust' GROUP BY 1",
        "cancel": """SELECT resource_id::text, count(*) FROM events
                      WHERE store_id = $1 AND type = 'order.status_changed'
                        AND changes::json->'status'->>1 = 'cancelled' GROUP BY 1""",
    }
    return {kind: {row[0]: row[1] for row in await db.fetch(text, store_id)} for kind, text in statements.items()}


async def _replay(trade: Trade, most: int) -> int:
    """Repeat some of the writes with their keys; returns how many responses differ from the first."""
    some = random.sample(trade.ledger, min(most, len(trade.ledger)))
    differ = 0
    async with trade.account.client() as client:
        for write in some:
            answer = await send(client, write)
            same = (answer.status_code, answer.content) == (write.status, write.answer)
            differ += not same or answer.headers.get("idempotent-replayed") != "true"
    return differ


async def _arithmetic(db: Connection, store_id: int) -> list[str]:
    """Order numbers are unique, and totals are the sums of line items."""
    wrong = 0
    numbers: Counter[int] = Counter()
    documents = "SELECT order_document(o.id, o.head, o.lines, o.person, o.tail) FROM orders o WHERE o.store_id = $1"
    for row in await db.fetch(documents, store_id):
        order = json.loads(row[0])
        numbers[order["number"]] += 1
        lines = sum(_cents(line["total"]) for line in order["line_items"])
        units = sum(line["quantity"] * _cents(line["unit_price"]) for line in order["line_items"])
        wrong += not lines == units == _cents(order["subtotal"]) == _cents(order["total"])
    repeated = sum(times - 1 for times in numbers.values())
    return _violations({"order numbers are unique": repeated, "totals add up": wrong})


def _cents(text: str) -> int:
    return int(text.replace(".", ""))


_EVENT_RULES = {
    "each version of an order has one event": """
        SELECT count(*) FROM orders o FULL JOIN (
            SELECT store_id, resource_id, count(*) AS events, count(DISTINCT resource_version) AS versions,
                   max(resource_version) AS last FROM events WHERE resource_type = 'order' GROUP BY 1, 2) e
            ON e.store_id = o.store_id AND e.resource_id = o.id
         WHERE (e.events, e.versions, e.last) IS DISTINCT FROM (o.version::bigint, o.version::bigint, o.version)""",
    "each change of stock has one event": """
        SELECT count(*) FROM variants v LEFT JOIN (
            SELECT store_id, resource_id, count(*) AS events, count(DISTINCT resource_version) AS versions
              FROM events WHERE type = 'product.inventory_changed' GROUP BY 1, 2) e
            ON e.store_id = v.store_id AND e.resource_id = v.id
         WHERE (coalesce(e.events, 0), coalesce(e.versions, 0)) <> (v.version - 1, v.version - 1)""",
    "each product has one event of its creation": """
        SELECT count(*) FROM products p FULL JOIN (
            SELECT store_id, resource_id, count(*) AS events FROM events WHERE type = 'product.created' GROUP BY 1, 2) e
            ON e.store_id = p.store_id AND e.resource_id = p.id WHERE e.events IS DISTINCT FROM 1 OR p.id IS NULL""",
}


async def _events(db: Connection) -> list[str]:
    return _violations({rule: (await db.fetch(text))[0][0] for rule, text in _EVENT_RULES.items()})


def _violations(broken: dict[str, int]) -> list[str]:
    return [f"{rule}: violated {times} times" for rule, times in broken.items() if times]


async def finish(trade: Trade, writers: Sequence[asyncio.Task[None]], *others: Trade) -> None:
    """Let the writers finish their current writes."""
    for each in (trade, *others):
        each.over.set()
    await asyncio.gather(*writers)


def spread(seconds: Sequence[float]) -> str:
    """The number of requests and how long they took."""
    if not seconds:
        return "no requests"
    times = sorted(second * 1000 for second in seconds)
    p50, p99 = (times[int(len(times) * share)] for share in (0.5, 0.99))
    return f"{len(times)} requests, p50 {p50:.0f} ms, p99 {p99:.0f} ms, longest {times[-1]:.0f} ms"
