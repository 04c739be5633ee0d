"""The options of imports."""

import asyncio
from typing import Any

import pytest

from stoa.imports.runner import claim_import, claim_this, run_import, run_pending
from tests.imports.files import CSV, catalog, events, import_file, job_of, lines, mug, report, send, sheet
from tests.support.shops import SHIRT, Shop


async def test_upsert_creates_updates_or_leaves_unchanged(shop: Shop) -> None:
    await shop.add(mug(1), mug(2))
    before = await events(shop)
    job = await import_file(shop, lines([mug(1), mug(2, price="13"), mug(3)]))
    assert {name: job["counts"][name] for name in ("created", "updated", "unchanged")} == {
        "created": 1, "updated": 1, "unchanged": 1,
    }  # fmt: skip
    rows = await report(shop, job["id"])
    assert [row["status"] for row in rows] == ["unchanged", "updated", "created"]
    assert all(row["id"] for row in rows)
    assert (await events(shop))[len(before) :] == ["product.created", "product.updated", "product.import_finished"] or (
        await events(shop)
    )[len(before) :] == ["product.updated", "product.created", "product.import_finished"]


async def test_the_same_file_twice_changes_nothing_the_second_time(shop: Shop) -> None:
    content = lines([SHIRT, mug(1), mug(2)])
    await import_file(shop, content)
    before = await catalog(shop)
    earlier = await events(shop)
    job = await import_file(shop, content)
    assert (job["status"], job["counts"]["unchanged"]) == ("succeeded", 3)
    assert await catalog(shop) == before
    assert await events(shop) == [*earlier, "product.import_finished"]


async def test_create_refuses_existing_products(shop: Shop) -> None:
    await shop.add(mug(1), SHIRT)
    job = await import_file(
        shop, lines([mug(1), mug(2), {"name": "x", "price": 1, "external_id": "erp-1"}]), mode="create"
    )
    assert [(e["row"], e["pointer"], e["code"]) for e in job["errors"]] == [
        (1, "/sku", "sku_taken"),
        (3, "/external_id", "external_id_taken"),
    ]
    assert job["counts"]["created"] == 1


async def test_update_refuses_missing_products(shop: Shop) -> None:
    await shop.add(mug(1))
    job = await import_file(shop, lines([mug(1, price="14"), mug(2)]), mode="update")
    assert job["status"] == "partially_succeeded"
    assert [(e["row"], e["key"], e["pointer"], e["code"]) for e in job["errors"]] == [
        (2, {"sku": "MUG-2"}, "/sku", "unknown_sku")
    ]
    assert set(await catalog(shop)) == {"Mug 1"}


async def test_rows_are_matched_by_the_chosen_key(shop: Shop) -> None:
    shirt, mug_id = await shop.add(SHIRT, mug(1))
    job = await import_file(shop, lines([{"external_id": "erp-1", "name": "By external id"}]), match_by="external_id")
    assert job["counts"]["updated"] == 1
    job = await import_file(
        shop, lines([{"id": mug_id, "name": "By id"}, {"id": shirt + mug_id, "name": "?"}]), match_by="id"
    )
    assert (job["counts"]["updated"], job["errors"][0]["code"], job["errors"][0]["pointer"]) == (1, "not_found", "/id")
    job = await import_file(shop, lines([{"sku": "LS-M", "name": "By a variant's SKU"}]), match_by="sku")
    assert job["counts"]["updated"] == 1
    assert set(await catalog(shop)) == {"By a variant's SKU", "By id"}


async def test_a_row_cannot_change_the_sku_of_its_product(shop: Shop) -> None:
    mug_id, _ = await shop.add(mug(1), SHIRT)
    job = await import_file(shop, lines([{"id": mug_id, "sku": "OTHER", "name": "Changed"}]), match_by="id")
    assert [(e["pointer"], e["code"]) for e in job["errors"]] == [("/sku", "read_only_field")]
    variant = (await shop.client.get(f"/products/{mug_id}/variants")).json()["data"][0]["id"]
    nested = {"id": mug_id, "variants": [{"id": variant, "sku": "OTHER"}]}
    assert (await import_file(shop, lines([nested]), match_by="id"))["counts"]["updated"] == 1
    assert (await shop.client.get(f"/products/{mug_id}")).json()["data"]["sku"] == "OTHER"


async def test_a_row_without_an_id_is_new_when_matched_by_id(shop: Shop) -> None:
    job = await import_file(shop, lines([mug(1)]), match_by="id")
    assert job["counts"]["created"] == 1


