"""Send every request of the imports guide and compare the responses with those shown."""

from pathlib import Path
from typing import Any, cast

import msgspec

from stoa.imports.runner import run_pending
from tests.support.locations import levels, open_locations
from tests.support.shops import Shop

GUIDE = Path(__file__).parents[2] / "docs/guides/imports.md"
# The values of these fields differ between runs.
VARY = {"id", "request_id", "created_at", "started_at", "finished_at", "report_expires_at"}


def masked(value: Any) -> Any:
    """Replace values that differ between runs with "..."; null stays null."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return {name: "..." if name in VARY and each is not None else masked(each) for name, each in members}
    return [masked(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value


async def test_every_example_matches_the_response(shop: Shop) -> None:
    await open_locations(shop, east=20)
    parts = [part.partition("\n") for part in GUIDE.read_text().split("```")[1::2]]
    import_id, response, compared = "", cast("Any", None), 0
    for language, _, text in parts:
        if language == "http":
            head, _, body = text.partition("\n\n")
            line, *fields = head.strip().splitlines()
            method, path = line.format(import_id=import_id).split(" ")
            headers = dict(field.split(": ") for field in fields)
            response = await shop.client.request(method, path, headers=headers, content=body.encode() or None)
            if method == "POST":
                assert response.status_code == 202, response.text
                import_id = response.json()["data"]["id"]
                await run_pending(shop.db)
        elif language != "bash":
            if language == "csv":
                assert response.text.splitlines() == text.splitlines()
            else:
                shown = [text] if language == "json" else text.splitlines()
                real = [response.text] if language == "json" else response.text.splitlines()
                decode = msgspec.json.decode
                assert [masked(decode(each)) for each in real] == [masked(decode(each)) for each in shown]
            compared += 1
    assert compared == 4
    assert await levels(shop, "MUG-1") == {"default": (7, 0), "east": (5, 0)}
