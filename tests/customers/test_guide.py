"""Send every request of the customers guide and compare the responses with those shown."""

from pathlib import Path
from typing import Any, cast

import msgspec

from stoa.imports.runner import run_pending
from tests.support.shops import Shop

GUIDE = Path(__file__).parents[2] / "docs/guides/customers.md"
# The values of these fields differ between runs.
VARY = {
    "id", "customer_id", "existing_id", "default_shipping_address_id", "default_billing_address_id", "app_id",
    "request_id", "created_at", "updated_at", "type", "instance",
}  # fmt: skip


def masked(value: Any) -> Any:
    """Replace values that differ between runs with "..."; null stays null."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return {name: "..." if name in VARY and each is not None else masked(each) for name, each in members}
    return [masked(each) for each in cast("list[Any]", value)] if isinstance(value, list) else value


async def test_every_example_matches_the_response(shop: Shop) -> None:
    await run_pending(shop.db)
    ids: dict[str, Any] = {}
    response, compared = cast("Any", None), 0
    for language, _, text in (part.partition("\n") for part in GUIDE.read_text().split("```")[1::2]):
        if language == "http":
            line, _, rest = text.partition("\n")
            method, path = line.format(**ids).split(" ")
            fields, _, body = rest.partition("\n\n") if not rest.startswith("{") else ("", "", rest)
            headers = dict(field.lower().split(": ") for field in fields.strip().splitlines())
            headers.setdefault("content-type", "application/json")
            response = await shop.client.request(method, path, headers=headers, content=body.encode() or None)
            if path.startswith("/customers/imports?"):
                ids["import_id"] = response.json()["data"]["id"]
                await run_pending(shop.db)
            elif method == "POST" and response.status_code == 201:
                ids.setdefault("customer_id", response.json()["data"]["id"])
        elif language == "csv":
            assert response.text.splitlines() == text.splitlines()
            compared += 1
        elif language == "json":
            assert masked(response.json()) == masked(msgspec.json.decode(text))
            compared += 1
    assert response.status_code == 204
    assert compared == 6
