"""Rows whose stock names a location: the column `location`, the field of JSON rows, refusals, reports and replay."""

import asyncio
from typing import Any

import pytest

from stoa.imports.runner import run_pending
from stoa.inventory.locations import activate_location, deactivate_location
from stoa.inventory.queries import ACTIVATE_LOCATION, LOCK_LOCATION
from tests.imports.files import (
    CSV,
    JSON,
    catalog,
    events,
    failures,
    import_file,
    job_of,
    lines,
    mug,
    refused,
    report,
    send,
    sheet,
)
from tests.support.locations import assert_books_balance, levels, open_locations, spread
from tests.support.races import until_somebody_waits
from tests.support.shops import Shop, api_client, token_for

COUNT = "sku location stock.on_hand"
SHIRT: dict[str, Any] = {
    "name": "Shirt",
    "price": "30.00",
    "external_id": "erp-1",
    "options": [{"name": "Size", "values": ["S", "M"]}],
    "variants": [
        {"sku": "S", "option_values": {"Size": "S"}, "stock": {"on_hand": 6}},
        {"sku": "M", "option_values": {"Size": "M"}, "stock": {"on_hand": 2}},
    ],
}


@pytest.fixture
async def stores(shop: Shop) -> Shop:
    """A shop with the locations east, west and closed (inactive), two mugs at the default location, and a shirt."""
    await open_locations(shop, east=5, west=20, closed=30)
    await deactivate_location(shop.local_operator, shop.store.handle, "closed")
    await shop.add(mug(1))
    await shop.add(mug(2))
    await shop.add(SHIRT)
    return shop


async def ledger(shop: Shop, **filters: str) -> list[tuple[Any, ...]]:
    """What imports wrote into the ledger, oldest first."""
    params = {"kind": "import", "sort": "id", **filters}
    page = (await shop.client.get("/products/inventory/adjustments", params=params)).json()
    names = ("sku", "location", "delta_on_hand", "on_hand_after")
    return [tuple(entry[name] for name in names) for entry in page["data"]]


async def versions(shop: Shop) -> list[tuple[Any, ...]]:
    rows = await shop.db.fetch(
        """SELECT p.id, p.version, v.id, v.version FROM products p JOIN variants v ON v.store_id = $1 AND v.product_id = p.id
            WHERE p.store_id = $1 ORDER BY v.id""",
        shop.store_id,
    )
    return [tuple(row) for row in rows]


def faults(job: dict[str, Any]) -> list[tuple[int, str, str]]:
    return [(error["row"], error["pointer"], error["code"]) for error in job["errors"]]


async def test_a_stock_count_by_location(stores: Shop) -> None:
    """Two rows for one SKU, the default location by its code, the total without a code, and the same file again."""
    content = sheet(
        COUNT,
        ["MUG-1", "east", "5"],
        ["MUG-2", "", "9"],
        ["MUG-1", "west", "4"],
        ["S", "east", "1"],
        ["M", "default", "7"],
        ["MUG-1", "default", "2"],
    )
    job = await import_file(stores, content, CSV)
    assert (job["status"], job["counts"]["updated"]) == ("succeeded", 6)
    assert await levels(stores, "MUG-1") == {"default": (2, 0), "east": (5, 0), "west": (4, 0)}
    assert await levels(stores, "MUG-2") == {"default": (9, 0)}
    assert await levels(stores, "S") == {"default": (6, 0), "east": (1, 0)}
    assert await levels(stores, "M") == {"default": (7, 0)}
    assert (await catalog(stores))["Shirt"]["stock"]["on_hand"] == 14
    entries = await ledger(stores, reference=job["id"])
    assert sorted(entries) == [
        ("M", "default", 5, 7),
        ("MUG-1", "default", -1, 2),
        ("MUG-1", "east", 5, 7),
        ("MUG-1", "west", 4, 11),
        ("MUG-2", "default", 6, 9),
        ("S", "east", 1, 7),
    ]
    assert await ledger(stores, location="west") == [("MUG-1", "west", 4, 11)]
    await assert_books_balance(stores)

    before = (await versions(stores), await events(stores, "product.inventory%"))
    again = await import_file(stores, content, CSV)
    assert (again["counts"]["unchanged"], again["counts"]["total"]) == (6, 6)
    assert (await versions(stores), await events(stores, "product.inventory%")) == before
    assert await ledger(stores, reference=again["id"]) == []


