"""A long run at 70 % of the peak: memory does not grow, and nothing fails."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path

import click

from tests.figures.calling import call
from tests.figures.overload import THINK_MS, WORKERS, measure_peak, open_stores, sharing_cores
from tests.support.service import Service, children

SHARE = 0.7
WARM_UP_S = 180  # until caches, pools and partitions are filled
MOST_GROWTH = 0.05
SAMPLE_S = 30


async def soak(folder: Path, seconds: float) -> bool:
    """Serve 70 % of the peak for a long time, on one core, with the callers on the other."""
    with (
        sharing_cores() as callers_core,
        Service(folder, workers=WORKERS, access_log=False, log_level="error") as service,
    ):
        os.sched_setaffinity(0, callers_core)  # inherited by the callers
        lines = await open_stores(service)
        peak = await measure_peak(folder, lines)
        callers = round(SHARE * peak * THINK_MS / 1000)
        warm = await call(folder, lines, callers=callers, seconds=WARM_UP_S, think_ms=THINK_MS)
        callers = round(callers * SHARE * peak / warm.good_per_s)  # a caller also waits for its response
        samples: list[float] = [_memory_mb(service)]
        running = asyncio.create_task(call(folder, lines, callers=callers, seconds=seconds, think_ms=THINK_MS))
        while not running.done():
            await asyncio.wait({running}, timeout=SAMPLE_S)
            samples.append(_memory_mb(service))
        outcome = running.result()
        clean = service.stop() == 0
    # The mean of five samples at each end, so that one large request at the end does not count as growth.
    first, last = (sum(part) / len(part) for part in (samples[:5], samples[-5:]))
    growth = last / first - 1
    click.echo(
        f"soak: peak {peak:.0f}/s; {callers} callers for {seconds / 60:.0f} min after {WARM_UP_S / 60:.0f} min:"
        f" {outcome.good_per_s:.0f}/s served ({outcome.good_per_s / peak:.0%} of the peak), {outcome.ok} in all,"
        f" {outcome.refused} refused, {outcome.rude} of them without Retry-After, {outcome.other} other, {outcome.broken} broken;"
        f" p99 {outcome.p99_ms:.0f} ms;"
        f" memory of all processes but PostgreSQL {first:.1f} MB, then {last:.1f} MB ({growth:+.1%}; lowest {min(samples):.1f},"
        f" highest {max(samples):.1f}); exit code 0: {clean}"
    )
    return clean and not (outcome.refused or outcome.other or outcome.broken) and growth < MOST_GROWTH


def _memory_mb(service: Service) -> float:
    """The memory of the main process and its children, shared pages in proportion; PostgreSQL keeps to its own settings."""
    return sum(_pss_mb(pid) for pid in (service.pid, *children(service.pid, b"python")))


def _pss_mb(pid: int) -> float:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) / 1024
    return 0.0
