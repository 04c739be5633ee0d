"""Faulty rows fail by themselves and report their faults."""

from typing import Any

import msgspec
import pytest

from tests.imports.files import CSV, catalog, failures, import_file, lines, mug, report, sheet
from tests.support.shops import SHIRT, Shop


def shirt_of(count: int) -> dict[str, Any]:
    """A product with this many sizes and colors."""
    kinds = [{"Size": f"S{number % 20}", "Color": f"C{number // 20}"} for number in range(count)]
    options = [{"name": name, "values": sorted({kind[name] for kind in kinds})} for name in ("Size", "Color")]
    variants = [
        {"sku": f"V-{place}", "option_values": kind, "stock": {"on_hand": 1}} for place, kind in enumerate(kinds)
    ]
    return {"name": f"Shirt of {count}", "price": 1, "options": options, "variants": variants}


async def test_faulty_rows_fail_and_the_others_succeed(shop: Shop) -> None:
    rows: list[Any] = [mug(1), mug(2, price="free", status="gone"), 7, mug(3, nmae="x"), mug(4)]
    content = lines(rows) + b'{"sku": "a", "sku": "b"}\n{"sku": "\\ud800"}\n{"a":' + b"[" * 100 + b"\nnot json\n"
    job = await import_file(shop, content)
    assert (job["status"], job["counts"]["created"], job["counts"]["failed"]) == ("partially_succeeded", 2, 7)
    assert [(e["row"], e["pointer"], e["code"]) for e in job["errors"]] == [
        (2, "/price", "invalid_money"),
        (2, "/status", "invalid_format"),
        (3, "", "invalid_type"),
        (4, "/nmae", "unknown_field"),
        (6, "", "malformed_json"),
        (7, "", "malformed_json"),
        (8, "", "malformed_json"),
        (9, "", "malformed_json"),
    ]
    assert set(await catalog(shop)) == {"Mug 1", "Mug 4"}
    assert [row["status"] for row in await report(shop, job["id"])] == [
        "created",
        *["failed"] * 3,
        "created",
        *["failed"] * 4,
    ]


async def test_a_deeply_nested_row_fails_by_itself(shop: Shop) -> None:
    deep = b'{"sku":' + b"[" * 20_000 + b"]" * 20_000 + b"}"
    job = await import_file(shop, lines([mug(1)]) + deep + b"\n")
    assert (job["counts"]["created"], [(e["row"], e["code"]) for e in job["errors"]]) == (1, [(2, "malformed_json")])
    job = await import_file(shop, sheet("json", [deep.decode()]), CSV)
    assert [(e["row"], e["code"]) for e in job["errors"]] == [(1, "malformed_json")]


async def test_a_job_fails_if_every_row_fails(shop: Shop) -> None:
    job = await import_file(shop, b"{}\n{}\n")
    assert (job["status"], job["counts"]["failed"]) == ("failed", 2)


async def test_a_product_has_at_most_two_hundred_variants(shop: Shop) -> None:
    job = await import_file(shop, lines([shirt_of(200)]))
    assert job["status"] == "succeeded", job["errors"]
    assert (await catalog(shop))["Shirt of 200"]["stock"]["on_hand"] == 200
    job = await import_file(shop, lines([shirt_of(201)]), mode="create")
    assert [(e["pointer"], e["code"]) for e in job["errors"]] == [("/variants", "too_long")]
    job = await import_file(shop, lines([{**shirt_of(201), "options": shirt_of(200)["options"]}]))
    assert [(e["pointer"], e["code"]) for e in job["errors"]] == [("/variants/200", "too_long")]
    assert len((await catalog(shop))["Shirt of 200"]["variants"]) == 200


async def test_two_hundred_variants_can_be_csv_records(shop: Shop) -> None:
    records = [["Shirt", "1", f"V-{n}", f"S{n}"] for n in range(200)]
    job = await import_file(shop, sheet("name price sku option.Size", *records), CSV)
    assert (job["status"], job["counts"]["total"]) == ("succeeded", 1), job
    job = await import_file(shop, sheet("name price sku option.Size", *records, ["Shirt", "", "V-200", "S200"]), CSV)
    assert [(e["row"], e["code"]) for e in job["errors"]] == [(1, "too_long")]