async def test_the_event_names_the_locations_and_the_difference(stores: Shop) -> None:
    await spread(stores, "MUG-1", east=2)
    await import_file(stores, sheet(COUNT, ["MUG-1", "east", "0"]), CSV)
    assert await levels(stores, "MUG-1") == {"default": (1, 0)}
    [event] = await stores.db.fetch(
        """SELECT changes FROM events WHERE store_id = $1 AND type = 'product.inventory_changed'
            ORDER BY position DESC LIMIT 1""",
        stores.store_id,
    )
    wanted = '{"on_hand":[3,1],"available":[3,1],"locations":[{"east":2},{"east":0}]}'
    assert event[0].replace(" ", "") == wanted
    await assert_books_balance(stores)


@pytest.mark.parametrize("options", [{}, {"dry_run": "true"}, {"on_error": "abort"}])
async def test_faulty_locations_fail_their_rows_only(stores: Shop, options: dict[str, str]) -> None:
    content = sheet(
        f"{COUNT} name",
        ["MUG-1", "nowhere", "5", "Renamed"],
        ["MUG-2", "east", "4", ""],
        ["S", "closed", "1", ""],
        ["M", "EAST", "1", ""],
    )
    job = await import_file(stores, content, CSV, **options)
    assert faults(job) == [(row, "/location", "unknown_location") for row in (1, 3, 4)]
    written = not options
    assert await levels(stores, "MUG-2") == {"default": (3, 0), **({"east": (4, 0)} if written else {})}
    assert set(await catalog(stores)) == {"Mug 1", "Mug 2", "Shirt"}
    rows = await failures(stores, job["id"])
    assert [(row["location"], row["error_code"]) for row in rows] == [
        ("nowhere", "unknown_location"),
        ("closed", "unknown_location"),
        ("EAST", "unknown_location"),
    ]
    assert rows[0]["error_detail"] == "/location: no active location of this store has this code"
    await assert_books_balance(stores)


async def test_a_corrected_report_can_be_sent_again(stores: Shop) -> None:
    job = await import_file(stores, sheet(COUNT, ["MUG-1", "closed", "5"], ["MUG-2", "-x", "5"]), CSV)
    answer = await stores.client.get(f"/products/imports/{job['id']}", headers={"accept": CSV})
    assert "MUG-2,'-x,5,unknown_location" in answer.text
    await activate_location(stores.local_operator, stores.store.handle, "closed")
    again = await import_file(stores, answer.content.replace(b"'-x", b"east"), CSV)
    assert again["status"] == "succeeded"
    assert await levels(stores, "MUG-1") == {"default": (3, 0), "closed": (5, 0)}
    assert await levels(stores, "MUG-2") == {"default": (3, 0), "east": (5, 0)}


async def test_a_dry_run_shows_each_row_by_itself(stores: Shop) -> None:
    await spread(stores, "MUG-1", east=1)
    before = await versions(stores)
    content = sheet(
        COUNT, ["MUG-1", "east", "5"], ["MUG-1", "west", "4"], ["MUG-1", "default", "2"], ["S", "west", "0"]
    )
    job = await import_file(stores, content, CSV, dry_run="true")
    rows = await report(stores, job["id"])
    changes = [row["changes"]["variants"][0]["changes"] if "changes" in row else None for row in rows]
    assert changes == [
        {"stock": [{"on_hand": 3}, {"on_hand": 7}], "locations": [{"east": 1}, {"east": 5}]},
        {"stock": [{"on_hand": 7}, {"on_hand": 11}], "locations": [{"west": 0}, {"west": 4}]},
        None,
        None,
    ]
    assert [row["status"] for row in rows] == ["updated", "updated", "unchanged", "unchanged"]
    assert (await versions(stores), await ledger(stores)) == (before, [])


async def test_json_rows_name_locations_beside_stock(stores: Shop) -> None:
    """New and existing products, one variant at several locations, and a variant that the row adds."""
    items = [
        {"sku": "MUG-1", "price": "14.00", "stock": {"on_hand": 5}, "location": "east"},
        mug(7, location="west"),
        mug(8, location=None),
        mug(9, location=""),
        {
            "external_id": "erp-1",
            "variants": [
                {"sku": "S", "stock": {"on_hand": 3}, "location": "east"},
                {"sku": "S", "stock": {"on_hand": 2}, "location": "west", "barcode": "12"},
                {"sku": "M", "stock": {"on_hand": 1}},
                {"sku": "L", "option_values": {"Size": "L"}, "stock": {"on_hand": 8}, "location": "west"},
            ],
        },
    ]
    job = await import_file(stores, lines(items), match_by="sku")
    assert job["status"] == "succeeded", job["errors"]
    assert await levels(stores, "MUG-1") == {"default": (3, 0), "east": (5, 0)}
    assert await levels(stores, "MUG-7") == {"default": (0, 0), "west": (3, 0)}
    for sku in ("MUG-8", "MUG-9"):
        assert await levels(stores, sku) == {"default": (3, 0)}
    assert await levels(stores, "S") == {"default": (6, 0), "east": (3, 0), "west": (2, 0)}
    assert await levels(stores, "M") == {"default": (1, 0)}
    assert await levels(stores, "L") == {"default": (0, 0), "west": (8, 0)}
    found = await catalog(stores)
    assert (found["Mug 1"]["price"], found["Shirt"]["stock"]["on_hand"]) == ("14.00", 20)
    assert found["Mug 7"]["in_stock"] is True
    await assert_books_balance(stores)
    content = b'{"items":[' + b",".join(lines(items).splitlines()) + b"]}"
    again = await import_file(stores, content, JSON)
    assert again["counts"]["unchanged"] == 5


