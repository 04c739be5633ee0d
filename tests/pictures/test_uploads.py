"""Pictures in requests: decoded by content, without metadata, and refused with all faults at once."""

import asyncio
import base64
import itertools
import json
from typing import Any

import httpx
import pytest

from tests.pictures.samples import SCRIPT, animation, bomb, opened, photo, picture, upload, with_exif
from tests.support.shops import Shop

MUG = {"name": "Mug", "price": "12.00"}
PLAIN = {"width": None, "height": None, "status": "ready", "reason": None, "source_url": None}


async def create(shop: Shop, *images: dict[str, Any], **more: Any) -> httpx.Response:
    return await shop.client.post("/products", json={**MUG, **more, "images": list(images)})


async def stored(shop: Shop, image: dict[str, Any], query: str = "") -> bytes:
    """The file at the address of an image."""
    answer = await shop.service.get(httpx.URL(image["url"]).path + query)
    assert answer.status_code == 200, answer.text
    return answer.content


async def test_an_uploaded_picture_has_an_address_and_its_size(shop: Shop) -> None:
    answer = await create(shop, upload(picture(), alt="A mug"))
    assert answer.status_code == 201, answer.text
    [image] = answer.json()["data"]["images"]
    assert (image["width"], image["height"], image["status"], image["alt"]) == (300, 200, "ready", "A mug")
    assert (image["reason"], image["source_url"], image["position"]) == (None, None, 1)
    assert opened(await stored(shop, image)).size == (300, 200)
    product = (await shop.client.get(f"/products/{answer.json()['data']['id']}")).json()["data"]
    assert product["images"] == [image]


async def test_the_same_picture_is_stored_once_in_a_store_and_not_guessable_from_another(
    shop: Shop, other_shop: Shop
) -> None:
    first, second, other = [
        (await create(each, upload(picture()))).json()["data"]["images"][0]["url"] for each in (shop, shop, other_shop)
    ]
    assert first == second
    assert first.rpartition("/")[2] != other.rpartition("/")[2]


@pytest.mark.parametrize(
    ("data", "content_type", "stored_as"),
    [
        (picture(kind="PNG"), "image/png", "WEBP"),
        (picture(kind="PNG", mode="RGBA"), "image/png", "WEBP"),
        (picture(kind="PNG", mode="P"), "image/png", "WEBP"),
        (picture(kind="WEBP"), "image/webp", "WEBP"),
        (picture(kind="AVIF"), "image/avif", "WEBP"),
        (picture(mode="CMYK"), "image/jpeg", "JPEG"),
        (picture(mode="L"), "image/jpeg", "JPEG"),
        (animation(), "image/gif", "WEBP"),
        (animation("WEBP"), "image/webp", "WEBP"),
        (animation("PNG"), "image/png", "WEBP"),
    ],
)
async def test_every_kind_becomes_jpeg_or_webp(shop: Shop, data: bytes, content_type: str, stored_as: str) -> None:
    answer = await create(shop, upload(data, content_type))
    assert answer.status_code == 201, answer.text
    shown = opened(await stored(shop, answer.json()["data"]["images"][0]))
    assert (shown.format, shown.mode in ("RGB", "RGBA")) == (stored_as, True)
    assert getattr(shown, "n_frames", 1) == 1, "the first frame"


async def test_a_picture_for_printing_keeps_its_colors(shop: Shop) -> None:
    [image] = (await create(shop, upload(picture(mode="CMYK")))).json()["data"]["images"]
    shown: Any = opened(await stored(shop, image))
    left, right = shown.getpixel((30, 100)), shown.getpixel((270, 100))
    assert (shown.mode, left[0] > 2 * left[2], right[2] > 2 * right[0]) == ("RGB", True, True), (left, right)


