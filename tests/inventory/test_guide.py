"""Every request in the guide to stock is sent, and every response is compared."""

from pathlib import Path
from typing import Any, cast

import msgspec

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
# These values differ between stores and days.
VARY = {"id", "variant_id", "product_id", "app_id", "request_id", "created_at", "updated_at", "type", "instance"}


def normalized(value: Any) -> Any:
    """A document in which varying values are replaced by a placeholder or null."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return {name: "..." if name in VARY and each is not None else normalized(each) for name, each in members}
    return [normalized(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value


def blocks() -> list[tuple[str, str]]:
    """The guide's blocks of code, in order: language and text."""
    parts = GUIDE.read_text().split("```")[1::2]
    return [(language, text) for language, _, text in (part.partition("\n") for part in parts)]


async def test_every_example_of_the_guide_is_true(shop: Shop) -> None:
    shelves = await Shelves(shop).open(SHIRT)
    answer: Any = None
    answered = 0
    for language, text in blocks():
        if language == "http":
            line, _, body = text.partition("\n")
            method, path = line.split(" ")
            given = {"json": msgspec.json.decode(body)} if body.strip() else {}
            answer = (await shop.client.request(method, path, **given)).json()
        elif answer is not None:
            assert normalized(answer) == normalized(msgspec.json.decode(text))
            answer, answered = None, answered + 1
        else:
            shown = msgspec.json.decode(text)
            event = (await shelves.events())[0]
            assert (shown["type"], shown["changes"]) == (event["type"], event["changes"])
            assert shown["resource"]["type"] == event["resource_type"]
            assert shown["resource"]["version"] == event["resource_version"]
    assert answered == 5
