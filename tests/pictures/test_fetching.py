"""Pictures by `source_url`: fetched once, in the background, from addresses that are public, within limits."""

import asyncio
import os
import signal
import socket
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from stoa.app import Application
from stoa.db.pool import Database
from stoa.media.queries import STORES_WITH_FETCHES
from stoa.pictures.fetching import MOST_AT_ONCE, RETRY_S, PictureFetcher
from stoa.settings import Settings
from stoa.webhooks.http.address_guard import Allowed
from stoa.webhooks.http.download import Downloader
from stoa.webhooks.http.resolver import Infos
from tests.imports.files import CSV, import_file, lines
from tests.pictures.samples import SCRIPT, bomb, photo
from tests.pictures.source import Source, running_source
from tests.support.databases import PATIENCE_S
from tests.support.shops import Shop, open_shop

MUG = {"name": "Mug", "price": "12.00"}


@pytest.fixture
async def source() -> AsyncIterator[Source]:
    async with running_source() as running:
        yield running


@pytest.fixture
async def fetcher(db: Database, settings: Settings) -> AsyncIterator[PictureFetcher]:
    """Fetches from this machine, and waits long, because the machine may be busy."""
    made = PictureFetcher(db, settings, Downloader(Allowed.parse("127.0.0.1"), seconds=PATIENCE_S))
    yield made
    await made.close()


async def create(shop: Shop, *urls: str) -> dict[str, Any]:
    body = {**MUG, "images": [{"source_url": url, "alt": "A mug"} for url in urls]}
    answer = await shop.client.post("/products", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()["data"]


async def images_of(shop: Shop, product: dict[str, Any]) -> list[dict[str, Any]]:
    return (await shop.client.get(f"/products/{product['id']}")).json()["data"]["images"]


async def events_of(shop: Shop) -> list[dict[str, Any]]:
    rows = await shop.db.fetch(
        """SELECT type, changes, data FROM events WHERE store_id = $1 AND type LIKE 'product.%'
            ORDER BY resource_id, resource_version""",
        shop.store_id,
    )
    return [{"type": kind, "changes": msgspec.json.decode(changes), "data": msgspec.json.decode(data)}
            for kind, changes, data in rows]  # fmt: skip


async def let_retries_begin(shop: Shop) -> None:
    await shop.db.execute("UPDATE picture_fetches SET due_at = now() WHERE store_id = $1", shop.store_id)


async def waiting(shop: Shop) -> int:
    [[count]] = await shop.db.fetch("SELECT count(*) FROM picture_fetches WHERE store_id = $1", shop.store_id)
    return count


async def test_a_picture_is_pending_until_it_is_fetched(shop: Shop, source: Source, fetcher: PictureFetcher) -> None:
    url = source.at("mug.jpg")
    product = await create(shop, url)
    [image] = product["images"]
    assert (image["url"], image["source_url"], image["status"], image["width"]) == (url, url, "pending", None)
    await fetcher.fetch_due()
    [ready] = await images_of(shop, product)
    assert (ready["status"], ready["source_url"], ready["width"], ready["alt"]) == ("ready", url, 300, "A mug")
    assert "/media/" in ready["url"]
    created, updated = await events_of(shop)
    assert (created["type"], updated["type"]) == ("product.created", "product.updated")
    assert updated["changes"] == {"images": [[image], [ready]]}
    assert updated["data"]["images"] == [ready]
    await fetcher.fetch_due()
    assert (source.requests["mug.jpg"], len(await events_of(shop)), await waiting(shop)) == (1, 2, 0)


async def test_the_same_source_is_not_fetched_again(shop: Shop, source: Source, fetcher: PictureFetcher) -> None:
    product = await create(shop, source.at("mug.jpg"))
    await fetcher.fetch_due()
    [ready] = await images_of(shop, product)
    for sent in ({"source_url": source.at("mug.jpg"), "alt": "A mug"}, ready, {"id": 1, "alt": "A mug"}):
        answer = await shop.client.patch(f"/products/{product['id']}", json={"images": [sent]})
        assert answer.json()["data"]["images"] == [ready], sent
    other = {"source_url": source.at("cup.jpg")}
    changed = await shop.client.patch(f"/products/{product['id']}", json={"images": [ready, other]})
    assert [each["status"] for each in changed.json()["data"]["images"]] == ["ready", "pending"]
    await fetcher.fetch_due()
    assert [each["status"] for each in await images_of(shop, product)] == ["ready", "ready"]
    assert source.requests == {"mug.jpg": 1, "cup.jpg": 1}


@pytest.mark.parametrize(
    ("path", "reason"),
    [
        ("missing", "the server answered 404"),
        ("text", "the file is not a JPEG, PNG, WebP, GIF or AVIF file"),
        ("endless", "the file has more than 8,388,608 bytes"),
        ("loop", "the server redirects more than 3 times"),
        ("redirect/inside?to=http://169.254.169.254/latest", "the address must use https"),
        ("redirect/inside?to=https://10.0.0.1/a.jpg", "the address must have a public address"),
        ("redirect/inside?to=file:///etc/passwd", "the address must begin with https:// and a host"),
        ("redirect/inside?to=http://[", "the server redirects to an invalid address"),
    ],
)
async def test_a_lasting_failure_has_its_reason(
    shop: Shop, source: Source, fetcher: PictureFetcher, path: str, reason: str
) -> None:
    product = await create(shop, source.at(path))
    await fetcher.fetch_due()
    [image] = await images_of(shop, product)
    assert (image["status"], image["reason"], image["url"]) == ("failed", reason, source.at(path))
    assert (await events_of(shop))[-1]["data"]["images"] == [image]
    assert await waiting(shop) == 0


async def test_a_hostile_file_has_its_reason(shop: Shop, source: Source, fetcher: PictureFetcher) -> None:
    source.files = {
        "empty": b"",
        "cut": photo(300)[:20_000],
        "bomb": bomb(50_000, 50_000),
        "script": b"<svg xmlns='http://www.w3.org/2000/svg'>" + SCRIPT + b"</svg>",
    }
    product = await create(shop, *map(source.at, source.files))
    await fetcher.fetch_due()
    assert [(each["status"], each["reason"]) for each in await images_of(shop, product)] == [
        ("failed", "the file is empty"),
        ("failed", "the file is truncated or damaged"),
        ("failed", "the file has 50000 x 50000 pixels; at most 40,000,000 are allowed"),
        ("failed", "the file is not a JPEG, PNG, WebP, GIF or AVIF file"),
    ]


async def test_a_redirect_is_followed(shop: Shop, source: Source, fetcher: PictureFetcher) -> None:
    product = await create(shop, source.at(f"redirect/once?to={source.at('mug.jpg')}"))
    await fetcher.fetch_due()
    assert [each["status"] for each in await images_of(shop, product)] == ["ready"]


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("http://pictures.example.com/a.jpg", "the address must use https"),
        ("https://127.0.0.1/a.jpg", "the address must have a public address"),
        ("https://localhost/a.jpg", "the address must have a public host name"),
        ("https://user:secret@pictures.example.com/a.jpg", "must not contain a user name or password"),
    ],
)
async def test_an_inner_address_is_never_dialed(
    shop: Shop, db: Database, settings: Settings, url: str, reason: str
) -> None:
    fetcher = PictureFetcher(db, settings)
    product = await create(shop, url)
    await fetcher.fetch_due()
    [image] = await images_of(shop, product)
    assert (image["status"], reason in image["reason"]) == ("failed", True), image
    await fetcher.close()