async def test_metadata_is_removed_and_the_orientation_applied(shop: Shop) -> None:
    answer = await create(shop, upload(with_exif(orientation=6)))
    [image] = answer.json()["data"]["images"]
    data = await stored(shop, image)
    shown = opened(data)
    assert ((image["width"], image["height"]), shown.size) == ((200, 300), (200, 300))
    assert (dict(shown.getexif()), b"Secret Camera Maker" in data, b"Exif" in data) == ({}, False, False)
    top: Any = shown.convert("RGB").getpixel((100, 20))  # pyright: ignore[reportUnknownMemberType]
    assert top[0] > top[2], "what was on the left is at the top"


async def test_what_follows_a_picture_in_its_file_is_not_stored(shop: Shop) -> None:
    for data, content_type in ((picture() + SCRIPT, "image/jpeg"), (animation() + SCRIPT, "image/gif")):
        answer = await create(shop, upload(data, content_type))
        assert SCRIPT not in await stored(shop, answer.json()["data"]["images"][0])


async def test_a_large_picture_is_stored_smaller(shop: Shop) -> None:
    [image] = (await create(shop, upload(picture(4000, 2000)))).json()["data"]["images"]
    assert (image["width"], image["height"]) == (2000, 1000)


@pytest.mark.parametrize(
    ("image", "pointer", "words"),
    [
        ({"content_type": "image/png", "data": "not base64!"}, "/images/0/data", "is not valid base64"),
        ({"content_type": "image/png", "data": "@0"}, "/images/0/data", "is not valid base64"),
        (upload(b"\0", "image/png"), "/images/0/data", "is not a JPEG, PNG, WebP, GIF or AVIF file"),
        (upload(b"Dear reader, ...", "image/png"), "/images/0/data", "is not a JPEG, PNG, WebP, GIF or AVIF file"),
        (upload(b"<svg onload='alert(1)'/>", "image/png"), "/images/0/data", "is not a JPEG, PNG, WebP, GIF or AVIF"),
        (upload(photo(300)[:20_000]), "/images/0/data", "is truncated or damaged"),
        (upload(bomb(50_000, 50_000), "image/png"), "/images/0/data", "has 50000 x 50000 pixels; at most 40,000,000"),
        (upload(bomb(6_000, 6_000), "image/png"), "/images/0/data", "is truncated or damaged"),
        (upload(picture(), "image/png"), "/images/0/content_type", "is image/png, but the file is image/jpeg"),
        ({"data": base64.b64encode(picture()).decode()}, "/images/0/content_type", "is required with data"),
        (upload(picture(), url="https://a.example/b.jpg"), "/images/0/url", "must be omitted when data is sent"),
        ({"alt": "Nothing"}, "/images/0", "must have url, source_url or data"),
        ({"url": "https://a.example/b.jpg", "content_type": "image/png"}, "/images/0/content_type", "without data"),
        (upload(picture(), "image/svg+xml"), "/images/0/content_type", "must be one of"),
        ({"content_type": "image/png", "data": ""}, "/images/0/data", "must not be empty"),
        ({"source_url": "ftp://a.example/b.jpg"}, "/images/0/source_url", "http"),
    ],
)
async def test_an_unusable_picture_is_refused(shop: Shop, image: dict[str, Any], pointer: str, words: str) -> None:
    answer = await create(shop, image)
    assert answer.status_code == 422, answer.text
    [fault] = answer.json()["errors"]
    assert (fault["pointer"], words in fault["detail"]) == (pointer, True), fault


async def test_all_unusable_pictures_are_named_at_once(shop: Shop) -> None:
    answer = await create(shop, upload(picture()), upload(b"text"), upload(b"text"))
    assert [each["pointer"] for each in answer.json()["errors"]] == ["/images/1/data", "/images/2/data"]


async def test_a_picture_of_more_than_eight_megabytes_is_refused(shop: Shop) -> None:
    too_large = await create(shop, upload(b"\xff" * (8 * 1024 * 1024 + 1)))
    assert (too_large.status_code, too_large.json()["errors"][0]["detail"]) == (422, "has more than 8,388,608 bytes")
    larger = await create(shop, upload(b"\xff" * (9 * 1024 * 1024)))
    assert (larger.status_code, larger.json()["code"], larger.json()["max_bytes"]) == (
        413,
        "payload_too_large",
        12582912,
    )


