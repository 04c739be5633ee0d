"""Any sequence of adjustments agrees with a simple model in levels, ledger, product totals and events."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.inventory.shelves import Shelves
from tests.support.shops import Shop, open_shop

from stoa.app import Application
from stoa.db.pool import Database
from stoa.inventory.endpoints import routes
from stoa.settings import Settings

KINDS: dict[str, dict[str, Any]] = {
    "PLAIN": {"low_stock_threshold": 3},
    "BACK": {"low_stock_threshold": 1, "allow_backorder": True},
    "FREE": {"low_stock_threshold": 2, "track_inventory": False},
    "BARE": {},
}
SKUS = [*KINDS, "NOPE"]
ITEMS = st.fixed_dictionaries(
    {
        "sku": st.sampled_from(SKUS),
        "op": st.sampled_from(["set", "adjust"]),
        "quantity": st.integers(-6, 9),
        "compare_quantity": st.none() | st.integers(-1, 6),
    }
)
BATCHES = st.lists(st.tuples(st.booleans(), st.lists(ITEMS, min_size=1, max_size=5)), min_size=1, max_size=6)


@dataclass
class Model:
    """The expected behavior of the shop."""

    on_hand: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 0))
    versions: dict[str, int] = field(default_factory=lambda: dict.fromkeys(KINDS, 1))

    def outcome(self, levels: dict[str, int], item: dict[str, Any]) -> str:
        sku = item["sku"]
        if sku not in levels:
            return "unknown"
        after = item["quantity"] + (levels[sku] if item["op"] == "adjust" else 0)
        if item["compare_quantity"] not in (None, levels[sku]):
            return "stale"
        if after == levels[sku]:
            return "unchanged"
        if after < 0 and sku in ("PLAIN", "BARE"):
            return "insufficient"
        levels[sku] = after
        return "updated"

    def apply(self, *, atomic: bool, items: list[dict[str, Any]]) -> tuple[list[str], list[tuple[str, str]]]:
        levels = dict(self.on_hand)
        outcomes = [self.outcome(levels, item) for item in items]
        if atomic and set(outcomes) - {"updated", "unchanged"}:
            return outcomes, []
        events = [(sku, kind) for sku in KINDS for kind in self.events(sku, self.on_hand[sku], levels[sku])]
        for sku in KINDS:
            self.versions[sku] += levels[sku] != self.on_hand[sku]
        self.on_hand = levels
        return outcomes, events

    def events(self, sku: str, old: int, new: int) -> list[str]:
        if old == new:
            return []
        threshold = KINDS[sku].get("low_stock_threshold", -(10**9))
        crossed = [
            ("low_stock", old > threshold >= new),
            ("out_of_stock", old > 0 >= new),
            ("back_in_stock", old <= 0 < new),
        ]
        return ["inventory_changed", *(kind for kind, happened in crossed if happened and sku != "FREE")]


def products() -> list[dict[str, Any]]:
    """Two products with two variants each, so that a batch can change both, one or none."""
    names = list(KINDS)
    return [
        {
            "name": f"{a} and {b}",
            "price": "1.00",
            "options": [{"name": "Kind", "values": [a, b]}],
            "variants": [{"sku": sku, "option_values": {"Kind": sku}, **KINDS[sku]} for sku in (a, b)],
        }
        for a, b in (names[:2], names[2:])
    ]


@pytest.fixture(scope="module")
async def stocked(settings: Settings, db: Database) -> AsyncIterator[Application]:
    application = Application(settings, routes.endpoints)
    yield application
    await application.close()


@given(batches=BATCHES)
async def test_stock_agrees_with_its_model(
    stocked: Application, db: Database, batches: list[tuple[bool, list[dict[str, Any]]]]
) -> None:
    shop = await open_shop(stocked, db)
    shelves = await Shelves(shop).open(*products())
    model = Model()
    moves: dict[str, list[int]] = {sku: [] for sku in KINDS}
    for atomic, items in batches:
        await shelves.ignore_past()
        answer = await shelves.adjust(*items, mode="atomic" if atomic else "independent")
        outcomes, events = model.apply(atomic=atomic, items=items)
        written = not atomic or set(outcomes) <= {"updated", "unchanged"}
        failed = [outcome for outcome in outcomes if outcome not in ("updated", "unchanged")]
        if not failed:
            assert answer.status_code == 200
        elif atomic:
            assert answer.status_code == (409 if set(failed) in ({"stale"}, {"insufficient"}) else 422)
            assert len(answer.json()["errors"]) == len(failed)
        else:
            assert answer.status_code == 207
        if written:
            told = [result["status"] for result in answer.json()["data"]]
            assert told == [o if o in ("updated", "unchanged") else "failed" for o in outcomes]
        entries = await shelves.entries()
        expected = [item["sku"] for item, o in zip(items, outcomes, strict=True) if o == "updated"] if written else []
        assert [entry["sku"] for entry in entries] == expected
        for entry in entries:
            moves[entry["sku"]].append(entry["delta_on_hand"])
            assert entry["on_hand_after"] == sum(moves[entry["sku"]])
        assert sorted((sku, kind) for kind, sku in await shelves.event_types()) == sorted(events)
        await assert_as_modelled(shop, model)
    await shop.client.aclose()


async def assert_as_modelled(shop: Shop, model: Model) -> None:
    rows = await shop.db.fetch(
        """SELECT sku, on_hand, version, on_hand - reserved, allow_backorder OR NOT track_inventory FROM variants
            WHERE store_id = $1""",
        shop.store_id,
    )
    assert {row[0]: row[1] for row in rows} == model.on_hand
    assert {row[0]: row[2] for row in rows} == model.versions
    assert all(available >= 0 or endless for _, _, _, available, endless in rows)
    rows = await shop.db.fetch(
        """SELECT p.on_hand, sum(v.on_hand)::bigint, p.in_stock,
                  bool_or(v.allow_backorder OR NOT v.track_inventory OR v.on_hand > v.reserved)
             FROM products p JOIN variants v ON v.store_id = $1 AND v.product_id = p.id
            WHERE p.store_id = $1 GROUP BY p.id, p.on_hand, p.in_stock""",
        shop.store_id,
    )
    assert len(rows) == 2
    for on_hand, summed, in_stock, sellable in rows:
        assert (on_hand, in_stock) == (summed, sellable)
