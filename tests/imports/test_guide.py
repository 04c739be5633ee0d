"""Every request in the guide to imports is sent, and every response is compared."""

from pathlib import Path
from typing import Any, cast

import msgspec

from stoa.imports.runner import run_pending
from tests.support.shops import Shop

GUIDE = Path(__file__).parents[2] / "docs/guides/imports.md"
# These values differ between stores and days.
VARY = {"id", "request_id", "created_at", "started_at", "finished_at", "report_expires_at"}


def normalized(value: Any) -> Any:
    """A document in which varying values are replaced by a placeholder or null."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return {name: "..." if name in VARY and each is not None else normalized(each) for name, each in members}
    return [normalized(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value


async def test_every_example_of_the_guide_is_true(shop: Shop) -> None:
    parts = [part.partition("\n") for part in GUIDE.read_text().split("```")[1::2]]
    import_id, answer, compared = "", cast("Any", None), 0
    for language, _, text in parts:
        if language == "http":
            head, _, body = text.partition("\n\n")
            line, *fields = head.strip().splitlines()
            method, path = line.format(import_id=import_id).split(" ")
            headers = dict(field.split(": ") for field in fields)
            answer = await shop.client.request(method, path, headers=headers, content=body.encode() or None)
            if method == "POST":
                assert answer.status_code == 202, answer.text
                import_id = answer.json()["data"]["id"]
                await run_pending(shop.db)
        elif language != "bash":
            if language == "csv":
                assert answer.text.splitlines() == text.splitlines()
            else:
                shown = [text] if language == "json" else text.splitlines()
                real = [answer.text] if language == "json" else answer.text.splitlines()
                decode = msgspec.json.decode
                assert [normalized(decode(each)) for each in real] == [normalized(decode(each)) for each in shown]
            compared += 1
    assert compared == 3
