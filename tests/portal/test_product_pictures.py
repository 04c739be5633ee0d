"""Pictures of a product in the portal: shown from this service only, uploaded, fetched, described, ordered and removed."""

import re
from typing import Any

from stoa.access import audit
from stoa.db.pool import Database
from tests.pictures.samples import picture, upload
from tests.support.people import SAME_ORIGIN, User
from tests.support.shops import Shop

MUG = {"name": "Mug", "price": "12.00"}


async def images_of(shop: Shop, product_id: int) -> list[dict[str, Any]]:
    return (await shop.client.get(f"/products/{product_id}")).json()["data"]["images"]


async def create(shop: Shop, *images: dict[str, Any]) -> int:
    return (await shop.client.post("/products", json={**MUG, "images": list(images)})).json()["data"]["id"]


async def add(user: User, url: str, data: bytes | None, **fields: str) -> None:
    """Submit the form of a new picture as a browser does."""
    await user.open(url)
    [key, *_] = re.findall(r'name="key" value="([^"]+)"', user.response.text)
    sent = {"_token": user.token, "key": key, **fields}
    files = {"file": ("mug.png", data or b"", "image/png")}
    user.response = await user.client.post(
        f"{url}/pictures", data=sent, files=files, headers=SAME_ORIGIN, follow_redirects=True
    )


async def test_thumbnails_come_from_this_service_and_other_pictures_are_drawn(
    shop: Shop, maria: User, store_url: str
) -> None:
    own = await create(shop, upload(picture()))
    await create(shop, {"url": "https://a.example/b.jpg"})
    [image] = await images_of(shop, own)
    await maria.open(f"{store_url}/products")
    path = image["url"].partition("/media/")[2]
    assert f'src="/media/{path}?w=160"' in maria.text
    assert ('<svg class="thumbnail"' in maria.text, "a.example" in maria.text) == (True, False)
    await maria.open(f"{store_url}/products/{own}")
    assert f'src="/media/{path}?w=160"' in maria.text
    assert "img-src 'self'" in maria.response.headers["content-security-policy"]


async def test_a_person_uploads_a_picture_once(shop: Shop, maria: User, store_url: str, db: Database) -> None:
    product_id = await create(shop)
    url = f"{store_url}/products/{product_id}"
    await add(maria, url, picture(kind="PNG"), alt="A red mug")
    assert maria.notice == "The picture was added.", maria.faults
    [image] = await images_of(shop, product_id)
    assert (image["alt"], image["width"], image["status"]) == ("A red mug", 300, "ready")
    [entry] = await audit.newest(db, shop.store_id, 1)
    assert (entry.action, entry.subject) == ("product.pictures_changed", f"product:{product_id}")
    await add(maria, url, None, source_url="https://pictures.example.com/mug.jpg")
    assert maria.notice == "The picture is being fetched."
    assert [each["status"] for each in await images_of(shop, product_id)] == ["ready", "pending"]
    assert "Being fetched" in maria.text


async def test_an_unusable_file_has_its_message(shop: Shop, maria: User, store_url: str) -> None:
    product_id = await create(shop)
    url = f"{store_url}/products/{product_id}"
    await add(maria, url, None)
    assert maria.faults == {"file": "Select a file, or enter an address."}
    await add(maria, url, b"Dear reader, ...")
    assert maria.faults == {"file": "The file is not a JPEG, PNG, WebP, GIF or AVIF file."}
    await add(maria, url, b"\xff" * (8 * 1024 * 1024 + 1))
    assert maria.faults == {"file": "The file has more than 8 MB."}
    await add(maria, url, None, source_url="mug.jpg")
    assert maria.faults.keys() == {"source_url"}
    assert await images_of(shop, product_id) == []


async def test_pictures_are_described_ordered_and_removed(shop: Shop, maria: User, store_url: str) -> None:
    urls = [{"url": f"https://a.example/{n}.jpg", "alt": f"Number {n}"} for n in (1, 2, 3)]
    product_id = await create(shop, *urls)
    url = f"{store_url}/products/{product_id}"
    await maria.open(url)
    [key, *_] = re.findall(r'name="key" value="([^"]+)"', maria.response.text)
    form = {
        "key": key,
        "shown": ["1", "2", "3"],
        "alts[1]": "First",
        "alts[3]": "Third",
        "positions[1]": "3",
        "positions[2]": "2",
        "positions[3]": "1",
        "removed": ["2"],
    }
    await maria.submit(f"{url}/pictures/order", form)
    assert maria.notice == "The pictures were saved."
    shown = [(each["id"], each["alt"], each["position"]) for each in await images_of(shop, product_id)]
    assert shown == [(3, "Third", 1), (1, "First", 2)]
    await maria.submit(f"{url}/pictures/order", form)
    assert "already submitted" in maria.notice
