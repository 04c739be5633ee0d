"""Storage in a folder and in a bucket: the same tests for both."""

import asyncio
import base64
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
from click.testing import CliRunner

from stoa.access.closures import delete_store
from stoa.access.operator import find_store
from stoa.app import Application
from stoa.cli import cli
from stoa.db.pool import Database
from stoa.media.addresses import name_in_url
from stoa.media.contract import StorageAway
from stoa.media.s3 import Bucket
from stoa.media.storage import Storage, folder_of, key_of, name_of_key, open_storage
from stoa.operations.doctor import examine
from stoa.operations.maintenance import maintain
from stoa.pictures.removal import compare_files, remove_erased, remove_unused
from stoa.products import collection_changes as changes
from stoa.products.collection_changes import Details
from stoa.settings import Settings, WrongSetting
from stoa.store_data.export import export_store
from tests.pictures.samples import opened, picture, upload
from tests.support.shops import Shop, open_shop, operator_of


async def create(shop: Shop, data: bytes) -> dict[str, Any]:
    body = {"name": "Mug", "price": "1.00", "images": [upload(data)]}
    answer = await shop.client.post("/products", json=body)
    assert answer.status_code == 201, answer.text
    return answer.json()["data"]


async def get(shop: Shop, product: dict[str, Any], query: str = "") -> httpx.Response:
    return await shop.service.get(httpx.URL(product["images"][0]["url"]).path + query)


async def age(shop: Shop, **delta: int) -> None:
    """Let the unreferenced files of a store be older."""
    await shop.db.execute(
        "UPDATE media_files SET unreferenced_since = unreferenced_since - $2::interval WHERE store_id = $1",
        shop.store_id,
        timedelta(**delta),
    )


async def test_files_are_written_read_listed_and_deleted(storage: Storage) -> None:
    names = {f"{store}/{n:040x}.jpg": bytes([n]) * 1000 for store in (7, 70) for n in range(3)}
    for name, data in names.items():
        await storage.put(name, data)
        await storage.put(name, data)
    assert [await storage.get(name) for name in names] == [*names.values()]
    assert await storage.get(f"7/{9:040x}.jpg") is None
    assert sorted([key async for key in storage.list_keys()]) == sorted(names)
    assert sorted([key async for key in storage.list_keys("7/")]) == sorted(
        each for each in names if each.startswith("7/")
    )
    await storage.delete(next(iter(names)))
    await storage.delete(next(iter(names)))
    await storage.delete_all("7/")
    assert sorted([key async for key in storage.list_keys()]) == sorted(
        each for each in names if each.startswith("70/")
    )
    await storage.check()


async def test_a_picture_is_stored_and_served(media_shop: Shop, storage: Storage) -> None:
    product = await create(media_shop, picture(700, 350))
    assert opened((await get(media_shop, product)).content).size == (700, 350)
    assert opened((await get(media_shop, product, "?w=160")).content).size == (160, 80)
    keys = [key async for key in storage.list_keys(f"{media_shop.store_id}/")]
    assert len(keys) == 1 + 4, "the picture in its own width, and in 64, 160, 320 and 640"


async def test_an_unreferenced_picture_is_removed_after_a_delay(
    media_shop: Shop, storage: Storage, db: Database, media_settings: Settings
) -> None:
    kept, removed = await create(media_shop, picture(100, 100)), await create(media_shop, picture(200, 100))
    await age(media_shop, days=30)
    await remove_unused(db, media_settings)
    assert [(await get(media_shop, each)).status_code for each in (kept, removed)] == [200, 200], "both are shown"
    await media_shop.client.patch(f"/products/{removed['id']}", json={"images": []})
    await remove_unused(db, media_settings)
    await age(media_shop, days=6)
    await remove_unused(db, media_settings)
    assert (await get(media_shop, removed)).status_code == 200, "a restored backup may show it"
    name = name_in_url(removed["images"][0]["url"]) or ""
    assert await storage.get(name) is not None
    await age(media_shop, days=2)
    assert await remove_unused(db, media_settings) >= 1
    left = {key async for key in storage.list_keys(f"{media_shop.store_id}/")}
    assert (any(key.startswith(name[:-4]) for key in left), await storage.get(name)) == (False, None)
    assert (await get(media_shop, kept)).status_code == 200


async def test_a_picture_that_is_uploaded_again_is_not_removed(
    media_shop: Shop, storage: Storage, db: Database, media_settings: Settings
) -> None:
    product = await create(media_shop, picture())
    await media_shop.client.delete(f"/products/{product['id']}")
    await remove_unused(db, media_settings)
    await age(media_shop, days=8)
    again = await create(media_shop, picture())
    await remove_unused(db, media_settings)
    assert (await get(media_shop, again)).status_code == 200
    assert await storage.get(name_in_url(again["images"][0]["url"]) or "") is not None


