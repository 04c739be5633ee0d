"""`stoa export`: the rows that the API streams, in a file that is complete or does not exist."""

import csv
import gzip
import io
import json
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import Result

from stoa.db.errors import Unavailable
from stoa.db.listing import Listing
from stoa.settings import Settings
from stoa.store_data import list_exports
from stoa.store_data.list_exports import LISTS
from tests.cli.test_command_line import Run, runner
from tests.support.shops import MUG, PERSON, SHIRT, Shop

ACCEPT = {"ndjson": "application/x-ndjson", "csv": "text/csv"}


@pytest.fixture
def stoa(settings: Settings) -> Run:
    return runner(settings)


def ok(done: Result) -> Result:
    assert done.exit_code == 0, done.output
    return done


def rows_of(text: str, kind: str) -> list[dict[str, Any]]:
    """The rows of a file, without the time at which it was made."""
    if kind == "ndjson":
        return [row for row in map(json.loads, text.splitlines()) if "meta" not in row]
    found = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
    return [{name: cell for name, cell in row.items() if name != "exported_at"} for row in found]


async def streamed(client: httpx.AsyncClient, name: str, kind: str, **params: str) -> list[dict[str, Any]]:
    answer = await client.get(LISTS[name].path, params=params, headers={"accept": ACCEPT[kind]})
    assert answer.status_code == 200, answer.text
    return rows_of(answer.text, kind)


@pytest.mark.parametrize("kind", ACCEPT)
async def test_every_list_is_exported_as_the_api_streams_it(stoa: Run, shop: Shop, tmp_path: Path, kind: str) -> None:
    await shop.fill()
    await shop.client.post("/customers", json={**PERSON, "metadata": {"shared.tier": "gold"}})
    for name in LISTS:
        file = tmp_path / f"{name}.{kind}"
        ok(await stoa("export", name, "--store", shop.store.handle, "-o", str(file)))
        rows = rows_of(file.read_text(), kind)
        assert rows == await streamed(shop.client, name, kind), name
        assert rows, name


async def test_an_export_of_many_rows_contains_each_once(stoa: Run, shop: Shop, tmp_path: Path) -> None:
    await shop.add(*({**MUG, "sku": f"M-{n}", "name": f"Mug {n}"} for n in range(1_303)))
    done = ok(await stoa("export", "products", "--store", shop.store.handle, "-o", str(tmp_path / "a.csv"), "--json"))
    result = json.loads(done.stdout)
    assert (result["rows"], result["bytes"]) == (1_303, (tmp_path / "a.csv").stat().st_size)
    assert [row["sku"] for row in rows_of((tmp_path / "a.csv").read_text(), "csv")] == [f"M-{n}" for n in range(1_303)]
    await shop.add({**MUG, "sku": "LATE"})
    words = ("export", "products", "--store", shop.store.handle, "-p", f"cursor={result['cursor']}")
    assert [row["sku"] for row in rows_of(ok(await stoa(*words)).stdout, "ndjson")] == ["LATE"]


async def test_the_parameters_are_those_of_the_list(stoa: Run, shop: Shop) -> None:
    await shop.add(SHIRT, {**MUG, "status": "draft"})
    words = ("export", "products", "--store", shop.store.handle, "-p", "status=draft", "-p", "fields=id,name")
    assert rows_of(ok(await stoa(*words)).stdout, "ndjson") == await streamed(
        shop.client, "products", "ndjson", status="draft", fields="id,name"
    )
    done: Result = await stoa("export", "products", "--store", shop.store.handle, "-p", "status=gone", "-p", "limit=1")
    assert done.exit_code == 1
    assert "status: " in done.stderr
    done = await stoa("export", "products", "--store", shop.store.handle, "-p", "status")
    assert (done.exit_code, "write NAME=VALUE" in done.stderr) == (2, True)


async def test_private_metadata_of_apps_is_not_exported(stoa: Run, shop: Shop) -> None:
    await shop.client.post("/customers", json={**PERSON, "metadata": {"secret": "gold", "shared.tier": "silver"}})
    for kind in ACCEPT:
        text = ok(await stoa("export", "customers", "--store", shop.store.handle, "--format", kind)).stdout
        assert "gold" not in text
        assert "silver" in text


