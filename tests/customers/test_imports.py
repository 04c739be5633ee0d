"""Imports of customers: every format and every key, each row applied once."""

import asyncio
import csv
import io
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner, Result

from stoa.access.console import IN_PART, open_console
from stoa.db.pool import Database
from stoa.imports.commands import COMMANDS
from stoa.imports.runner import run_pending
from stoa.settings import Settings
from tests.customers.people import HOUSE, JUN, MAYA, created, events
from tests.support.shops import Shop

NDJSON, CSV, JSON = "application/x-ndjson", "text/csv", "application/json"


@pytest.fixture(autouse=True)
async def empty_queue(db: Database) -> None:
    await run_pending(db)


def lines(rows: Iterable[Any]) -> bytes:
    return b"".join(msgspec.json.encode(row) + b"\n" for row in rows)


async def import_file(shop: Shop, content: bytes, media: str = NDJSON, **options: Any) -> dict[str, Any]:
    """Upload a file, run its job, and return the finished job."""
    answer = await shop.client.post(
        "/customers/imports", content=content, headers={"content-type": media}, params=options
    )
    assert answer.status_code == 202, answer.text
    await run_pending(shop.db)
    job = await shop.client.get(answer.headers["location"])
    return job.json()["data"]


async def report(shop: Shop, job: dict[str, Any]) -> list[dict[str, Any]]:
    answer = await shop.client.get(f"/customers/imports/{job['id']}", headers={"accept": NDJSON})
    return [msgspec.json.decode(line) for line in answer.content.splitlines()]


async def everyone(shop: Shop) -> list[dict[str, Any]]:
    return (await shop.client.get("/customers", params={"limit": 250})).json()["data"]


def counts(job: dict[str, Any]) -> tuple[int, int, int, int]:
    return tuple(job["counts"][name] for name in ("created", "updated", "unchanged", "failed"))  # type: ignore[return-value]


async def test_a_row_creates_or_updates_a_customer(shop: Shop) -> None:
    maya, jun = await created(shop, MAYA), await created(shop, JUN)
    rows = [
        {"email": "MAYA.ORTIZ@EXAMPLE.COM", "note": "Knocks.", "metadata": {"tier": None, "lot": 7}},
        {"email": "jun@example.com", "first_name": "Jun"},
        {"email": "rin@example.com", "addresses": [HOUSE], "metadata": {"tier": "new"}},
    ]
    job = await import_file(shop, lines(rows))
    assert (job["status"], counts(job)) == ("succeeded", (1, 1, 1, 0))
    first, second, third = await everyone(shop)
    assert (first["id"], first["note"], first["email"]) == (maya["id"], "Knocks.", "MAYA.ORTIZ@EXAMPLE.COM")
    assert first["metadata"] == {"visits": 3, "vip": True, "shared.loyalty": "L-1", "lot": 7}
    assert second == jun
    assert third["default_shipping_address_id"] == third["addresses"][0]["id"]
    assert [(row["status"], row["id"]) for row in await report(shop, job)] == [
        ("updated", maya["id"]),
        ("unchanged", jun["id"]),
        ("created", third["id"]),
    ]
    assert [name for name, _, _ in (await events(shop))[2:]] == [
        "customer.updated",
        "customer.metadata_changed",
        "customer.created",
        "customer.import_finished",
    ]


async def test_importing_listed_customers_changes_nothing(shop: Shop, other_shop: Shop) -> None:
    people = [MAYA, {**JUN, "addresses": [HOUSE, {**HOUSE, "label": "B", "is_default_billing": True}]}]
    people += [{"phone": f"+1555010{n:04}", "metadata": {"n": n}} for n in range(200, 260)]
    assert counts(await import_file(shop, lines(people), match_by="phone")) == (61, 0, 0, 1)
    assert counts(await import_file(shop, lines(people[:2]))) == (1, 0, 1, 0)
    exported = await everyone(shop)
    for by in ("id", "phone", "email"):
        rows = [each for each in exported if each[by] is not None]
        job = await import_file(shop, lines(rows), match_by=by)
        assert counts(job) == (0, 0, len(rows), 0), (by, job["errors"][:3])
    assert await everyone(shop) == exported
    # In another store the same rows create the same customers, and then change nothing.
    rows = [{n: v for n, v in each.items() if n != "id"} for each in exported if each["email"]]
    assert counts(await import_file(other_shop, lines(rows))) == (2, 0, 0, 0)
    assert counts(await import_file(other_shop, lines(rows))) == (0, 0, 2, 0)
    moved = await everyone(other_shop)
    assert [each["metadata"] for each in moved] == [each["metadata"] for each in rows]


