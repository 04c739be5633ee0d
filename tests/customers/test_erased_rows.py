"""Which rows of imports an erasure empties: those that name the person, in any spelling, and none of other people."""

from typing import Any

from stoa.imports.runner import run_pending
from tests.customers.people import created
from tests.support.shops import Shop

NDJSON, CSV = "application/x-ndjson", "text/csv"
ANN: dict[str, Any] = {"email": "Ann@example.com", "phone": "+493012345"}


async def upload(shop: Shop, content: str, media: str = NDJSON) -> str:
    """Queue an import of customers; returns its path."""
    answer = await shop.client.post("/customers/imports", content=content.encode(), headers={"content-type": media})
    assert answer.status_code == 202, answer.text
    return f"/customers/imports/{answer.json()['data']['id']}"


async def failed_rows(shop: Shop, path: str) -> list[int]:
    await run_pending(shop.db)
    return [error["row"] for error in (await shop.client.get(path)).json()["data"]["errors"]]


async def test_an_erasure_passes_over_a_row_whose_external_id_is_not_text(shop: Shop) -> None:
    await run_pending(shop.db)
    ann = await created(shop, {**ANN, "external_id": "crm-ann"})
    path = await upload(shop, '{"email": "b@other.example", "external_id": ["crm"]}')
    assert await failed_rows(shop, path) == [1]
    assert (await shop.client.delete(f"/customers/{ann['id']}")).status_code == 204
    assert '[""crm""]' in (await shop.client.get(path, headers={"accept": CSV})).text
