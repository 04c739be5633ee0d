"""Loops that run beside the work of a process: a run that fails is logged and repeated, and stops no other loop."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import structlog

from stoa.db.errors import cause

LONGEST_RETRY_S = 30.0


async def repeat(name: str, every: float, run: Callable[[], Awaitable[Any]]) -> None:
    """Run every so many seconds until canceled. After a failure the next run comes within 30 seconds."""
    while True:
        pause = every
        try:
            await run()
        except Exception as error:  # noqa: BLE001 - the next run may succeed
            log_failure(name, error)
            pause = min(every, LONGEST_RETRY_S)
        await asyncio.sleep(pause)


@asynccontextmanager
async def beside(*loops: Coroutine[Any, Any, None]) -> AsyncGenerator[None]:
    """Run loops beside the work of the block, and cancel them when it ends."""
    tasks = [asyncio.create_task(loop) for loop in loops]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def log_failure(duty: str, error: Exception) -> None:
    structlog.get_logger().warning("duty failed", duty=duty, **cause(error))
