"""The loss of the primary while apps write: the standby is promoted, and no acknowledged write is lost."""

import asyncio
import time
from pathlib import Path

import click

from tests.figures.trade import Trade, finish, verify
from tests.support.service import Service
from tests.support.standby import Pair

WRITERS = 4
WRITES = 60  # acknowledged before the loss, and again after the promotion
LONGEST_OUTAGE_S = 15.0
DETECTION_S = 2.0  # the time after which a cluster manager promotes the standby


async def fail_over(folder: Path, writes: int = WRITES) -> bool:
    """Kill the primary with SIGKILL, promote the standby; returns whether the outage is short and nothing is lost.

    The standby also serves the reads, so the promotion takes the replica away.
    """
    folder.chmod(0o755)
    with (
        Pair(folder / "servers") as pair,
        Service(
            folder / "service",
            database_url=pair.url,
            database_read_url=pair.standby_url,
            workers=2,
            access_log=False,
        ) as service,
    ):
        trade = Trade(await service.account("moved", burst=10_000_000, refill=1_000_000))
        await trade.create_products()
        callers = [asyncio.create_task(trade.write_on(fresh=n == 0)) for n in range(WRITERS)]
        callers.append(asyncio.create_task(trade.read_on(think_s=0.02)))
        await _acknowledged(trade, writes)
        workers = service.workers()
        await asyncio.to_thread(pair.lose_primary)
        lost_at, before = time.monotonic(), len(trade.ledger)
        await asyncio.sleep(DETECTION_S)
        await asyncio.to_thread(pair.promote)
        promoted_s = time.monotonic() - lost_at
        # Responses to writes that were committed before the loss may still arrive.
        await _acknowledged(trade, before + WRITERS + 1)
        outage_s, reads = time.monotonic() - lost_at, trade.reads
        await _acknowledged(trade, before + WRITERS + writes)
        await finish(trade, callers)
        read_again = trade.reads > reads
        found = await verify(trade)
        kept = service.workers() == workers
        clean = service.stop() == 0
    click.echo(f"Write outage of {outage_s:.1f} s, of which the promotion took {promoted_s:.1f} s; {found}")
    click.echo(
        f"  retried: {dict(trade.trouble)}; read again: {read_again}; no worker restarted: {kept}; exit code 0: {clean}"
    )
    return found.intact and read_again and kept and clean and outage_s <= LONGEST_OUTAGE_S


async def _acknowledged(trade: Trade, count: int) -> None:
    async with asyncio.timeout(120):
        while len(trade.ledger) < count:
            await asyncio.sleep(0.02)