async def test_a_name_that_changes_between_check_and_connection_is_refused(
    shop: Shop, db: Database, settings: Settings, source: Source
) -> None:
    async def resolve(host: str, port: int) -> Infos:
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))]

    fetcher = PictureFetcher(db, settings, Downloader(Allowed(), resolve=resolve))
    product = await create(shop, "https://pictures.example.com/a.jpg")
    await fetcher.fetch_due()
    [image] = await images_of(shop, product)
    assert (image["status"], image["reason"]) == ("failed", "the address is not public")
    assert not source.requests
    await fetcher.close()


async def test_a_passing_failure_is_retried(shop: Shop, source: Source, fetcher: PictureFetcher) -> None:
    source.failing.add("mug.jpg")
    product = await create(shop, source.at("mug.jpg"))
    for _ in RETRY_S:
        await fetcher.fetch_due()
        assert [each["status"] for each in await images_of(shop, product)] == ["pending"]
        await let_retries_begin(shop)
    source.failing.clear()
    await fetcher.fetch_due()
    assert [each["status"] for each in await images_of(shop, product)] == ["ready"]
    assert source.requests == {"mug.jpg": len(RETRY_S) + 1}


async def test_an_outage_of_the_storage_uses_up_no_retry(
    shop: Shop, source: Source, db: Database, settings: Settings, tmp_path: Path, fetcher: PictureFetcher
) -> None:
    (tmp_path / "file").touch()
    no_folder = msgspec.structs.replace(settings, media_url=(tmp_path / "file").as_uri())
    away = PictureFetcher(db, no_folder, Downloader(Allowed.parse("127.0.0.1"), seconds=PATIENCE_S))
    product = await create(shop, source.at("mug.jpg"))
    for _ in range(len(RETRY_S) + 1):
        await away.fetch_due()
        await let_retries_begin(shop)
    await away.close()
    assert source.requests == {"mug.jpg": len(RETRY_S) + 1}
    source.failing.add("mug.jpg")
    for _ in RETRY_S:
        await fetcher.fetch_due()
        assert [each["status"] for each in await images_of(shop, product)] == ["pending"]
        await let_retries_begin(shop)
    await fetcher.fetch_due()
    assert [each["status"] for each in await images_of(shop, product)] == ["failed"]


