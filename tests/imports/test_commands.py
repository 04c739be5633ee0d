"""Imports by the `stoa import` command."""

import asyncio
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from stoa.access.console import open_console
from stoa.imports.commands import COMMANDS
from stoa.settings import Settings
from tests.imports.files import catalog, lines, mug, sheet
from tests.support.shops import Shop

Stoa = Callable[..., Any]


@pytest.fixture
def stoa(settings: Settings) -> Stoa:
    """Runs a command like a shell, in its own thread because it has its own event loop."""

    async def run(*words: str) -> Result:
        def invoke() -> Result:
            return CliRunner().invoke(click.Group(commands=COMMANDS), ["import", *words], obj=open_console(settings))

        return await asyncio.to_thread(invoke)

    return run


async def test_a_file_is_imported_and_counted(stoa: Stoa, shop: Shop, tmp_path: Path) -> None:
    file = tmp_path / "mugs.ndjson"
    file.write_bytes(lines([mug(1), mug(2)]))
    done = await stoa("products", str(file), "--store", shop.store.handle)
    assert done.exit_code == 0, done.output
    assert "succeeded" in done.stdout
    assert set(await catalog(shop)) == {"Mug 1", "Mug 2"}
    [[actor]] = await shop.db.fetch(
        "SELECT DISTINCT actor FROM events WHERE store_id = $1 AND type LIKE 'product.%'", shop.store_id
    )
    assert json.loads(actor) == {"type": "operator"}


async def test_programs_read_the_job_as_json(stoa: Stoa, shop: Shop, tmp_path: Path) -> None:
    file = tmp_path / "mugs.csv.gz"
    file.write_bytes(gzip.compress(sheet("sku name price", ["A", "x", "1"], ["B", "", "1"])))
    done = await stoa("products", str(file), "--store", shop.store.handle, "--dry-run", "--json")
    assert done.exit_code == 4, "some rows failed"
    job = json.loads(done.stdout)
    assert (job["status"], job["counts"]["created"], job["errors"][0]["row"]) == ("partially_succeeded", 1, 2)
    assert await catalog(shop) == {}


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("mugs.xlsx", b"x", "must end in"),
        ("mugs.csv", b"sku,prise\nA,1\n", "/prise: is not a known field"),
        ("mugs.ndjson.gz", b"not packed", "cannot be read"),
    ],
)
async def test_an_unusable_file_is_reported_in_one_line(
    stoa: Stoa, shop: Shop, tmp_path: Path, name: str, content: bytes, words: str
) -> None:
    file = tmp_path / name
    file.write_bytes(content)
    done = await stoa("products", str(file), "--store", shop.store.handle)
    assert done.exit_code == 1
    assert words in done.output
    assert "Traceback" not in done.output


async def test_a_missing_file_is_named(stoa: Stoa, shop: Shop) -> None:
    done = await stoa("products", "nowhere.csv", "--store", shop.store.handle)
    assert done.exit_code == 1
    assert "nowhere.csv cannot be read: No such file or directory\n" in done.output


async def test_a_command_refuses_the_same_options_as_a_request(stoa: Stoa, shop: Shop, tmp_path: Path) -> None:
    file = tmp_path / "mugs.csv"
    file.write_bytes(sheet("id name price", ["7", "x", "1"]))
    done = await stoa("products", str(file), "--store", shop.store.handle, "--mode", "create", "--match-by", "id")
    assert (done.exit_code, "cannot be combined with match_by=id" in done.output) == (1, True)
    assert await catalog(shop) == {}


async def test_an_unknown_store_is_named(stoa: Stoa, tmp_path: Path) -> None:
    file = tmp_path / "mugs.json"
    file.write_bytes(b'{"items":[{}]}')
    done = await stoa("products", str(file), "--store", "nowhere")
    assert (done.exit_code, "nowhere" in done.output) == (1, True)
