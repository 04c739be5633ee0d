"""Every request in the guide to customers is sent, and every response is compared."""

from pathlib import Path
from typing import Any, cast

import msgspec

from stoa.imports.runner import run_pending
from tests.support.shops import Shop

GUIDE = Path(__file__).parents[2] / "docs/guides/customers.md"
# These values differ between stores and days.
VARY = {
    "id", "customer_id", "existing_id", "default_shipping_address_id", "default_billing_address_id", "app_id",
    "request_id", "created_at", "updated_at", "type", "instance",
}  # fmt: skip


def normalized(value: Any) -> Any:
    """A document in which varying values are replaced by a placeholder or null."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return {name: "..." if name in VARY and each is not None else normalized(each) for name, each in members}
    return [normalized(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value


async def test_every_example_of_the_guide_is_true(shop: Shop) -> None:
    await run_pending(shop.db)
    ids: dict[str, Any] = {}
    answer, compared = cast("Any", None), 0
    for language, _, text in (part.partition("\n") for part in GUIDE.read_text().split("```")[1::2]):
        if language == "http":
            line, _, rest = text.partition("\n")
            method, path = line.format(**ids).split(" ")
            fields, _, body = rest.partition("\n\n") if not rest.startswith("{") else ("", "", rest)
            headers = dict(field.lower().split(": ") for field in fields.strip().splitlines())
            headers.setdefault("content-type", "application/json")
            answer = await shop.client.request(method, path, headers=headers, content=body.encode() or None)
            if path.startswith("/customers/imports?"):
                ids["import_id"] = answer.json()["data"]["id"]
                await run_pending(shop.db)
            elif method == "POST" and answer.status_code == 201:
                ids.setdefault("customer_id", answer.json()["data"]["id"])
        elif language == "csv":
            assert answer.text.splitlines() == text.splitlines()
            compared += 1
        elif language == "json":
            assert normalized(answer.json()) == normalized(msgspec.json.decode(text))
            compared += 1
    assert answer.status_code == 204
    assert compared == 5