async def test_a_new_product_with_stock_at_several_locations(stores: Shop) -> None:
    """Consecutive records of one product, and rows of one SKU that are far apart."""
    header = "external_id name price sku option.Size location stock.on_hand"
    content = sheet(
        header,
        ["new-1", "Coat", "90.00", "COAT-S", "S", "east", "3"],
        ["new-1", "", "", "COAT-S", "S", "west", "4"],
        ["new-1", "", "", "COAT-M", "M", "default", "5"],
        ["new-2", "Hat", "9.00", "HAT", "One", "east", "1"],
        ["new-3", "Tie", "8.00", "TIE", "One", "", "6"],
        ["new-2", "", "", "HAT", "One", "west", "2"],
    )
    for counts in ({"created": 3, "updated": 1, "unchanged": 0}, {"created": 0, "updated": 0, "unchanged": 4}):
        job = await import_file(stores, content, CSV, match_by="external_id")
        assert job["status"] == "succeeded", job["errors"]
        assert counts.items() <= job["counts"].items()
        assert await levels(stores, "COAT-S") == {"default": (0, 0), "east": (3, 0), "west": (4, 0)}
        assert await levels(stores, "COAT-M") == {"default": (5, 0)}
        assert await levels(stores, "HAT") == {"default": (0, 0), "east": (1, 0), "west": (2, 0)}
        assert await levels(stores, "TIE") == {"default": (6, 0)}
    await assert_books_balance(stores)


async def test_contradictions_are_refused(stores: Shop) -> None:
    """A result that depends on the order of rows or variants, and values that are no location."""

    def shirt(*variants: dict[str, Any], **more: Any) -> dict[str, Any]:
        return {"variants": list(variants), **more}

    at_east: dict[str, Any] = {"sku": "S", "stock": {"on_hand": 3}, "location": "east"}
    before = await versions(stores)
    cases: list[tuple[dict[str, Any], str, str]] = [
        (shirt(at_east, {"sku": "S", "stock": {"on_hand": 9}}), "/variants/1/location", "required"),
        (shirt(at_east, {**at_east, "stock": {"on_hand": 9}}), "/variants/1/location", "invalid_format"),
        (shirt({**at_east, "barcode": "1"}, {**at_east, "location": "west", "barcode": "2"}), "/variants/1/barcode", "invalid_format"),
        (shirt({"sku": "S", "stock": {"on_hand": 9}}, location="east"), "/location", "invalid_format"),
        (shirt(at_east, {**at_east, "location": "west"}, {"sku": "M", "barcode": 5}), "/variants/2/barcode", "invalid_type"),
        (shirt({"sku": "M"}, {**at_east, "stock": {"on_hand": "x"}}), "/variants/1/stock/on_hand", "invalid_type"),
        ({**at_east, "stock": {"on_hand": -1}}, "/stock/on_hand", "out_of_range"),
        ({**at_east, "stock": {"on_hand": 1, "shelf": 2}}, "/stock/shelf", "unknown_field"),
        ({**at_east, "location": 5}, "/location", "invalid_type"),
        ({**at_east, "location": ["east"]}, "/location", "invalid_type"),
        ({"external_id": "erp-1", "stock": {"on_hand": 1}, "location": "east"}, "/stock", "unknown_variant"),
        ({"sku": "S", "location": {"code": "east"}}, "/location", "invalid_type"),
    ]  # fmt: skip
    for row, pointer, code in cases:
        by = "external_id" if "external_id" in row else "sku"
        job = await import_file(stores, lines([row]), match_by=by)
        assert faults(job) == [(1, pointer, code)], row
    assert await versions(stores) == before
    same = ["MUG-1", "east", "5"]
    twice = await import_file(
        stores, sheet(COUNT, same, same, ["MUG-1", "", "9"], ["MUG-2", "", "3"], ["MUG-2", "west", "1"]), CSV
    )
    assert faults(twice) == [(row, "/sku", "duplicate_row") for row in (2, 3, 5)]
    assert await levels(stores, "MUG-1") == {"default": (3, 0), "east": (5, 0)}
    # Without stock, the location has no effect; other endpoints do not know the field.
    job = await import_file(stores, sheet(COUNT, ["MUG-2", "nowhere", ""]), CSV)
    assert job["counts"]["unchanged"] == 1
    assert (await stores.client.post("/products", json=mug(50, location="east"))).status_code == 422
    batch = {"items": [{"op": "update", "sku": "MUG-2", "data": {"stock": {"on_hand": 1}, "location": "east"}}]}
    assert (await stores.client.post("/products/batch", json=batch)).json()["errors"][0]["code"] == "unknown_field"