async def test_csv_has_columns_for_metadata_and_one_address(shop: Shop) -> None:
    sheet = (
        "email;phone;first_name;accepts_marketing;tags;metadata.tier;address.address1;address.city;address.country_code\n"
        "rin@example.com;+81312345678;Rin;true;a|b;gold;1-2-3 Ginza;Tokyo;jp\n"
        "kai@example.com;;Kai;;;;;;\n"
    )
    job = await import_file(shop, sheet.encode(), CSV)
    assert counts(job) == (2, 0, 0, 0), job["errors"]
    rin, kai = await everyone(shop)
    assert (rin["tags"], rin["accepts_marketing"], rin["metadata"]) == (["a", "b"], True, {"tier": "gold"})
    assert [(a["city"], a["country_code"], a["is_default_shipping"]) for a in rin["addresses"]] == [
        ("Tokyo", "JP", True)
    ]
    assert kai["addresses"] == []
    assert counts(await import_file(shop, sheet.encode(), CSV)) == (0, 0, 2, 0)
    moved = sheet.replace("1-2-3 Ginza;Tokyo", "4-5 Umeda;Osaka")
    assert counts(await import_file(shop, moved.encode(), CSV)) == (0, 1, 1, 0)
    [after] = (await everyone(shop))[0]["addresses"]
    assert (after["id"], after["city"], after["version"]) == (rin["addresses"][0]["id"], "Osaka", 2)


async def test_match_by_selects_the_key_of_a_row(shop: Shop) -> None:
    maya = await created(shop, MAYA)
    for by, row in (
        ("phone", {"phone": "001 555 010 0123", "note": "by phone"}),
        ("external_id", {"external_id": "crm-1", "note": "by external id"}),
        ("id", {"id": maya["id"], "note": "by id"}),
    ):
        job = await import_file(shop, lines([row]), match_by=by, mode="update")
        assert counts(job) == (0, 1, 0, 0), job["errors"]
    assert (await everyone(shop))[0]["note"] == "by id"


async def test_each_faulty_row_fails_by_itself_with_its_faults(shop: Shop) -> None:
    maya = await created(shop, MAYA)
    rows: list[Any] = [
        {"email": "ok@example.com"},
        {"first_name": "Nobody"},
        {"email": "not an address"},
        {"email": "a@example.com", "phone": "123", "locale": "!"},
        {"email": "b@example.com", "phone": "+15550100123"},
        {"email": "OK@example.com"},
        {"email": "c@example.com", "addresses": [{"address1": "x", "country_code": "??"}]},
        {"email": "maya.ortiz@example.com", "addresses": [{"city": 5}]},
        {"email": "d@example.com", "metadata": {"Bad Key": 1}},
        {"email": "e@example.com", "id": maya["id"]},
        [],
        {"email": "maya.ortiz@example.com", "id": 999_999},
    ]
    job = await import_file(shop, lines(rows))
    assert job["status"] == "partially_succeeded"
    failed = {row["row"]: row["errors"] for row in await report(shop, job) if row["status"] == "failed"}
    assert {row: {(e["pointer"], e["code"]) for e in errors} for row, errors in failed.items()} == {
        2: {("/email", "required")},
        3: {("/email", "invalid_format")},
        4: {("/locale", "invalid_format")},
        5: {("/phone", "customer_exists")},
        6: {("/email", "duplicate_row")},
        7: {("/addresses/0/country_code", "invalid_format")},
        8: {
            ("/addresses/0/address1", "required"),
            ("/addresses/0/country_code", "required"),
            ("/addresses/0/city", "invalid_type"),
        },
        9: {("/metadata/Bad Key", "invalid_format")},
        11: {("", "invalid_type")},
        12: {("/email", "duplicate_row")},
    }


