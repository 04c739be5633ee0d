"""Orders that an operator moves with `stoa import orders`."""

import asyncio
import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import msgspec
import pytest
from click.testing import CliRunner, Result

from stoa.access.console import open_console
from stoa.orders.commands import COMMANDS
from stoa.settings import Settings
from tests.docs.pages import GUIDES, blocks
from tests.support.moved_shop import sent, shop_of, shown
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


def lines(orders: list[dict[str, Any]]) -> bytes:
    return b"".join(msgspec.json.encode(order) + b"\n" for order in orders)


async def test_a_file_is_moved(stoa: Stoa, shop: Shop, tmp_path: Path) -> None:
    orders = shop_of(5, 3, 120).orders
    file = tmp_path / "orders.ndjson.gz"
    file.write_bytes(gzip.compress(lines(orders)))
    done = await stoa("orders", str(file), "--store", shop.store.handle, "--json")
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout) == {"total": 120, "created": 120, "skipped": 0, "failed": 0, "errors": []}
    found = (await shop.client.get("/orders?limit=250&sort=number")).json()["data"]
    assert [shown(each) for each in found] == [sent(each) for each in orders]
    assert found[0]["payments"][0]["actor"]["type"] == "operator"


async def test_a_second_run_continues_after_the_first(stoa: Stoa, shop: Shop, tmp_path: Path) -> None:
    orders = shop_of(5, 3, 6).orders
    file = tmp_path / "orders.jsonl"
    file.write_bytes(lines(orders[:4]))
    assert (await stoa("orders", str(file), "--store", shop.store.handle)).exit_code == 0
    file.write_bytes(lines(orders))
    again = await stoa("orders", str(file), "--store", shop.store.handle, "--json")
    assert (again.exit_code, json.loads(again.stdout)["created"]) == (4, 2), "4 numbers are taken"
    done = await stoa("orders", str(file), "--store", shop.store.handle, "--skip-existing", "--json")
    assert (done.exit_code, json.loads(done.stdout)["skipped"]) == (0, 6)


async def test_faults_name_their_line(stoa: Stoa, shop: Shop, tmp_path: Path) -> None:
    good, wrong = shop_of(5, 3, 2).orders
    file = tmp_path / "orders.ndjson"
    file.write_bytes(lines([good]) + b"\n{\n[]\n" + lines([{**wrong, "placed_at": "2999-01-01T00:00:00Z"}]))
    done = await stoa("orders", str(file), "--store", shop.store.handle, "--json")
    assert done.exit_code == 4
    report = json.loads(done.stdout)
    assert (report["total"], report["created"], report["failed"]) == (4, 1, 3)
    assert [each["row"] for each in report["errors"]][:3] == [3, 4, 5]
    assert report["errors"][2]["key"] == {"number": wrong["number"]}
    assert report["errors"][2]["pointer"] == "/placed_at"


@pytest.mark.parametrize("name", ["orders.csv", "missing.ndjson"])
async def test_a_file_that_cannot_be_read_is_refused(stoa: Stoa, shop: Shop, tmp_path: Path, name: str) -> None:
    done = await stoa("orders", str(tmp_path / name), "--store", shop.store.handle)
    assert done.exit_code == 1
    assert name in done.output


async def test_the_commands_of_the_guide_run_as_written(
    stoa: Stoa, shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = shop_of(5, 3, 4)
    for name in ("products", "customers", "orders"):
        (tmp_path / f"{name}.ndjson").write_bytes(lines(getattr(moved, name)))
    monkeypatch.chdir(tmp_path)
    commands = [line for block in blocks(GUIDES / "moving.md", "bash") for line in block.text.splitlines()]
    for command in commands:
        done = await stoa(*command.replace("demo", shop.store.handle).removeprefix("stoa import ").split())
        assert done.exit_code == 0, done.output
    assert [
        (await shop.client.get(f"/{name}")).json()["meta"]["total"] for name in ("products", "customers", "orders")
    ] == [5, 3, 4]


async def test_a_line_may_be_as_long_as_the_body_of_a_request(stoa: Stoa, shop: Shop, tmp_path: Path) -> None:
    orders = shop_of(5, 3, 2).orders
    orders[0]["line_items"] *= 400
    for line in orders[0]["line_items"][:400]:
        line["metadata"] = {"note": "x" * 4000}
    file = tmp_path / "orders.ndjson"
    file.write_bytes(lines(orders))
    done = await stoa("orders", str(file), "--store", shop.store.handle, "--json")
    found = json.loads(done.stdout)
    assert (found["created"], found["failed"], found["errors"][0]["code"]) == (1, 1, "payload_too_large")