async def test_a_file_is_compressed_if_its_name_says_so(stoa: Run, shop: Shop, tmp_path: Path) -> None:
    await shop.add(SHIRT, MUG)
    file = tmp_path / "products.ndjson.gz"
    ok(await stoa("export", "products", "--store", shop.store.handle, "-o", str(file)))
    assert rows_of(gzip.decompress(file.read_bytes()).decode(), "ndjson") == await streamed(
        shop.client, "products", "ndjson"
    )
    done: Result = await stoa(
        "import", "products", str(file), "--store", shop.store.handle, "--match-by", "id", "--json"
    )
    assert json.loads(done.stdout)["counts"]["unchanged"] == 2, done.output


async def test_a_file_is_replaced_only_on_request(stoa: Run, shop: Shop, tmp_path: Path) -> None:
    file = tmp_path / "orders.csv"
    file.write_text("mine")
    words = ("export", "orders", "--store", shop.store.handle, "-o", str(file))
    refused: Result = await stoa(*words)
    assert (refused.exit_code, file.read_text()) == (1, "mine")
    assert "pass --overwrite" in refused.stderr
    ok(await stoa(*words, "--overwrite"))
    assert file.read_text().startswith("id,number,")
    assert file.stat().st_mode & 0o777 == 0o600, "it contains personal data"


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("export orders --store S -o orders.txt", "must end in .csv, .ndjson, .jsonl, or pass --format"),
        ("export orders --store S --json", "pass -o FILE"),
        ("export parcels --store S", "'parcels' is not one of"),
    ],
)
async def test_wrong_usage_exits_with_2(stoa: Run, shop: Shop, words: str, message: str) -> None:
    done: Result = await stoa(*words.replace("S", shop.store.handle).split())
    assert (done.exit_code, message in done.stderr) == (2, True), done.stderr


async def test_the_audit_log_shows_an_export_without_its_values(stoa: Run, shop: Shop) -> None:
    await shop.fill()
    ok(await stoa("export", "customers", "--store", shop.store.handle, "-p", "email=ada@example.com"))
    [row] = await shop.db.fetch(
        "SELECT detail FROM audit_entries WHERE store_id = $1 AND action = 'customers.exported'", shop.store_id
    )
    assert json.loads(row[0])["filters"] == ["email"]
    assert "ada@" not in row[0]


async def test_an_export_goes_on_after_a_broken_connection(
    stoa: Run, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shop.add(*({**MUG, "sku": f"M-{n}"} for n in range(600)))
    page, calls = Listing.page, 0

    async def breaking(*given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == 2:  # the server ends the connection that the statement uses
            await given[1].fetch("SELECT pg_terminate_backend(pg_backend_pid())")
        return await page(*given, **named)

    monkeypatch.setattr(Listing, "page", breaking)
    done = ok(await stoa("export", "products", "--store", shop.store.handle, "-o", str(tmp_path / "a.ndjson")))
    assert "the export continues" in done.stderr
    rows = rows_of((tmp_path / "a.ndjson").read_text(), "ndjson")
    assert [row["sku"] for row in rows] == [f"M-{n}" for n in range(600)]


async def test_a_failed_export_leaves_no_file(
    settings: Settings, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    await shop.add(*({**MUG, "sku": f"M-{n}"} for n in range(600)))
    page, calls = Listing.page, 0

    async def breaking(*given: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls > 1:
            raise Unavailable("the database is away")
        return await page(*given, **named)

    monkeypatch.setattr(Listing, "page", breaking)
    monkeypatch.setattr(list_exports, "PATIENCE_S", 0)
    words = ("export", "products", "--store", shop.store.handle, "-o", str(tmp_path / "a.ndjson"))
    done: Result = await runner(settings)(*words)
    assert done.exit_code == 3, done.output
    assert list(tmp_path.iterdir()) == []
