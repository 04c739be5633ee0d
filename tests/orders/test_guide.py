"""Send every request of the order guides and compare the responses with those shown."""

import re
from decimal import ROUND_DOWN, Decimal
from typing import Any, cast

import msgspec
import pytest

from stoa.money import to_text
from stoa.orders.contract import TRANSITIONS
from stoa.orders.payments import PAYMENTS
from stoa.orders.state import Figures, LineState, share_of
from tests.docs.pages import GUIDES, blocks, rows
from tests.orders.sample_store import SampleStore
from tests.support.shops import Shop

TEA: dict[str, Any] = {"name": "Tea", "price": "8.00", "sku": "TEA", "stock": {"on_hand": 10}}
POT: dict[str, Any] = {"name": "Pot", "price": "45.00", "sku": "POT", "stock": {"on_hand": 3}}


def assert_matches(shown: Any, real: Any, ids: dict[str, str]) -> None:
    """Compare a response on a page with the real one: "..." replaces the rest, and `ids` maps shown ids to real ones."""
    if isinstance(shown, dict):
        for name, value in cast("dict[str, Any]", shown).items():
            if name == "...":
                continue
            assert name in real
            if isinstance(value, int) and value > 50_000 and (name == "id" or name.endswith("_id")):
                assert ids.setdefault(str(value), str(real[name])) == str(real[name])
            elif name == "duplicate_of":
                assert ids[str(value)] == str(real[name])
            else:
                assert_matches(value, real[name], ids)
    elif isinstance(shown, list):
        items = cast("list[Any]", shown)
        assert len(items) == len(real)
        for shown_item, real_item in zip(items, real, strict=True):
            assert_matches(shown_item, real_item, ids)
    else:
        assert shown == real


@pytest.mark.parametrize(
    ("guide", "responses"),
    [
        ("order-lifecycle.md", 15),
        ("payments.md", 10),
        ("refunds-returns-fulfillments.md", 17),
        ("duplicates.md", 5),
        ("money.md", 3),
        ("time.md", 3),
    ],
)
async def test_every_example_matches_the_response(shop: Shop, guide: str, responses: int) -> None:
    store = await SampleStore(shop).add_products(TEA, POT)
    ids: dict[str, str] = {}
    response: Any = None
    compared = 0
    for block in blocks(GUIDES / guide, "http", "json"):
        if block.language == "http":
            text = re.sub(r"\b\d{5}\b", lambda found: ids[found[0]], block.text)
            line, _, body = text.partition("\n")
            method, path = line.split(" ")
            content = {"json": msgspec.json.decode(body)} if body.strip() else {}
            response = (await store.client.request(method, path, **content)).json()
        else:
            assert_matches(msgspec.json.decode(block.text), response, ids)
            compared += 1
    assert compared == responses
    await store.assert_stock_is_consistent()


def test_the_status_tables_match_the_rules() -> None:
    documented: dict[str, set[str]] = {}
    for cells in rows(GUIDES / "order-lifecycle.md"):
        if len(cells) == 4 and cells[0] in TRANSITIONS:
            documented[cells[0]] = set(re.findall(r"\w+", cells[3]))
        elif cells[0] in PAYMENTS and len(cells) == 3:
            documented[cells[0]] = set(re.findall(r"\w+", cells[1]))
    expected = {status: set(row) for status, row in [*TRANSITIONS.items(), *PAYMENTS.items()]}
    assert documented == expected


def test_the_rounding_table_matches_the_rule() -> None:
    """The table, the rule beside it and the code agree on what the first units of a line item get together."""
    guide = GUIDES / "refunds-returns-fulfillments.md"
    ((total, quantity),) = re.findall(r"Of (\d+\.\d\d) for (\d+) units:\n", guide.read_text())
    line = LineState(1, 1, 1, None, "Linen", "", {}, int(quantity), unit_price=0, tax_total=int(total.replace(".", "")))
    shown = {int(row[0]): row[2] for row in rows(guide) if row[0].isdigit()}
    assert list(shown) == list(range(1, int(quantity) + 1))
    for units, together in shown.items():
        exact = Decimal(total) * units / int(quantity)
        assert Decimal(together) == exact.quantize(Decimal("0.01"), ROUND_DOWN)
        assert to_text(share_of(line.total, units, line.quantity), 2) == together


def test_the_table_of_balances_matches_the_rule() -> None:
    """Each row agrees with the formula of the guide and with the code."""
    found = [cells[1:] for cells in rows(GUIDES / "payments.md") if len(cells) == 5 and cells[1] != "kept"]
    assert len(found) == 10
    for kept, paid, refunded, balance in (map(Decimal, cells) for cells in found):
        assert balance == kept - paid + min(refunded, max(Decimal(0), paid - kept))
        figures = Figures(*(int(each * 100) for each in (kept, kept, paid, refunded)))
        assert figures.balance == int(balance * 100)


async def test_the_diagram_is_served_with_the_guide(shop: Shop) -> None:
    page = await shop.service.get("/docs/guides/order-lifecycle")
    assert (page.status_code, 'order-lifecycle.svg"' in page.text) == (200, True)
    picture = await shop.service.get("/docs/guides/order-lifecycle.svg")
    assert (picture.status_code, picture.headers["content-type"]) == (200, "image/svg+xml")
    for status in TRANSITIONS:
        assert f">{status}<" in picture.text
    assert (await shop.service.get("/docs/guides/nothing.svg")).status_code == 404
