"""Three times the peak load: the service keeps its throughput, refuses the rest with Retry-After, and recovers quickly.

The service and its database have one core, and the callers the other, so that the callers do not take what they measure. The
peak is measured in the same way.
"""

import asyncio
import json
import os
import random
import time
from collections.abc import Generator
from contextlib import contextmanager
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
MOST_P99_S = 1.0
PROBES, PROBE_PAUSE_S = 10, 0.1


async def overload(folder: Path, seconds: float) -> bool:
    """Measure the peak, send three times as much, and measure the recovery."""
    with (
        sharing_cores() as callers_core,
        Service(folder, workers=WORKERS, access_log=False, log_level="error") as service,
    ):
        os.sched_setaffinity(0, callers_core)  # inherited by the callers
        lines = await open_stores(service)
        peak = await measure_peak(folder, lines)
        before = await _probe(lines[0].account, 3)
        # Each caller waits a second between requests; together they send three times the peak.
        callers = min(MOST_CALLERS, int(TIMES * peak * THINK_MS / 1000))
        calling = asyncio.create_task(call(folder, lines, callers=callers, seconds=seconds, think_ms=THINK_MS))
        probes = await asyncio.gather(*(_probe(line.account, seconds, PROBE_PAUSE_S) for line in lines[:PROBES]))
        crowd = await calling
        served = sorted(took for probe in probes for took in probe if took < float("inf"))
        usual = sorted(before)[int(len(before) * 0.95)]
        normal_s = await _seconds_until_normal(lines[0].account, 2 * usual)
        clean = service.stop() == 0
    share = crowd.good_per_s / peak
    p50_s, p99_s = served[len(served) // 2], served[int(len(served) * 0.99)]
    click.echo(
        f"overload: peak {peak:.0f}/s; {callers} callers sent {crowd.requests_per_s:.0f}/s ({crowd.requests_per_s / peak:.1f} times)"
        f" for {seconds:.0f} s: {crowd.good_per_s:.0f}/s served ({share:.0%}), {crowd.refused} refused, {crowd.rude} of them"
        f" without Retry-After, {crowd.other} other, {crowd.broken} broken; {len(served)} served probes: p50 {p50_s * 1000:.0f} ms, p99 {p99_s * 1000:.0f} ms;"
        f" normal after {normal_s:.1f} s; exit code 0: {clean}"
    )
    faultless = max(before) < float("inf") and not (crowd.rude or crowd.other or crowd.broken)
    return faultless and clean and share >= LEAST_GOOD and p99_s < MOST_P99_S and normal_s <= NORMAL_WITHIN_S


@contextmanager
def sharing_cores() -> Generator[list[int]]:
    """What starts first has the last core; yields the core for what starts later. Then this process has all cores again."""
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, cores[-1:])
    try:
        yield cores[:1]
    finally:
        os.sched_setaffinity(0, cores)


async def open_stores(service: Service) -> list[Line]:
    """The requests of all stores, in random order."""
    lines = [line for n in range(STORES) for line in await _open_store(service, f"busy-{n}")]
    random.Random(7).shuffle(lines)
    return lines


async def measure_peak(folder: Path, lines: list[Line]) -> float:
    """The most requests that are served in a second."""
    return max([(await call(folder, lines, callers=callers, seconds=8)).good_per_s for callers in (16, 32, 64)])


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


async def _probe(account: Account, seconds: float, pause_s: float = 0.02) -> list[float]:
    """The durations of sequential requests; a refused one counts as infinite."""
    took: list[float] = []
    ends = time.monotonic() + seconds
    async with account.client() as client:
        while time.monotonic() < ends:
            started = time.monotonic()
            answer = await client.get("/products?limit=20")
            took.append(time.monotonic() - started if answer.status_code == 200 else float("inf"))
            await asyncio.sleep(pause_s)
    return took


async def _seconds_until_normal(account: Account, usual_s: float) -> float:
    """The seconds until a second in which 95% of the requests take at most twice as long as usual."""
    started = time.monotonic()
    while (elapsed := time.monotonic() - started) < 60:
        took = sorted(await _probe(account, 1))
        if took[int(len(took) * 0.95)] <= max(usual_s, 0.05):
            return elapsed
    return 60