async def test_a_server_that_sends_nothing_is_given_up_after_the_last_retry(
    shop: Shop, source: Source, fetcher: PictureFetcher, db: Database, settings: Settings
) -> None:
    product = await create(shop, source.at("mug.jpg"))
    await fetcher.fetch_due()
    [mug] = await images_of(shop, product)
    with_silent = {"images": [mug, {"source_url": source.at("silent")}]}
    await shop.client.patch(f"/products/{product['id']}", json=with_silent)
    impatient = PictureFetcher(db, settings, Downloader(Allowed.parse("127.0.0.1"), seconds=1.0))
    for _ in RETRY_S:
        await impatient.fetch_due()
        assert [each["status"] for each in await images_of(shop, product)] == ["ready", "pending"]
        await let_retries_begin(shop)
    await impatient.fetch_due()
    await impatient.close()
    _, silent = await images_of(shop, product)
    assert (silent["status"], silent["reason"]) == ("failed", "the server did not send the file within 1 seconds")
    assert source.requests == {"mug.jpg": 1, "silent": len(RETRY_S) + 1}
    again = await shop.client.patch(f"/products/{product['id']}", json=with_silent)
    assert [each["status"] for each in again.json()["data"]["images"]] == ["ready", "pending"], "it is sent again"


async def test_an_image_that_was_removed_meanwhile_stays_removed(
    shop: Shop, source: Source, fetcher: PictureFetcher
) -> None:
    kept, removed = await create(shop, source.at("a.jpg")), await create(shop, source.at("b.jpg"))
    deleted = await create(shop, source.at("c.jpg"))
    await shop.client.patch(f"/products/{removed['id']}", json={"images": []})
    await shop.client.delete(f"/products/{deleted['id']}")
    await fetcher.fetch_due()
    assert [each["status"] for each in await images_of(shop, kept)] == ["ready"]
    assert (await images_of(shop, removed), await waiting(shop)) == ([], 0)


async def test_two_workers_fetch_each_picture_once(
    shop: Shop, source: Source, db: Database, settings: Settings
) -> None:
    products = [await create(shop, *(source.at(f"{n}-{m}.jpg") for m in range(3))) for n in range(6)]
    fetchers = [PictureFetcher(db, settings, Downloader(Allowed.parse("127.0.0.1"))) for _ in range(2)]
    await asyncio.gather(*(each.fetch_due() for each in fetchers))
    for product in products:
        assert [each["status"] for each in await images_of(shop, product)] == ["ready"] * 3
    assert set(source.requests.values()) == {1}
    assert len(await events_of(shop)) == 6 + 18, "one event for each picture"
    for each in fetchers:
        await each.close()


_WORKER = """
import asyncio, sys
import msgspec
from stoa.app import Application
from stoa.db.pool import Database
from stoa.media.queries import STORES_WITH_FETCHES
from stoa.pictures.fetching import PictureFetcher
from stoa.settings import Settings
from stoa.webhooks.http.address_guard import Allowed
from stoa.webhooks.http.download import Downloader

async def main():
    settings = Settings(database_url=sys.argv[1], secret_key=sys.argv[2], media_url=sys.argv[3])
    fetcher = PictureFetcher(Database(settings.database_url, size=3), settings, Downloader(Allowed.parse("127.0.0.1")))
    await fetcher.fetch_due()

asyncio.run(main())
"""


async def test_a_worker_that_is_killed_leaves_its_pictures_to_the_next(
    shop: Shop, source: Source, fetcher: PictureFetcher, settings: Settings
) -> None:
    source.silent.add("mug.jpg")
    product = await create(shop, source.at("mug.jpg"))
    worker = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _WORKER, settings.database_url, settings.secret_key, settings.media_url
    )
    while not source.requests["mug.jpg"]:
        await asyncio.sleep(0.02)
    os.kill(worker.pid, signal.SIGKILL)
    await worker.wait()
    source.silent.clear()
    await fetcher.fetch_due()
    assert source.requests["mug.jpg"] == 1, "the lease lasts"
    await let_retries_begin(shop)
    await fetcher.fetch_due()
    assert [each["status"] for each in await images_of(shop, product)] == ["ready"]
    assert (await waiting(shop), len(await events_of(shop))) == (0, 2)


