"""Send every request of the stock guide and compare the responses with those shown."""

import asyncio
from pathlib import Path
from typing import Any, cast

import msgspec

from stoa.access.admission import TTL_S
from stoa.inventory.locations import add_location
from tests.inventory.shelves import Shelves
from tests.support.shops import Shop

GUIDE = Path(__file__).parents[2] / "docs/guides/inventory.md"
SHIRT: dict[str, Any] = {
    "name": "T-Shirt",
    "price": "19.00",
    "options": [{"name": "Size", "values": ["M", "L"]}],
    "variants": [
        {"sku": "TS-M", "option_values": {"Size": "M"}, "low_stock_threshold": 5, "stock": {"on_hand": 38}},
        {"sku": "TS-L", "option_values": {"Size": "L"}, "stock": {"on_hand": 6}},
    ],
}
# The values of these fields differ between runs.
VARY = {"id", "variant_id", "product_id", "app_id", "request_id", "created_at", "updated_at", "type", "instance"}


def masked(value: Any) -> Any:
    """Replace values that differ between runs with "..."; null stays null."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return {name: "..." if name in VARY and each is not None else masked(each) for name, each in members}
    return [masked(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value


def blocks() -> list[tuple[str, str]]:
    """Return the language and text of each code block of the guide, in order."""
    parts = GUIDE.read_text().split("```")[1::2]
    return [(language, text) for language, _, text in (part.partition("\n") for part in parts)]


async def test_every_example_matches_the_response(shop: Shop) -> None:
    shelves = await Shelves(shop).open(SHIRT)
    response: Any = None
    by, handle = shop.local_operator, shop.store.handle
    compared = 0
    for language, text in blocks():
        if language == "http":
            if "transfer" in text:
                await add_location(by, handle, "east", "East warehouse", "4 Dock Road, Bath", priority=20)
                await shop.settle()
                await asyncio.sleep(TTL_S)
            line, _, body = text.partition("\n")
            method, path = line.split(" ")
            content = {"json": msgspec.json.decode(body)} if body.strip() else {}
            response = (await shop.client.request(method, path, **content)).json()
        elif response is not None:
            assert masked(response) == masked(msgspec.json.decode(text))
            response, compared = None, compared + 1
        else:
            shown = msgspec.json.decode(text)
            event = (await shelves.events())[0]
            assert (shown["type"], shown["changes"]) == (event["type"], event["changes"])
            assert shown["resource"]["type"] == event["resource_type"]
            assert shown["resource"]["version"] == event["resource_version"]
    assert compared == 7