async def test_failed_rows_are_returned_for_correction(shop: Shop) -> None:
    sheet = b"email,locale\nok@example.com,en\nrin@example.com,!\n"
    job = await import_file(shop, sheet, CSV)
    answer = await shop.client.get(f"/customers/imports/{job['id']}", headers={"accept": CSV})
    [row] = list(csv.DictReader(io.StringIO(answer.text, newline="")))
    assert (row["email"], row["locale"], row["error_code"]) == ("rin@example.com", "!", "invalid_format")
    mended = answer.text.replace(",!,", ",ja,")
    assert counts(await import_file(shop, mended.encode(), CSV)) == (1, 0, 0, 0)


async def test_modes_and_dry_run_and_abort(shop: Shop) -> None:
    await created(shop, MAYA)
    known, new = {"email": MAYA["email"], "note": "n"}, {"email": "new@example.com"}
    assert counts(await import_file(shop, lines([known, new]), mode="create")) == (1, 0, 0, 1)
    job = await import_file(shop, lines([known, {"email": "unknown@example.com"}]), mode="update", dry_run="true")
    assert counts(job) == (0, 1, 0, 1)
    assert (await report(shop, job))[0]["changes"] == {"note": ["Rings twice.", "n"]}
    job = await import_file(shop, lines([known, {"email": "broken"}]), on_error="abort")
    assert (job["status"], counts(job)) == ("failed", (0, 0, 0, 1))
    assert (await everyone(shop))[0]["note"] == "Rings twice."


async def test_concurrent_files_with_the_same_customers_create_them_once(shop: Shop) -> None:
    rows = lines([{"email": f"p{n}@example.com", "first_name": f"P{n}"} for n in range(300)])
    media = {"content-type": NDJSON}
    await asyncio.gather(*(shop.client.post("/customers/imports", content=rows, headers=media) for _ in range(2)))
    await asyncio.gather(run_pending(shop.db), run_pending(shop.db))
    assert (await shop.client.get("/customers")).json()["meta"]["total"] == 300
    assert len(await events(shop, "customer.created")) == 300


async def test_jobs_of_products_and_customers_are_separate(shop: Shop) -> None:
    job = await import_file(shop, lines([JUN]))
    assert (await shop.client.get(f"/products/imports/{job['id']}")).status_code == 404
    assert job["options"]["match_by"] == "email"
    refused = await shop.client.post(
        "/customers/imports", content=lines([JUN]), headers={"content-type": NDJSON}, params={"match_by": "sku"}
    )
    assert refused.status_code == 400


async def test_an_unknown_column_is_refused_with_a_suggestion(shop: Shop) -> None:
    answer = await shop.client.post(
        "/customers/imports", content=b"email,frist_name\na@example.com,x\n", headers={"content-type": CSV}
    )
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["meta"] == {"did_you_mean": "first_name"}


async def test_an_operator_imports_a_file(shop: Shop, settings: Settings, tmp_path: Path) -> None:
    file = tmp_path / "people.ndjson"
    file.write_bytes(
        lines([{**JUN, "metadata": {"shared.tier": "gold"}}, {"email": "x@example.com", "metadata": {"a": 1}}])
    )

    def invoke() -> Result:
        words = ["import", "customers", str(file), "--store", shop.store.handle, "--json"]
        return CliRunner().invoke(click.Group(commands=COMMANDS), words, obj=open_console(settings))

    done = await asyncio.to_thread(invoke)
    assert done.exit_code == IN_PART, done.output
    job = msgspec.json.decode(done.stdout)
    assert (job["counts"]["created"], job["counts"]["failed"]) == (1, 1)
    assert job["errors"][0]["pointer"] == "/metadata/a"
    assert (await everyone(shop))[0]["metadata"] == {"shared.tier": "gold"}