@pytest.mark.parametrize(
    ("row", "match_by", "fault"),
    [
        ({"name": "x", "price": 1}, "sku", ("/sku", "required")),
        ({"name": "x", "price": 1}, "external_id", ("/external_id", "required")),
        ({"name": "x", "price": 1, "sku": 5}, "sku", ("/sku", "invalid_type")),
        ({"name": "x", "price": 1, "id": "5"}, "id", ("/id", "invalid_type")),
        ({"variants": [{"sku": "LS-S"}, {"sku": "MUG-1"}]}, "sku", ("/variants", "sku_taken")),
    ],
)
async def test_a_row_must_have_the_key_it_is_matched_by(
    shop: Shop, row: Any, match_by: str, fault: tuple[str, str]
) -> None:
    await shop.add(SHIRT, mug(1))
    job = await import_file(shop, lines([row]), match_by=match_by)
    assert job["status"] == "failed"
    assert [(each["pointer"], each["code"]) for each in job["errors"]] == [fault]


async def test_abort_writes_nothing_when_any_row_fails(shop: Shop) -> None:
    await shop.add(mug(1))
    before, earlier = await catalog(shop), await events(shop)
    rows = [mug(1, price="99"), *(mug(n) for n in range(2, 700)), mug(700, price="free")]
    job = await import_file(shop, lines(rows), on_error="abort", missing="archive")
    assert job["status"] == "failed"
    assert job["counts"] == {
        "total": 700, "processed": 700, "created": 0, "updated": 0, "unchanged": 0, "archived": 0, "failed": 1,
    }  # fmt: skip
    assert [(e["row"], e["code"]) for e in job["errors"]] == [(700, "invalid_money")]
    assert await catalog(shop) == before
    assert await events(shop) == [*earlier, "product.import_finished"]


async def test_abort_writes_everything_when_all_rows_are_valid(shop: Shop) -> None:
    await shop.add(mug(1), mug(9_000))
    job = await import_file(shop, lines(mug(n, price="20") for n in range(1, 701)), on_error="abort", missing="archive")
    assert job["status"] == "succeeded", job["errors"]
    assert job["counts"] == {
        "total": 700, "processed": 700, "created": 699, "updated": 1, "unchanged": 0, "archived": 1, "failed": 0,
    }  # fmt: skip
    assert len(await report(shop, job["id"])) == 700


async def test_abort_writes_nothing_after_a_lost_race(shop: Shop) -> None:
    job = await send(shop, lines([mug(1), mug(2), mug(3)]), on_error="abort", mode="create")
    claimed = await claim_import(shop.db, "w")
    assert claimed is not None
    stops = iter([False, True])
    await run_import(shop.db, claimed, "w", lambda: next(stops))  # stops between checking and writing
    assert (await job_of(shop, job["id"]))["progress"] == 0.5
    await shop.add(mug(2))
    await run_pending(shop.db)
    done = await job_of(shop, job["id"])
    assert (done["status"], done["counts"]["created"]) == ("failed", 0)
    assert [(e["row"], e["code"]) for e in done["errors"]] == [(2, "sku_taken")]
    assert set(await catalog(shop)) == {"Mug 2"}


async def test_a_dry_run_reports_changes_and_writes_nothing(shop: Shop) -> None:
    shirt, *_ = await shop.add(SHIRT, mug(1), mug(2))
    before, earlier = await catalog(shop), await events(shop)
    change = {"external_id": "erp-1", "price": "60", "variants": [{"sku": "LS-S", "stock": {"on_hand": 9}}]}
    job = await import_file(
        shop,
        lines([change, {"external_id": "erp-2", "name": "New", "price": 1}, {"external_id": "erp-3"}]),
        match_by="external_id",
        dry_run="true",
        missing="archive",
    )
    assert (job["status"], job["options"]["dry_run"]) == ("partially_succeeded", True)
    assert (job["counts"]["created"], job["counts"]["updated"], job["counts"]["failed"]) == (1, 1, 1)
    first, second, third = await report(shop, job["id"])
    assert (first["id"], first["status"], first["changes"]["price"]) == (shirt, "updated", ["59.00", "60.00"])
    sizes = {each["sku"]: each["changes"] for each in first["changes"]["variants"]}
    assert sizes["LS-S"]["stock"] == [{"on_hand": 4}, {"on_hand": 9}]
    assert sizes["LS-S"]["effective_price"] == ["59.00", "60.00"]
    assert (second["status"], second["id"], third["status"]) == ("created", None, "failed")
    assert await catalog(shop) == before
    assert await events(shop) == [*earlier, "product.import_finished"]


