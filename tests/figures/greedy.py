"""One app that asks twenty times as often as it may: the other stores hardly notice."""

import asyncio
import statistics
from pathlib import Path

import click

from tests.figures.calling import Asked, Line, call
from tests.support.service import Service

REFILL, TIMES = 50, 20
NEIGHBOURS = 5
ROUNDS = 5
MOST = 1.5


async def crowd_out(folder: Path, seconds: float) -> bool:
    """Measure the neighbours alone and beside the greedy one, turn by turn."""
    with Service(folder, workers=2, access_log=False, log_level="error") as service:
        others = [await service.account(f"neighbour-{n}") for n in range(NEIGHBOURS)]
        for account in others:
            async with account.client() as client:
                for n in range(20):
                    await client.post("/products", json={"name": f"Mug {n}", "price": "9.90"})
        lines = [Line(account, "/products?limit=20") for account in others]
        greedy = [Line(await service.account("greedy", burst=2 * REFILL, refill=REFILL), "/products?limit=20")]

        async def neighbours() -> Asked:
            return await call(folder, lines, callers=10, seconds=seconds, think_ms=50)

        async def glutton() -> Asked:
            rate = REFILL * TIMES
            return await call(folder, greedy, callers=rate // 10, seconds=seconds, think_ms=100, name="greedy")

        await neighbours()
        alone: list[Asked] = []
        beside: list[Asked] = []
        refused: list[Asked] = []
        for _ in range(ROUNDS):
            alone.append(await neighbours())
            both = await asyncio.gather(neighbours(), glutton())
            beside.append(both[0])
            refused.append(both[1])
        clean = service.stop() == 0
    quiet, noisy = (statistics.median(asked.p99_ms for asked in each) for each in (alone, beside))
    asked = statistics.median(each.asked_per_s for each in refused)
    served = statistics.median(each.good_per_s for each in refused)
    failed = sum(each.other + each.broken + each.refused for each in (*alone, *beside))
    rude = sum(each.rude + each.other + each.broken for each in refused)
    click.echo(
        f"greedy: an app limited to {REFILL}/s asked {asked:.0f}/s ({asked / REFILL:.0f} times) and was served {served:.0f}/s;"
        f" {rude} of its refusals impolite; p99 of {NEIGHBOURS} other stores {quiet:.1f} ms alone, {noisy:.1f} ms beside it"
        f" ({noisy / quiet:.2f} times; p50 {statistics.median(e.p50_ms for e in alone):.1f} and"
        f" {statistics.median(e.p50_ms for e in beside):.1f} ms), {failed} of their requests failed; ended with 0: {clean}"
    )
    return clean and not failed and not rude and noisy <= MOST * quiet
