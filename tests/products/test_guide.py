"""Send every request of the products guide and compare the responses with those shown."""

import re
from typing import Any, cast

import msgspec
from tests.docs.pages import GUIDES, blocks
from tests.orders.test_guide import assert_matches
from tests.support.shops import Shop


async def test_every_example_matches_the_response(shop: Shop) -> None:
    ids: dict[str, str] = {}
    response: Any = None
    compared = 0
    for block in blocks(GUIDES / "products.md", "http", "json"):
        if block.language == "http":
            text = re.sub(r"\b50\d{3}\b", lambda found: ids[found[0]], block.text)
            line, _, rest = text.partition("\n")
            method, path = line.split(" ")
            fields, _, body = ("", "", rest) if rest.startswith("{") else rest.partition("\n\n")
            headers = dict(field.split(": ") for field in fields.splitlines())
            content = {"json": msgspec.json.decode(body)} if body.strip() else {}
            response = await shop.client.request(method, path, headers=headers, **content)
            assert response.status_code < 500
        else:
            assert_matches(
                _without_deletion_time(msgspec.json.decode(block.text)), _without_deletion_time(response.json()), ids
            )
            compared += 1
    assert compared == 16


def _without_deletion_time(document: Any) -> Any:
    """Mask the times of tombstones, which differ between runs."""
    rows: Any = document.get("data", [])
    for each in cast("list[dict[str, Any]]", rows if isinstance(rows, list) else []):
        if each.get("deleted_at"):
            each["deleted_at"] = each["updated_at"] = "..."
    return document