async def test_a_picture_whose_removal_has_begun_is_not_shown_again_without_its_file(
    shop: Shop, settings: Settings, db: Database
) -> None:
    product = await create(shop, picture(700, 350))
    [image] = product["images"]
    await shop.client.delete(f"/products/{product['id']}")
    await remove_unused(db, settings)
    await age(shop, days=8)
    storage = open_storage(settings)
    name = name_in_url(image["url"]) or ""
    folder = folder_of(settings)
    assert folder is not None
    stuck = folder / key_of(name, 64).replace("/", f"/{name.partition('/')[2][:2]}/")
    stuck.unlink()
    stuck.mkdir()  # a file that cannot be deleted
    with pytest.raises(StorageAway):
        await remove_unused(db, settings)
    assert await storage.get(name) is None, "other files are deleted"
    body = {"name": "Cup", "price": "1.00", "images": [{"url": image["url"]}]}
    [shown] = (await shop.client.post("/products", json=body)).json()["data"]["images"]
    assert (image["width"], shown["width"]) == (700, None), "it is an address like any other"
    stuck.rmdir()
    [again] = (await create(shop, picture(700, 350)))["images"]
    assert (again["url"], again["width"]) == (image["url"], 700)
    await remove_unused(db, settings)
    assert (await get(shop, {"images": [again]})).status_code == 200


async def test_a_check_finds_missing_and_unreferenced_files(
    media_shop: Shop, storage: Storage, db: Database, media_settings: Settings
) -> None:
    product = await create(media_shop, picture())
    name = name_in_url(product["images"][0]["url"]) or ""
    stray = f"{media_shop.store_id}/{5:040x}.webp"
    await storage.put(stray, b"stray")
    await storage.delete(name)
    for key in [key async for key in storage.list_keys(f"{media_shop.store_id}/") if key.startswith(name[:-4])]:
        await storage.delete(key)
    [mine] = [
        each async for each in compare_files(operator_of(db, media_settings)) if each.store_id == media_shop.store_id
    ]
    assert (mine.missing, mine.unreferenced) == ([name], [stray])
    environment = {
        "STOA_DATABASE_URL": media_settings.database_url,
        "STOA_SECRET_KEY": media_settings.secret_key,
        "STOA_MEDIA_URL": media_settings.media_url,
    }
    done = await asyncio.to_thread(CliRunner().invoke, cli, ["media", "check", "--json"], env=environment)
    assert done.exit_code == 1, done.output
    assert name in json.loads(done.stdout)["missing"]


async def test_an_export_contains_the_files(media_shop: Shop, media_settings: Settings, db: Database) -> None:
    product = await create(media_shop, picture())
    row = await find_store(db, media_shop.store.handle)
    text = b"".join([part async for part in export_store(db, row, media_settings)])
    [exported] = [line["data"] for line in map(json.loads, text.splitlines()) if line["type"] == "picture"]
    assert product["images"][0]["url"].endswith(exported["path"])
    assert base64.b64decode(exported["data"]) == (await get(media_shop, product)).content
    assert exported["content_type"] == "image/jpeg"


async def test_the_files_of_an_erased_store_are_removed(
    media_shop: Shop, storage: Storage, db: Database, media_settings: Settings
) -> None:
    await create(media_shop, picture())
    await delete_store(media_shop.operator, media_shop.store.handle, days=0)
    for _ in range(20):
        await maintain(db)
    assert [key async for key in storage.list_keys(f"{media_shop.store_id}/")] != []
    await remove_erased(db, media_settings)
    assert [key async for key in storage.list_keys(f"{media_shop.store_id}/")] == []
    [[left]] = await db.fetch("SELECT count(*) FROM erased_media WHERE erased_id = $1", media_shop.store_id)
    assert left == 0


async def test_the_files_of_an_erased_store_that_cannot_be_removed_are_tried_again(
    db: Database, settings: Settings, tmp_path: Path
) -> None:
    in_folder = msgspec.structs.replace(settings, media_url=(tmp_path / "media").as_uri())
    storage, stuck, other = open_storage(in_folder), 7_000_000_007, 7_000_000_008
    for store_id in (stuck, other):
        await storage.put(f"{store_id}/{5:040x}.webp", b"a picture")
        await db.execute("INSERT INTO erased_media (erased_id) VALUES ($1)", store_id)
    folder, moved = tmp_path / "media" / str(stuck), tmp_path / "moved"
    folder.rename(moved)
    folder.symlink_to(moved)  # cannot be removed as a folder, not even by root
    with pytest.raises(OSError, match="symbolic link"):
        await remove_erased(db, in_folder)
    noted = "SELECT erased_id FROM erased_media WHERE erased_id = ANY ($1::bigint[])"
    assert await db.fetch(noted, [stuck, other]) == [(stuck,)], "the files of the other store are removed"
    folder.unlink()
    moved.rename(folder)
    await remove_erased(db, in_folder)
    assert (await db.fetch(noted, [stuck, other]), [key async for key in storage.list_keys()]) == ([], [])


async def test_the_doctor_examines_the_storage(media_settings: Settings) -> None:
    found = {each.check: each for each in await examine(media_settings.database_url, media_settings)}
    assert found["pictures"].status == "ok", found["pictures"]