async def test_a_dry_run_counts_the_products_to_archive(shop: Shop) -> None:
    await shop.add(mug(1), mug(2), mug(3))
    job = await import_file(shop, lines([mug(1)]), dry_run="true", missing="archive")
    assert (job["status"], job["counts"]["archived"]) == ("succeeded", 2)
    assert {product["status"] for product in (await catalog(shop)).values()} == {"active"}


async def test_missing_products_are_archived_with_events(shop: Shop) -> None:
    await shop.add(*(mug(n) for n in range(600)), {**mug(700), "status": "archived"})
    job = await import_file(shop, lines([mug(1), mug(2, price="3")]), missing="archive")
    assert (job["status"], job["counts"]["archived"]) == ("succeeded", 598)
    found = await catalog(shop)
    assert {name for name, product in found.items() if product["status"] == "active"} == {"Mug 1", "Mug 2"}
    assert (await events(shop)).count("product.updated") == 599


async def test_nothing_is_archived_when_a_row_failed(shop: Shop) -> None:
    """A row that cannot be parsed may refer to any product."""
    await shop.add(mug(1), mug(2))
    job = await import_file(shop, lines([mug(1)]) + b"nonsense\n", missing="archive")
    assert (job["status"], job["counts"]["archived"]) == ("partially_succeeded", 0)
    assert {product["status"] for product in (await catalog(shop)).values()} == {"active"}


async def test_products_created_after_the_upload_are_not_archived(shop: Shop) -> None:
    job = await send(shop, lines([mug(1)]), missing="archive")
    await shop.add(mug(2))
    await run_pending(shop.db)
    assert (await job_of(shop, job["id"]))["counts"]["archived"] == 0


async def test_products_that_another_import_created_with_an_earlier_date_are_not_archived(shop: Shop) -> None:
    await shop.add(mug(1), mug(2))
    archiving = await send(shop, lines([mug(1)]), missing="archive")
    later = await send(shop, lines([mug(3, created_at="2019-05-04T10:00:00Z")]))
    claimed = await claim_this(shop.db, "w", shop.store_id, later["id"])
    assert claimed is not None
    await run_import(shop.db, claimed, "w")
    created = (await catalog(shop))["Mug 3"]["id"]
    assert (await shop.client.patch(f"/products/{created}", json={"price": "3.00"})).status_code == 200
    await run_pending(shop.db)
    assert (await job_of(shop, archiving["id"]))["counts"]["archived"] == 1
    found = await catalog(shop)
    assert {name: product["status"] for name, product in found.items()} == {
        "Mug 1": "active", "Mug 2": "archived", "Mug 3": "active",
    }  # fmt: skip


async def test_products_that_an_earlier_import_created_with_an_earlier_date_are_archived(shop: Shop) -> None:
    await import_file(shop, lines([mug(1), mug(2, created_at="2019-05-04T10:00:00Z")]))
    job = await import_file(shop, lines([mug(1)]), missing="archive")
    assert job["counts"]["archived"] == 1


async def test_two_jobs_with_the_same_sku_create_one_product(shop: Shop) -> None:
    first = await send(shop, lines(mug(n) for n in range(800)))
    second = await send(shop, lines(mug(n) for n in reversed(range(800))))
    await asyncio.gather(run_pending(shop.db), run_pending(shop.db))
    jobs = [await job_of(shop, job["id"]) for job in (first, second)]
    assert sum(job["counts"]["created"] for job in jobs) == 800
    assert sum(job["counts"]["processed"] for job in jobs) == 1600
    assert sum(job["counts"]["failed"] for job in jobs) == 0
    assert (await shop.client.get("/products")).json()["meta"]["total"] == 800


@pytest.mark.parametrize(
    ("options", "name"),
    [({"mode": "replace"}, "mode"), ({"match_by": "name"}, "match_by"), ({"on_error": "stop"}, "on_error"),
     ({"dry_run": "yes"}, "dry_run"), ({"missing": "delete"}, "missing")],
)  # fmt: skip
async def test_an_unknown_option_is_refused(shop: Shop, options: dict[str, str], name: str) -> None:
    answer = await shop.client.post(
        "/products/imports", content=lines([mug(1)]), headers={"content-type": CSV}, params=options
    )
    assert (answer.status_code, answer.json()["errors"][0]["pointer"]) == (400, name)


async def test_create_cannot_be_matched_by_id(shop: Shop) -> None:
    answer = await shop.client.post(
        "/products/imports",
        content=sheet("id name", ["1", "x"]),
        headers={"content-type": CSV},
        params={"mode": "create", "match_by": "id"},
    )
    assert (answer.status_code, answer.json()["code"]) == (400, "invalid_parameter")