async def test_a_store_with_slow_servers_does_not_delay_another(
    shop: Shop, other_shop: Shop, source: Source, fetcher: PictureFetcher
) -> None:
    for _ in range(12):
        await create(shop, source.at("silent"))
    product = await create(other_shop, source.at("mug.jpg"))
    task = asyncio.create_task(fetcher.fetch_due())

    async def is_ready() -> bool:
        return [each["status"] for each in await images_of(other_shop, product)] == ["ready"]

    while not await is_ready():
        assert not task.done()
        await asyncio.sleep(0.02)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    await shop.db.execute("DELETE FROM picture_fetches WHERE store_id = $1", shop.store_id)


async def test_two_stores_with_slow_servers_do_not_delay_a_third(
    shop: Shop, other_shop: Shop, source: Source, db: Database, settings: Settings, application: Application
) -> None:
    third = await open_shop(application, db)
    for each in (shops := [shop, other_shop, third]):
        await create(each, source.at("mug.jpg"))
    order = await STORES_WITH_FETCHES.all(db.autocommit)
    *slow, last = sorted(shops, key=lambda each: order.index(each.store_id))
    fetcher = PictureFetcher(db, settings, Downloader(Allowed.parse("127.0.0.1"), seconds=1.0))
    await fetcher.fetch_due()
    for each in slow:
        for _ in range(4):
            await create(each, *(source.at(f"silent?{n}") for n in range(10)))
    task = asyncio.create_task(fetcher.fetch_due())
    while source.requests["silent"] < MOST_AT_ONCE:
        await asyncio.sleep(0.02)
    product = await create(last, source.at("cup.jpg"))
    while (await images_of(last, product))[0]["status"] != "ready":
        assert not task.done()
        await asyncio.sleep(0.02)
    assert source.requests["silent"] < 80, "the others still wait for their servers"
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    for each in slow:
        await each.db.execute("DELETE FROM picture_fetches WHERE store_id = $1", each.store_id)
    await fetcher.close()
    await third.client.aclose()


async def test_a_file_imports_pictures_by_their_source(shop: Shop, source: Source, fetcher: PictureFetcher) -> None:
    rows = (
        f"name,price,sku,images.source_url\nMug,9.00,MUG-7,{source.at('a.jpg')} A mug|{source.at('b.jpg')}\n".encode()
    )
    for counted in ("created", "unchanged"):
        job = await import_file(shop, rows, CSV)
        assert job["counts"][counted] == 1, job
        await fetcher.fetch_due()
        [product] = (await shop.client.get("/products", params={"sku": "MUG-7"})).json()["data"]
        assert [(each["status"], each["alt"]) for each in product["images"]] == [("ready", "A mug"), ("ready", None)]
    exported = await shop.client.get("/products", headers={"accept": CSV})
    again = await import_file(shop, exported.content, CSV)
    assert again["counts"]["unchanged"] == 1, "what was exported changes nothing"
    both = b"name,price,sku,images,images.source_url\nMug,9.00,MUG-7,https://a.example/b.jpg,https://a.example/c.jpg\n"
    answer = await shop.client.post("/products/imports", content=both, headers={"content-type": CSV})
    assert answer.json()["errors"][0]["pointer"] == "/images.source_url"
    data = {"content_type": "image/png", "data": "aaaa"}
    failed = await import_file(shop, lines([{"name": "Mug", "price": "9.00", "sku": "MUG-8", "images": [data]}]))
    assert (failed["counts"]["failed"], failed["errors"][0]["pointer"]) == (1, "/images/0/data")


async def test_an_import_without_events_fetches_without_events(
    shop: Shop, source: Source, fetcher: PictureFetcher
) -> None:
    rows = f"name,price,sku,images.source_url\nMug,9.00,MUG-9,{source.at('a.jpg')}\n".encode()
    job = await import_file(shop, rows, CSV, send_events="false")
    assert job["counts"]["created"] == 1, job
    await fetcher.fetch_due()
    [product] = (await shop.client.get("/products", params={"sku": "MUG-9"})).json()["data"]
    assert ([each["status"] for each in product["images"]], await events_of(shop)) == (["ready"], [])
    again = {"images": [{"source_url": source.at("b.jpg")}]}
    assert (await shop.client.patch(f"/products/{product['id']}", json=again)).status_code == 200
    await fetcher.fetch_due()
    assert [each["type"] for each in await events_of(shop)] == ["product.updated"] * 2, (
        "a later request sends its events"
    )


async def test_large_pictures_are_fetched(shop: Shop, source: Source, fetcher: PictureFetcher) -> None:
    source.files["large.jpg"] = photo(1500)
    product = await create(shop, source.at("large.jpg"))
    await fetcher.fetch_due()
    assert [each["width"] for each in await images_of(shop, product)] == [1500]
