"""What a replica takes off the primary: the work of the primary for the same requests, without and with it."""

import asyncio
import os
import random
from contextlib import suppress
from pathlib import Path

import click
import msgspec

from tests.figures.calling import Line, call
from tests.support.metrics import metric, scrape
from tests.support.service import Service, free_port
from tests.support.standby import Pair

STORES = 10
PRODUCTS = 200  # of each store
CALLERS = 8
LARGEST_SHARE = 0.8  # of the primary's CPU time per request, compared with a primary that serves everything
_TICKS = os.sysconf("SC_CLK_TCK")
_TRANSACTIONS = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = 'postgres'"


class Work(msgspec.Struct):
    """What the primary did for a number of requests."""

    requests: int
    p50_ms: float
    p99_ms: float
    transactions: int
    cpu_s: float
    failed: int
    by_replica: float  # share of the reading statements

    def __str__(self) -> str:
        return (
            f"{self.transactions / self.requests:.2f} transactions and {self.cpu_s / self.requests * 1000:.2f} ms of CPU per"
            f" request ({self.requests} requests, p50 {self.p50_ms:.1f} ms, p99 {self.p99_ms:.1f} ms)"
        )


async def relieve(folder: Path, seconds: float) -> bool:
    """Measure both services on the same servers, one after the other; returns whether the primary works less."""
    folder.chmod(0o755)
    with Pair(folder / "servers", synchronous=False) as pair:
        alone = await _measure(folder / "alone", pair, seconds, read_url="")
        relieved = await _measure(folder / "relieved", pair, seconds, read_url=pair.standby_url)
    share = (relieved.cpu_s / relieved.requests) / (alone.cpu_s / alone.requests)
    click.echo(f"replica: without it, the primary needs {alone}")
    failed = alone.failed + relieved.failed
    click.echo(
        f"  with it, {relieved}; {relieved.by_replica:.0%} of the reading statements ran on the replica; {share:.0%} of the CPU;"
        f" {failed} requests failed"
    )
    return not failed and share <= LARGEST_SHARE


async def _measure(folder: Path, pair: Pair, seconds: float, *, read_url: str) -> Work:
    with Service(
        folder,
        database_url=pair.primary_url,
        database_read_url=read_url,
        metrics=f"127.0.0.1:{free_port()}",
        access_log=False,
        log_level="error",
    ) as service:
        lines = [line for n in range(STORES) for line in await _fill(service, f"{folder.name}-{n}")]
        random.Random(7).shuffle(lines)
        await call(folder, lines, callers=CALLERS, seconds=3)
        pair.ask_primary("CHECKPOINT")
        before, cpu = _transactions(pair), _cpu(pair)
        text = await scrape(service)
        done = await call(folder, lines, callers=CALLERS, seconds=seconds)
        cpu_s = _cpu(pair) - cpu
        await asyncio.sleep(1)  # sessions report their statistics, and workers their counts
        transactions = _transactions(pair) - before
        reads = {name: await _grown(service, text, name) for name in ("replica", "primary")}
    total = sum(reads.values())
    failed = done.refused + done.other + done.broken
    by_replica = reads["replica"] / total if total else 0.0
    return Work(done.ok, done.p50_ms, done.p99_ms, transactions, cpu_s, failed, by_replica)


async def _fill(service: Service, handle: str) -> list[Line]:
    """Open a store with products; returns its requests: nine reads and one order."""
    account = await service.account(handle, burst=1_000, refill=100_000)
    async with account.client() as client:
        items = [
            {
                "op": "create",
                "data": {"name": f"Mug {n}", "price": "9.90", "sku": f"MUG-{n}", "stock": {"on_hand": 1_000_000}},
            }
            for n in range(PRODUCTS)
        ]
        for start in range(0, PRODUCTS, 50):
            answer = await client.post("/products/batch", json={"items": items[start : start + 50]})
            assert answer.is_success, answer.text
        first = (await client.get("/products?limit=1")).json()["data"][0]["id"]
    reads = ["/products?limit=50", "/products?limit=50&sort=name", f"/products/{first}", f"/products/{first}"] * 2
    order = '{"line_items": [{"sku": "MUG-1", "quantity": 1}]}'
    return [*(Line(account, path) for path in (*reads, "/orders?limit=20")), Line(account, "/orders", "POST", order)]


async def _grown(service: Service, before: str, server: str) -> float:
    name = "stoa_reads_total"
    return metric(await scrape(service), name, server=server) - metric(before, name, server=server)


def _transactions(pair: Pair) -> int:
    return int(pair.ask_primary(_TRANSACTIONS))


def _cpu(pair: Pair) -> float:
    """CPU seconds of the primary: of its processes that run, and of those that have ended."""
    total = 0
    for pid in pair.primary_processes():
        with suppress(FileNotFoundError):  # it ends meanwhile
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            total += sum(map(int, fields[11:15]))  # its own time, and that of its children that have ended
    return total / _TICKS
