"""Three times the peak load: the service keeps its throughput, refuses the rest with Retry-After, and recovers quickly."""

import asyncio
import json
import random
import time
from pathlib import Path

import click

from tests.figures.calling import Line, call
from tests.support.service import Account, Service

STORES = 60  # enough apps to reach the limit of the worker, not that of one app
THINK_MS = 1000
WORKERS = 2
TIMES = 3
NORMAL_WITHIN_S = 10
LEAST_GOOD = 0.8
MOST_CALLERS = 12_000


async def overload(folder: Path, seconds: float) -> bool:
    """Measure the peak, send three times as much, and measure the recovery."""
    with Service(folder, workers=WORKERS, access_log=False, log_level="error") as service:
        lines = [line for n in range(STORES) for line in await _open_store(service, f"busy-{n}")]
        random.Random(7).shuffle(lines)
        peak = 0.0
        for callers in (16, 32, 64):
            peak = max(peak, (await call(folder, lines, callers=callers, seconds=8)).good_per_s)
        before = await _probe(lines[0].account, 3)
        # Each caller waits a second between requests; together they send three times the peak.
        callers = min(MOST_CALLERS, int(TIMES * peak * THINK_MS / 1000))
        crowd = await call(folder, lines, callers=callers, seconds=seconds, think_ms=THINK_MS)
        usual = sorted(before)[int(len(before) * 0.95)]
        normal_s = await _seconds_until_normal(lines[0].account, 2 * usual)
        clean = service.stop() == 0
    share = crowd.good_per_s / peak
    click.echo(
        f"overload: peak {peak:.0f}/s; {callers} callers sent {crowd.requests_per_s:.0f}/s ({crowd.requests_per_s / peak:.1f} times)"
        f" for {seconds:.0f} s: {crowd.good_per_s:.0f}/s served ({share:.0%}), {crowd.refused} refused, {crowd.rude} of them"
        f" without Retry-After, {crowd.other} other, {crowd.broken} broken; p50 {crowd.p50_ms:.0f} ms, p99 {crowd.p99_ms:.0f} ms;"
        f" normal after {normal_s:.1f} s; exit code 0: {clean}"
    )
    faultless = not (crowd.rude or crowd.other or crowd.broken)
    return faultless and clean and share >= LEAST_GOOD and normal_s <= NORMAL_WITHIN_S


async def _open_store(service: Service, handle: str) -> list[Line]:
    """Open a store with an app; returns its requests: three reads and one order."""
    account = await service.account(handle, burst=100_000_000, refill=1_000_000)
    product = {"name": "Mug", "price": "9.90", "sku": "MUG", "stock": {"on_hand": 100_000_000}}
    async with account.client() as client:
        made = (await client.post("/products", json=product)).json()["data"]["id"]
    order = json.dumps({"line_items": [{"sku": "MUG", "quantity": 1}]})
    return [
        Line(account, f"/products/{made}"),
        Line(account, "/products?limit=20"),
        Line(account, f"/products/{made}"),
        Line(account, "/orders", "POST", order),
    ]


async def _probe(account: Account, seconds: float) -> list[float]:
    """The durations of sequential requests; a refused one counts as infinite."""
    took: list[float] = []
    ends = time.monotonic() + seconds
    async with account.client() as client:
        while time.monotonic() < ends:
            started = time.monotonic()
            answer = await client.get("/products?limit=20")
            took.append(time.monotonic() - started if answer.status_code == 200 else float("inf"))
            await asyncio.sleep(0.02)
    return took


async def _seconds_until_normal(account: Account, usual_s: float) -> float:
    """The seconds until a second in which 95% of the requests take at most twice as long as usual."""
    started = time.monotonic()
    while (elapsed := time.monotonic() - started) < 60:
        took = sorted(await _probe(account, 1))
        if took[int(len(took) * 0.95)] <= max(usual_s, 0.05):
            return elapsed
    return 60