async def test_a_body_is_large_only_because_of_pictures(shop: Shop) -> None:
    large = next(each for each in map(photo, itertools.repeat(1500)) if len(each) % 3)  # its base64 ends with =
    assert len(large) > 1_000_000
    answer = await create(shop, upload(large), upload(picture()), description="x" * 1000)
    assert answer.status_code == 201, answer.text
    first, second = answer.json()["data"]["images"]
    assert ((first["width"], second["width"]), answer.json()["data"]["description"]) == ((1500, 300), "x" * 1000)
    text = {"name": "Mug", "price": "1.00", "description": "y" * 2_000_000}
    refused = await shop.client.post("/products", json=text)
    assert (refused.status_code, refused.json()["max_bytes"]) == (413, 1048576)
    body = b'{"name":"M","price":"1","images":[{"content_type":"image/jpeg","data" : "%b"}]}'
    data = base64.b64encode(large)
    for character, escaped in ((b"/", b"\\/"), (b"/", b"\\u002F"), (b"+", b"\\u002B"), (b"=", b"\\u003d")):
        assert character in data
        answer = await shop.client.post(
            "/products",
            content=body % data.replace(character, escaped),
            headers={"content-type": "application/json"},
        )
        assert answer.status_code == 201, (escaped, answer.text)
        assert answer.json()["data"]["images"][0]["url"] == first["url"], escaped


async def test_a_long_value_that_is_no_picture_is_refused_beside_a_large_one(shop: Shop) -> None:
    large = upload(photo(1500))
    answer = await create(shop, large, metadata={"data": "a" * 70_000})
    assert answer.status_code == 422, answer.text
    assert [each["pointer"] for each in answer.json()["errors"]] == ["/metadata/data"]
    kept = await create(shop, large, metadata={"data": "@0", "other": "@1"})
    assert kept.json()["data"]["metadata"] == {"data": "@0", "other": "@1"}
    text = await create(shop, {"content_type": "image/jpeg", "data": "@0"}, large)
    assert text.json()["errors"][0]["pointer"] == "/images/0/data", "it names no other value of the body"
    items = [{"op": "create", "data": {**MUG, "images": [large], "metadata": {"data": "a" * 70_000}}}]
    batch = (await shop.client.post("/products/batch", json={"mode": "independent", "items": items})).json()
    assert batch["data"][0]["error"]["errors"][0]["pointer"] == "/items/0/data/metadata/data", batch


async def test_an_upload_has_its_idempotency_key(shop: Shop) -> None:
    key = {"idempotency-key": "a-picture"}
    body = {**MUG, "images": [upload(photo(1200))]}
    first = await shop.client.post("/products", json=body, headers=key)
    second = await shop.client.post("/products", json=body, headers=key)
    assert (first.status_code, second.json()) == (201, first.json())
    other = await shop.client.post("/products", json={**body, "name": "Cup"}, headers=key)
    assert other.json()["code"] == "idempotency_key_reused"


async def test_a_change_keeps_the_images_that_it_repeats(shop: Shop) -> None:
    product = (await create(shop, upload(picture()), {"url": "https://a.example/b.jpg"})).json()["data"]
    one, two = product["images"]
    url = f"/products/{product['id']}"
    same = await shop.client.patch(url, json={"images": [one, two]})
    assert (same.json()["data"]["images"], same.json()["data"]["version"]) == ([one, two], product["version"])
    changed = await shop.client.patch(
        url, json={"images": [{"id": two["id"]}, one, upload(picture(kind="PNG"), "image/png")]}
    )
    images = changed.json()["data"]["images"]
    assert [(each["id"], each["position"], each["width"]) for each in images] == [
        (2, 1, None),
        (1, 2, 300),
        (3, 3, 300),
    ]
    assert images[1] == {**one, "position": 2}