@pytest.mark.parametrize("apart", [0, 900], ids=["in one part", "in parts of their own"])
@pytest.mark.parametrize("options", [{}, {"dry_run": "true"}, {"on_error": "abort"}])
async def test_a_repeated_key_fails_its_second_row(shop: Shop, apart: int, options: dict[str, str]) -> None:
    rows = [
        {**SHIRT, "external_id": "a"},
        *(mug(n, external_id=f"m{n}") for n in range(apart)),
        {"external_id": "b", "name": "Same SKU", "price": 1, "variants": [{"sku": "LS-M"}]},
        {"external_id": "a", "name": "Same id"},
        {"external_id": "c", "name": "Fine", "price": 1, "sku": "F"},
    ]
    job = await import_file(shop, lines(rows), match_by="external_id", **options)
    assert [(e["row"], e["pointer"], e["code"], e["detail"]) for e in job["errors"]] == [
        (apart + 2, "/variants/0/sku", "duplicate_row", "is already in row 1 of this file"),
        (apart + 3, "/external_id", "duplicate_row", "is already in row 1 of this file"),
    ]
    expected: set[str] = set() if options else {"Linen Shirt", "Fine", *(f"Mug {n}" for n in range(apart))}
    assert set(await catalog(shop)) == expected


async def test_records_of_one_product_must_be_consecutive(shop: Shop) -> None:
    content = sheet(
        "external_id name price sku option.Size",
        ["a", "A", "1", "A-S", "S"],
        ["b", "B", "1", "B-S", "S"],
        ["a", "", "", "A-M", "M"],
    )
    job = await import_file(shop, content, CSV, match_by="external_id")
    assert [(e["row"], e["key"], e["code"]) for e in job["errors"]] == [(3, {"external_id": "a"}, "duplicate_row")]


async def test_records_of_one_product_must_agree(shop: Shop) -> None:
    content = sheet("external_id name price sku option.Size", ["a", "A", "1", "A-S", "S"], ["a", "B", "1", "A-M", "M"])
    job = await import_file(shop, content, CSV, match_by="external_id")
    assert [(e["row"], e["pointer"], e["code"]) for e in job["errors"]] == [(1, "/name", "invalid_format")]
    assert len(await failures(shop, job["id"])) == 2, "the report contains both records"


@pytest.mark.parametrize(
    ("cells", "fault"),
    [
        (["A", "x", "1", "many", ""], ("/stock/on_hand", "invalid_type")),
        (["A", "x", "1", "-1", ""], ("/stock/on_hand", "out_of_range")),
        (["A", "x", "1,50", "1", ""], ("/price", "invalid_money")),
        (["A", "x", "1", "1", "perhaps"], ("/taxable", "invalid_type")),
        (["A", "x", "1", "1", "true", "more"], ("", "invalid_format")),
        (["A", "", "1", "1", "true"], ("/name", "required")),
        (["A", "null", "1", "1", "true"], ("/name", "invalid_type")),
    ],
)
async def test_an_invalid_cell_is_named(shop: Shop, cells: list[str], fault: tuple[str, str]) -> None:
    job = await import_file(shop, sheet("sku name price stock.on_hand taxable", cells), CSV)
    assert [(e["pointer"].removeprefix("/variants/0"), e["code"]) for e in job["errors"]] == [fault]


@pytest.mark.parametrize("variants", [5, "ab", {"sku": "x"}, [5], [[]], True])
async def test_variants_of_the_wrong_type_are_a_fault(shop: Shop, variants: Any) -> None:
    await shop.add(mug(1))
    for row in (mug(1, variants=variants), mug(2, variants=variants)):
        job = await import_file(shop, lines([row]))
        assert {e["code"] for e in job["errors"]} == {"invalid_type"}, job


async def test_a_race_lost_while_saving_fails_only_its_row(shop: Shop) -> None:
    """The external id of a variant is not looked up beforehand; the unique index refuses it."""
    await shop.add({"name": "First", "price": 1, "variants": [{"sku": "F", "external_id": "taken"}]})
    rows = [mug(1), mug(2, variants=[{"sku": "MUG-2", "external_id": "taken"}]), mug(3)]
    job = await import_file(shop, lines(rows))
    assert (job["counts"]["created"], [(e["row"], e["code"]) for e in job["errors"]]) == (2, [(2, "external_id_taken")])
    assert set(await catalog(shop)) == {"First", "Mug 1", "Mug 3"}


async def test_a_job_shows_its_first_hundred_faults(shop: Shop) -> None:
    job = await import_file(shop, lines({"sku": f"x{n}"} for n in range(150)))
    assert len(job["errors"]) == 100
    assert len(await failures(shop, job["id"])) == 150


async def test_faults_quote_only_a_short_part_of_the_input(shop: Shop) -> None:
    job = await import_file(shop, lines([{"sku": "x" * 90, "n" * 5_000: 1, "name": "y" * 5_000, "price": "z" * 5_000}]))
    assert len(msgspec.json.encode(job)) < 2_500
