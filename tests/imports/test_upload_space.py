"""Concurrent uploads share limited space for temporary files; a full disk refuses them and leaves nothing behind."""

import asyncio
import gzip
import subprocess
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import httpx
import msgspec
import pytest

from stoa.app import Application
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.imports.files import NDJSON
from tests.support.shops import Shop, open_shop

LIMIT, OF_APP = 300_000, 200_000
ROW = b'{"sku":"A","name":"Mug","price":"9.90"}\n'
LARGE = ROW * (120_000 // len(ROW))


@pytest.fixture
async def limited(settings: Settings) -> AsyncIterator[Application]:
    """An application with little space for uploads."""
    app = Application(msgspec.structs.replace(settings, max_upload_bytes=LIMIT, app_upload_bytes=OF_APP))
    yield app
    await app.close()


@asynccontextmanager
async def uploading(shop: Shop) -> AsyncGenerator[asyncio.Task[httpx.Response]]:
    """An upload whose decompressed bytes have arrived, and which ends when the block does."""
    arrived, ended = asyncio.Event(), asyncio.Event()
    zipped = gzip.compress(LARGE)

    async def body() -> AsyncIterator[bytes]:
        yield zipped[:-8]  # all of the content, without the checksum
        arrived.set()
        await ended.wait()
        yield zipped[-8:]

    task = asyncio.create_task(upload(shop, body(), zipped=True))
    await arrived.wait()
    yield task
    ended.set()
    assert (await task).status_code == 202


async def upload(shop: Shop, content: bytes | AsyncIterator[bytes], *, zipped: bool = False) -> httpx.Response:
    headers = {"content-type": NDJSON, **({"content-encoding": "gzip"} if zipped else {})}
    return await shop.client.post("/products/imports", content=content, headers=headers, params={"dry_run": "true"})


async def test_the_uploads_of_an_app_are_bounded_by_their_decompressed_bytes(
    limited: Application, db: Database
) -> None:
    shop = await open_shop(limited, db)
    async with uploading(shop):
        refused = await upload(shop, gzip.compress(LARGE), zipped=True)
        assert (refused.status_code, refused.json()["code"]) == (429, "rate_limited")
        assert int(refused.headers["retry-after"]) > 0
        assert (await upload(shop, ROW)).status_code == 202, "a small one fits"
    assert (await upload(shop, LARGE)).status_code == 202, "there is space again"
    await shop.client.aclose()


async def test_the_uploads_of_a_worker_are_bounded(limited: Application, db: Database) -> None:
    one, other, third = [await open_shop(limited, db) for _ in range(3)]
    async with uploading(one), uploading(other):
        refused = await upload(third, LARGE)
        assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
        assert int(refused.headers["retry-after"]) > 0
    assert (await upload(third, LARGE)).status_code == 202
    for shop in (one, other, third):
        await shop.client.aclose()


async def test_an_upload_that_fails_frees_its_space(limited: Application, db: Database) -> None:
    shop = await open_shop(limited, db)
    for _ in range(5):
        assert (await upload(shop, gzip.compress(LARGE)[:-8], zipped=True)).status_code == 415, "it is truncated"
        assert (await upload(shop, b"\xff" * 150_000)).status_code == 415, "it is not UTF-8"
    assert (await upload(shop, LARGE)).status_code == 202
    await shop.client.aclose()


async def test_a_full_disk_is_temporary_and_leaves_nothing_behind(shop: Shop, small_disk: Path) -> None:
    rows = b"".join(ROW.replace(b"A", b"A%d" % number) for number in range(30_000))
    for content, zipped in ((rows, False), (gzip.compress(rows), True)):
        refused = await upload(shop, content, zipped=zipped)
        assert (refused.status_code, refused.json()["code"]) == (503, "unavailable")
        assert int(refused.headers["retry-after"]) > 0
        assert free(small_disk) == 1_048_576
    assert (await upload(shop, ROW)).status_code == 202


def free(folder: Path) -> int:
    found = subprocess.run(["stat", "-f", "-c", "%S %f", str(folder)], capture_output=True, text=True, check=True)
    block, blocks = map(int, found.stdout.split())
    return block * blocks
