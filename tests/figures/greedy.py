"""One app sends twenty times its rate limit; other stores are hardly affected."""

import asyncio
import statistics
from pathlib import Path

import click

from tests.figures.calling import Line, Outcome, call
from tests.support.service import Service

REFILL, TIMES = 50, 20
NEIGHBORS = 5
ROUNDS = 5
MOST = 1.5


async def crowd_out(folder: Path, seconds: float) -> bool:
    """Measure the other stores alternately without and with the greedy app."""
    with Service(folder, workers=2, access_log=False, log_level="error") as service:
        others = [await service.account(f"neighbor-{n}") for n in range(NEIGHBORS)]
        for account in others:
            async with account.client() as client:
                for n in range(20):
                    await client.post("/products", json={"name": f"Mug {n}", "price": "9.90"})
        lines = [Line(account, "/products?limit=20") for account in others]
        greedy = [Line(await service.account("greedy", burst=2 * REFILL, refill=REFILL), "/products?limit=20")]

        async def neighbors() -> Outcome:
            return await call(folder, lines, callers=10, seconds=seconds, think_ms=50)

        async def greedy_app() -> Outcome:
            rate = REFILL * TIMES
            return await call(folder, greedy, callers=rate // 10, seconds=seconds, think_ms=100, name="greedy")

        await neighbors()
        alone: list[Outcome] = []
        together: list[Outcome] = []
        refused: list[Outcome] = []
        for _ in range(ROUNDS):
            alone.append(await neighbors())
            both = await asyncio.gather(neighbors(), greedy_app())
            together.append(both[0])
            refused.append(both[1])
        clean = service.stop() == 0
    quiet, noisy = (statistics.median(run.p99_ms for run in each) for each in (alone, together))
    sent = statistics.median(each.requests_per_s for each in refused)
    served = statistics.median(each.good_per_s for each in refused)
    failed = sum(each.other + each.broken + each.refused for each in (*alone, *together))
    limited = all(each.refused for each in refused)
    rude = sum(each.rude + each.other + each.broken for each in refused)
    click.echo(
        f"greedy: an app limited to {REFILL}/s sent {sent:.0f}/s ({sent / REFILL:.0f} times) and was served {served:.0f}/s;"
        f" {rude} of its refusals without Retry-After; p99 of {NEIGHBORS} other stores {quiet:.1f} ms alone, {noisy:.1f} ms together"
        f" ({noisy / quiet:.2f} times; p50 {statistics.median(e.p50_ms for e in alone):.1f} and"
        f" {statistics.median(e.p50_ms for e in together):.1f} ms), {failed} of their requests failed; exit code 0: {clean}"
    )
    return clean and limited and not failed and not rude and noisy <= MOST * quiet
