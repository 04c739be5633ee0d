"""Pictures: hostile uploads hardly affect the app API, many pictures are fetched in time, and thumbnails are served fast."""

import asyncio
import os
import statistics
import time
from pathlib import Path

import click
import httpx
import msgspec

from stoa.db.connection import connect
from tests.figures.calling import Line, call
from tests.figures.pages import PageLine
from tests.pictures.samples import bomb, photo, picture, upload
from tests.pictures.source import running_source
from tests.support.service import Account, Service

HOSTILE, AT_ONCE, MOST_GROWTH = 200, 20, 2.0
PICTURES, SIDE, FETCHED_WITHIN_S = 1_000, 1_500, 180.0
THUMBNAILS_PER_S = 5_000
_CALLERS, _THINK_MS = 4, 20


def hostile_bodies() -> list[bytes]:
    """Uploads that cost as much as possible before they are refused."""
    files = [
        (bomb(50_000, 50_000), "image/png"),
        (bomb(6_300, 6_300), "image/png"),
        (photo(1_500)[:-1_000], "image/jpeg"),
        (os.urandom(8 * 1024 * 1024), "image/webp"),
        (b"<svg onload='alert(1)'/>", "image/png"),
    ]
    return [
        msgspec.json.encode({"name": "Mug", "price": "1.00", "images": [upload(data, media)]}) for data, media in files
    ]


async def upload_hostile(account: Account) -> list[int]:
    """Send hostile uploads, some at once, and return their statuses."""
    bodies, statuses = hostile_bodies(), list[int]()

    async def send(numbers: range) -> None:
        async with account.client() as client:
            for n in numbers:
                answer = await client.post(
                    "/products",
                    content=bodies[n % len(bodies)],
                    headers={"content-type": "application/json"},
                    timeout=120,
                )
                statuses.append(answer.status_code)

    await asyncio.gather(*(send(range(n, HOSTILE, AT_ONCE)) for n in range(AT_ONCE)))
    return statuses


async def fetch_many(service: Service, account: Account) -> float:
    """Let the service fetch pictures from this machine; returns how long it takes."""
    async with running_source() as source:
        file = photo(SIDE)
        source.files = {f"{n}.jpg": file for n in range(PICTURES)}
        started = time.monotonic()
        async with account.client() as client:
            for first in range(0, PICTURES, 100):
                items = [
                    {"op": "create", "data": {"name": f"Mug {n}", "price": "1.00", "images": [{"source_url": source.at(f"{n}.jpg")}]}}
                    for n in range(first, first + 100)
                ]  # fmt: skip
                answer = await client.post("/products/batch", json={"items": items}, timeout=60)
                answer.raise_for_status()
        db = await connect(service.database_url)
        try:
            while (await db.fetch("SELECT count(*) FROM picture_fetches"))[0][0]:
                await asyncio.sleep(0.5)
            [[ready]] = await db.fetch("SELECT count(*) FROM products WHERE head LIKE '%/media/%'")
        finally:
            await db.close()
        assert ready >= PICTURES, f"{ready} of {PICTURES} pictures are ready"
        click.echo(f"pictures: {PICTURES} files of {len(file) / 1e6:.1f} MB")
        return time.monotonic() - started


async def show_pictures(folder: Path, seconds: float) -> bool:
    with Service(
        folder,
        workers=1,
        access_log=False,
        log_level="error",
        webhook_allow="127.0.0.1",
        media_url=(folder / "media").as_uri(),
    ) as service:
        account = await service.account("pictures", burst=100_000, refill=10_000)
        others = await service.account("hostile", burst=100_000, refill=10_000)
        async with account.client() as client:
            body = {"name": "Mug", "price": "9.90", "images": [upload(picture(800, 600))]}
            shown = (await client.post("/products", json=body)).json()["data"]["images"][0]["url"]
        lines = [Line(account, "/products?limit=20")]

        async def median() -> float:
            return (await call(folder, lines, callers=_CALLERS, seconds=seconds, think_ms=_THINK_MS)).p50_ms

        await median()
        alone = await median()
        uploading = asyncio.create_task(upload_hostile(others))
        beside: list[float] = []
        while not uploading.done():
            beside.append(await median())
        statuses = await uploading
        refused = {status: statuses.count(status) for status in sorted(set(statuses))}
        growth = statistics.median(beside) / alone
        click.echo(
            f"pictures: median of the app API {alone:.1f} ms alone, {statistics.median(beside):.1f} ms beside {HOSTILE} hostile uploads"
            f" ({refused})"
        )
        path = f"{httpx.URL(shown).path}?w=160"
        served = await call(folder, [PageLine(account, path)], callers=32, seconds=seconds, name="thumbnails")
        click.echo(f"pictures: {served.good_per_s:.0f} thumbnails a second")
        fetching = asyncio.create_task(fetch_many(service, account))
        traffic: list[float] = []
        while not fetching.done():
            traffic.append(await median())
        fetched_s = await fetching
    click.echo(
        f"pictures: {PICTURES} fetched in {fetched_s:.0f} s, beside traffic with a median of {statistics.median(traffic):.1f} ms"
    )
    answered = set(refused) <= {422, 503}
    return (
        answered and growth <= MOST_GROWTH and fetched_s <= FETCHED_WITHIN_S and served.good_per_s >= THUMBNAILS_PER_S
    )