async def test_units_that_are_reserved_at_a_location_stay(stores: Shop) -> None:
    await spread(stores, "MUG-1", east=3)
    order = {
        "line_items": [{"sku": "MUG-1", "quantity": 2, "location": "east"}],
        "contact": {"email": "ann@example.com"},
    }
    placed = await stores.client.post("/orders", json=order)
    assert placed.status_code == 201, placed.text
    job = await import_file(stores, sheet(COUNT, ["MUG-1", "east", "1"], ["MUG-2", "east", "1"]), CSV)
    assert faults(job) == [(1, "/stock/on_hand", "out_of_range")]
    assert "at least 2" in job["errors"][0]["detail"]
    assert await levels(stores, "MUG-2") == {"default": (3, 0), "east": (1, 0)}
    job = await import_file(stores, sheet(COUNT, ["MUG-1", "east", "2"]), CSV)
    assert (job["status"], await levels(stores, "MUG-1")) == ("succeeded", {"default": (0, 0), "east": (2, 2)})
    await assert_books_balance(stores)


async def test_stock_at_a_location_needs_the_scope(stores: Shop) -> None:
    scope = "products:write orders:write"
    token = await token_for(stores.service, stores.client_id, stores.client_secret, scope=scope)
    admin, stores.client = stores.client, api_client(stores.application, stores.store.handle, token)
    job = await import_file(
        stores, sheet(f"{COUNT} brand", ["MUG-1", "east", "5", ""], ["MUG-2", "nowhere", "", "Kiln"]), CSV
    )
    assert faults(job) == [(1, "/stock", "insufficient_scope")]
    assert (await catalog(stores))["Mug 2"]["brand"] == "Kiln"
    await stores.client.aclose()
    stores.client = admin
    assert await levels(stores, "MUG-1") == {"default": (3, 0)}


async def test_locations_of_another_store_are_unknown(stores: Shop, other_shop: Shop) -> None:
    await open_locations(other_shop, north=5)
    job = await import_file(stores, sheet(COUNT, ["MUG-1", "north", "5"]), CSV)
    assert faults(job) == [(1, "/location", "unknown_location")]
    status, problem = await refused(other_shop, sheet("sku stock.location", ["A", "north"]), CSV)
    assert (status, problem["errors"][0]["code"]) == (422, "unknown_field")


async def test_rows_of_a_sku_in_different_parts_of_a_file(stores: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("stoa.imports.reading.PART_ROWS", 1)
    rows = [["NEW", "east", "2"], ["MUG-2", "east", "2"], ["NEW", "west", "5"], ["MUG-2", "east", "3"]]
    content = sheet(
        f"{COUNT} name price", *([*row, "New", "9.00"] if row[0] == "NEW" else [*row, "", ""] for row in rows)
    )
    job = await import_file(stores, content, CSV)
    assert (job["counts"]["created"], job["counts"]["updated"]) == (1, 2)
    assert faults(job) == [(4, "/sku", "duplicate_row")]
    assert await levels(stores, "NEW") == {"default": (0, 0), "east": (2, 0), "west": (5, 0)}
    await assert_books_balance(stores)


async def test_an_import_waits_for_a_location_that_is_being_deactivated(stores: Shop) -> None:
    job = await send(stores, sheet(COUNT, ["MUG-1", "east", "5"], ["MUG-2", "west", "5"]), CSV)
    async with stores.db.transaction() as db:
        await LOCK_LOCATION.one(db, stores.store_id, "east")
        active = False
        await ACTIVATE_LOCATION.run(db, stores.store_id, "east", active)
        running = asyncio.create_task(run_pending(stores.db))
        await until_somebody_waits(stores.db)
    await running
    assert faults(await job_of(stores, job["id"])) == [(1, "/location", "unknown_location")]
    assert await levels(stores, "MUG-1") == {"default": (3, 0)}
    assert await levels(stores, "MUG-2") == {"default": (3, 0), "west": (5, 0)}
