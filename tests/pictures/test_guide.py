"""Send every request of the guide to pictures and compare the responses with those shown."""

import re
from typing import Any

import msgspec

from tests.docs.pages import GUIDES, blocks
from tests.orders.test_guide import assert_matches
from tests.support.shops import Shop

GUIDE = GUIDES / "pictures.md"


async def test_every_example_matches_the_response(shop: Shop) -> None:
    ids: dict[str, str] = {}
    response: Any = None
    compared = 0
    for block in blocks(GUIDE, "http", "json"):
        if block.language == "http":
            line, _, body = re.sub(r"\b50\d{3}\b", lambda found: ids[found[0]], block.text).partition("\n")
            method, path = line.split(" ")
            response = await shop.client.request(method, path, json=msgspec.json.decode(body))
        else:
            assert_matches(msgspec.json.decode(block.text), response.json(), ids)
            compared += 1
    assert compared == 3


async def test_the_shown_address_has_the_form_of_a_real_one(shop: Shop) -> None:
    [shown] = [block.text.strip() for block in blocks(GUIDE, "text")]
    [upload, *_] = [block.text.partition("\n")[2] for block in blocks(GUIDE, "http")]
    created = (await shop.client.post("/products", json=msgspec.json.decode(upload))).json()["data"]
    form = r"https?://[^/]+/media/\d+/[0-9a-f]{40}\.webp"
    assert re.fullmatch(form, created["images"][0]["url"])
    assert re.fullmatch(form + r"\?w=320", shown)