async def test_a_storage_that_is_away_fails_the_upload_and_nothing_else(
    db: Database, settings: Settings, s3: str
) -> None:
    away = msgspec.structs.replace(settings, media_url=f"http://key:secret@{s3}/no-such-bucket")
    found = {each.check: each for each in await examine(away.database_url, away)}
    assert (found["pictures"].status, "404 NoSuchBucket" in found["pictures"].detail) == ("problem", True)
    application = Application(away)
    shop = await open_shop(application, db)
    body: dict[str, Any] = {"name": "Mug", "price": "1.00", "sku": "MUG-1"}
    refused = await shop.client.post("/products", json={**body, "images": [upload(picture())]})
    assert (refused.status_code, refused.json()["code"]) == (503, "unavailable"), refused.text
    assert refused.headers["retry-after"] == "5"
    assert "storage of pictures is unavailable" in refused.json()["detail"]
    assert (await shop.client.post("/products", json=body)).status_code == 201
    missing = await shop.service.get(f"/media/{shop.store_id}/{5:040x}.webp")
    assert missing.status_code in (404, 503)
    await shop.client.aclose()
    await application.close()


async def test_the_first_uploads_of_a_service_arrive_together(media_shop: Shop, storage: Storage) -> None:
    """Nothing of the storage exists yet: no folder of the store, no connection, and no decoder."""
    files = [picture(100 + 10 * (n % 4), 80) for n in range(12)]  # some of them are the same
    products = await asyncio.gather(*(create(media_shop, file) for file in files))
    addresses = {product["images"][0]["url"] for product in products}
    assert len(addresses) == 4
    assert {(await get(media_shop, product)).status_code for product in products} == {200}
    names = {name_of_key(key) async for key in storage.list_keys(f"{media_shop.store_id}/")}
    assert names == {name_in_url(each) for each in addresses}


async def test_the_picture_of_a_collection_is_kept_exported_and_checked(
    media_shop: Shop, storage: Storage, db: Database, media_settings: Settings
) -> None:
    by, handle = media_shop.operator, media_shop.store.handle
    shown = await changes.store_picture(by, handle, picture())
    await changes.create_collection(by, handle, "gifts", Details("Gifts", picture=shown))
    name = name_in_url(shown) or ""
    await age(media_shop, days=30)
    await remove_unused(db, media_settings)
    assert await storage.get(name) is not None, "a collection shows it"
    row = await find_store(db, handle)
    text = b"".join([part async for part in export_store(db, row, media_settings)])
    exported = [(line["type"], line["data"]) for line in map(json.loads, text.splitlines())]
    assert [data["picture"] for kind, data in exported if kind == "collection"] == [shown]
    assert [data["path"] for kind, data in exported if kind == "picture"] == [f"/media/{name}"]
    await storage.delete(name)
    [mine] = [
        each async for each in compare_files(operator_of(db, media_settings)) if each.store_id == media_shop.store_id
    ]
    assert (mine.missing, mine.unreferenced) == ([name], []), "its smaller sizes are left, which do not replace it"
    for key in [key async for key in storage.list_keys(f"{media_shop.store_id}/")]:
        await storage.delete(key)
    [mine] = [
        each async for each in compare_files(operator_of(db, media_settings)) if each.store_id == media_shop.store_id
    ]
    assert mine.missing == [name]
    await changes.update_collection(by, handle, "gifts", picture="")
    await remove_unused(db, media_settings)
    await age(media_shop, days=8)
    await remove_unused(db, media_settings)
    [[rows]] = await db.fetch("SELECT count(*) FROM media_files WHERE store_id = $1", media_shop.store_id)
    assert rows == 0


async def test_a_picture_that_a_collection_is_given_by_its_address_is_not_removed_meanwhile(
    media_shop: Shop, db: Database, media_settings: Settings
) -> None:
    product = await create(media_shop, picture())
    await media_shop.client.delete(f"/products/{product['id']}")
    await remove_unused(db, media_settings)
    await age(media_shop, days=8)
    details = Details("Gifts", picture=product["images"][0]["url"])
    await changes.create_collection(media_shop.operator, media_shop.store.handle, "gifts", details)
    await remove_unused(db, media_settings)
    assert (await get(media_shop, product)).status_code == 200


@pytest.mark.parametrize(
    "url", ["s3://bucket", "https://host/bucket", "https://key:secret@host", "ftp://key:secret@host/bucket", "folder"]
)
def test_an_unusable_setting_is_refused(url: str) -> None:
    with pytest.raises(WrongSetting, match="STOA_MEDIA_URL"):
        open_storage(Settings(media_url=url))


@pytest.mark.parametrize(
    ("query", "signature"),
    [
        ("lifecycle=", "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543"),
        ("max-keys=2&prefix=J", "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7"),
    ],
)
def test_requests_are_signed_as_in_the_examples_of_aws(query: str, signature: str) -> None:
    keys = ("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
    bucket = Bucket("https://examplebucket.s3.amazonaws.com", "examplebucket", "", "us-east-1", keys)
    signed = bucket.signed("GET", "/", query, b"", datetime(2013, 5, 24, tzinfo=UTC))
    assert signed["authorization"].endswith(f"Signature={signature}")
