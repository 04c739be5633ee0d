"""Backups of a store with orders, made with the operator's commands."""

import os
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from stoa.access.console import open_console
from stoa.backup import invariants
from stoa.backup.commands import backup, restore_backup
from stoa.db.query import Query
from stoa.settings import Settings
from tests.orders.sample_store import ADA, SampleStore


def run(settings: Settings, *words: str, sent: bytes = b"") -> Result:
    command = backup if words[0] == "backup" else restore_backup

    return CliRunner().invoke(command, list(words[1:]), obj=open_console(settings), input=sent)


def test_a_device_is_not_replaced_by_a_backup(settings: Settings, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for target in (tmp_path, tmp_path / "pipe"):
        refused = run(settings, "backup", str(target), "--overwrite")
        assert (refused.exit_code, "is not a regular file" in refused.output) == (1, True), refused.output
    assert not (tmp_path / "pipe").is_file()


def test_an_unwritable_path_is_reported(settings: Settings, tmp_path: Path) -> None:
    refused = run(settings, "backup", str(tmp_path / "missing" / "stoa.backup"))
    assert (refused.exit_code, refused.output.strip()) == (
        1,
        f"error: {tmp_path}/missing/stoa.backup cannot be written: No such file or directory",
    )


def test_a_file_that_is_not_a_backup_is_refused(settings: Settings) -> None:
    refused = run(settings, "restore", "-", "--drill", sent=b"hello")
    assert (refused.exit_code, "is not a backup, or it is damaged" in refused.output) == (1, True), refused.output


@pytest.mark.parametrize("wrong", ['"total":"1.00"', '"subtotal":"1.00"'])
async def test_an_order_with_inconsistent_amounts_is_found(store: SampleStore, wrong: str) -> None:
    await store.place(
        ("TEA", 1), prices_include_tax=True, tax_total="1.00", discounts=[{"kind": "fixed", "value": "2.00"}]
    )
    order = await store.place(("TEA", 2), ("POT-B", 1), customer=ADA, discount_total="3.00", shipping_total="4.50")
    assert await invariants.SUMS.one(store.shop.db) == 0
    name = wrong.partition(":")[0]
    change = "UPDATE orders SET head = regexp_replace(head, $3, $4) WHERE store_id = $1 AND id = $2"
    await store.shop.db.fetch(change, store.shop.store_id, order["id"], name + ':"[0-9.]+"', wrong)
    assert await invariants.SUMS.one(store.shop.db) == 1
    await store.shop.db.fetch(
        change, store.shop.store_id, order["id"], name + ':"[0-9.]+"', f'{name}:"{order[name[1:-1]]}"'
    )


@pytest.mark.parametrize(
    ("invariant", "wrong"),
    [
        (invariants.REFUNDS, ('"amount":"3.00"', '"amount":"2.00"')),
        (invariants.REFUNDS, ('"amount_paid":"16.00"', '"amount_paid":"2.99"')),
        (invariants.REFUNDS, ('"kind":"payment","amount":"16.00"', '"kind":"payment","amount":"16.01"')),
        (invariants.FULFILLMENTS, ('"quantity":1,"allocations"', '"quantity":2,"allocations"')),
    ],
)
async def test_inconsistent_refunds_and_fulfillments_are_found(
    store: SampleStore, invariant: Query[int], wrong: tuple[str, str]
) -> None:
    order = await store.place(("TEA", 2), status="processing", payment_status="paid")
    line = {"id": order["line_items"][0]["id"], "quantity": 1}
    await store.change_status(order, "shipped", line_items=[line], refund={"amount": "3.00"})
    assert await invariant.one(store.shop.db) == 0
    change = "UPDATE orders SET head = replace(head, $3, $4) WHERE store_id = $1 AND id = $2"
    await store.shop.db.fetch(change, store.shop.store_id, order["id"], *wrong)
    assert await invariant.one(store.shop.db) == 1
    await store.shop.db.fetch(change, store.shop.store_id, order["id"], *reversed(wrong))
    assert await invariant.one(store.shop.db) == 0