async def test_a_picture_can_be_shown_by_a_second_product(shop: Shop, other_shop: Shop) -> None:
    [image] = (await create(shop, upload(picture()))).json()["data"]["images"]
    [again] = (await create(shop, {"url": image["url"]})).json()["data"]["images"]
    assert (again["url"], again["width"]) == (image["url"], 300)
    [elsewhere] = (await create(other_shop, {"url": image["url"]})).json()["data"]["images"]
    assert (elsewhere["url"], elsewhere["width"]) == (image["url"], None)


async def test_an_unusable_picture_refuses_only_its_item_of_a_batch(shop: Shop) -> None:
    items = [
        {"op": "create", "data": {**MUG, "images": [upload(picture())]}},
        {"op": "create", "data": {**MUG, "images": [upload(b"text")]}},
        {"op": "create", "data": {**MUG, "images": [upload(picture(kind="PNG"), "image/png")]}},
    ]
    answer = (await shop.client.post("/products/batch", json={"mode": "independent", "items": items})).json()
    results = answer["data"]
    assert [each["status"] for each in results] == ["created", "failed", "created"]
    assert results[1]["error"]["errors"][0]["pointer"] == "/items/1/data/images/0/data"
    assert [results[n]["resource"]["images"][0]["width"] for n in (0, 2)] == [300, 300]
    atomic = await shop.client.post("/products/batch", json={"items": items})
    assert atomic.status_code == 422
    assert (await shop.client.get("/products")).json()["meta"]["total"] == 2


async def test_many_pictures_at_once_are_all_stored(shop: Shop) -> None:
    data = [picture(100 + n, 80) for n in range(12)]
    answers = await asyncio.gather(*(create(shop, upload(each)) for each in data))
    assert sorted(each.json()["data"]["images"][0]["width"] for each in answers) == [100 + n for n in range(12)]


async def test_a_write_of_the_previous_release_keeps_what_is_known_of_images(shop: Shop) -> None:
    """Release 0.3.0 writes images with an id, a URL, a text and a position only."""
    sent = [upload(picture()), {"source_url": "https://pictures.example.com/a.jpg"}]
    product = (await create(shop, *sent)).json()["data"]
    [[head]] = await shop.db.fetch(
        "SELECT head FROM products WHERE store_id = $1 AND id = $2", shop.store_id, product["id"]
    )
    members = json.loads("{" + head[1:] + "}")
    known = ("id", "url", "alt", "position")
    fewer = [{name: image[name] for name in known} for image in members["images"]]
    later = {"id": 9, "url": "https://a.example/b.jpg", "alt": 'A "b"', "position": 3}
    for images, shown in (
        ([*fewer, later], [*product["images"], {**later, **PLAIN}]),
        ([{**fewer[1], "alt": "Moved"}], [{**product["images"][1], "alt": "Moved"}]),
        ([{**fewer[1], "url": "https://a.example/c.jpg"}], [{**fewer[1], "url": "https://a.example/c.jpg", **PLAIN}]),
        ([], []),
    ):
        written = json.dumps({**members, "images": images}, ensure_ascii=False, separators=(",", ":"))
        row = {"index": 1, "id": product["id"], "slug": "mug", "name": "Mug", "status": "active", "price": 1, "on_hand": 0,
               "reserved": 0, "in_stock": False, "deleted": False, "terms": "", "head": f",{written[1:-1]}"}  # fmt: skip
        await shop.db.fetch(
            "SELECT product_ids FROM save_products($1, '{}', 'req', $2::json, '[]', '[]', '[]')",
            shop.store_id,
            json.dumps([row]),
        )
        read = (await shop.client.get(f"/products/{product['id']}")).json()["data"]
        assert read["images"] == shown
        assert {name: read[name] for name in members if name != "images"} == {
            name: product[name] for name in members if name != "images"
        }
