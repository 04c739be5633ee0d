"""Store settings: region and taxes, closing, export, deletion with a delay, and development stores."""

import msgspec
import pytest

from stoa.access import audit
from stoa.access.admission import Admission
from stoa.access.closures import reopen_store
from stoa.access.contract import ErasureBegun, NoSuchStore
from stoa.access.operator import find_store
from stoa.access.stores import resume_store, suspend_store
from stoa.db.pool import Database
from stoa.demo import development_stores
from stoa.operations.maintenance import maintain
from stoa.rest.problems import StoreSuspended
from stoa.settings import Settings
from stoa.store_data.store_erasure import CONTENT, STEPS, WITH_THE_STORE, Step, delete_rows
from tests.contract.test_statements import assert_bound, of_one_server
from tests.portal.path_params import path_params_for
from tests.support.people import User, as_operator
from tests.support.shops import Shop

OF_TESTS = {"notes"}  # the slice in tests/support


async def rows_of(db: Database, store_id: int) -> dict[str, int]:
    """The number of rows that a store has in every table with a store; not in the shards of a cluster."""
    tables = await db.fetch(
        """SELECT c.relname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attname = 'store_id'
            WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = current_schema()::regnamespace
              AND c.relname !~ '_[0-9]{6}$'"""
    )
    count = "SELECT count(*) FROM {} WHERE store_id = $1"
    return {table: (await db.fetch(count.format(table), store_id))[0][0] for [table] in tables if table not in OF_TESTS}


async def is_open(shop: Shop, settings: Settings) -> bool:
    """Whether the API admits the app, without the cache."""
    try:
        await Admission(shop.db, settings).caller(shop.store, shop.token)
    except StoreSuspended:
        return False
    return True


async def test_settings_are_changed(maria: User, store_url: str) -> None:
    await maria.open(f"{store_url}/settings")
    assert f'href="{store_url}/locations"' in maria.text
    fields = {"name": "Renamed", "timezone": "Europe/Berlin", "locale": "de-DE", "prices_include_tax": "on"}
    await maria.submit(f"{store_url}/settings", fields)
    assert maria.path == f"{store_url}/settings"
    assert "Saved" in maria.notice
    assert "Renamed" in maria.text
    await maria.submit(f"{store_url}/settings", name="X", timezone="Mars/Base")
    assert "timezone" in maria.faults


async def test_a_store_is_closed_and_opened_again(shop: Shop, maria: User, store_url: str, settings: Settings) -> None:
    by, handle = as_operator(shop.db, settings), shop.store.handle
    await maria.open(f"{store_url}/settings")
    await maria.submit(f"{store_url}/close")
    assert "confirmed" in maria.faults
    for _ in "twice":
        await maria.submit(f"{store_url}/close", confirmed="on")
        assert "is closed" in maria.notice
    assert not await is_open(shop, settings)
    # An operator suspends the closed store: its owner can open it, but not lift the suspension.
    await suspend_store(by, handle, "Unpaid invoices")
    await maria.submit(f"{store_url}/reopen")
    assert "an operator has suspended it" in maria.notice
    assert not await is_open(shop, settings)
    assert (await resume_store(by, handle)).status == "active"
    assert await is_open(shop, settings)
    await maria.open(f"{store_url}/settings")
    await maria.submit(f"{store_url}/reopen")
    assert "is open again" in maria.notice, "a stale page"
    # A suspension before the closure outlives it, and an operator can lift it while the store is closed.
    await suspend_store(by, handle)
    await maria.open(f"{store_url}/settings")
    await maria.submit(f"{store_url}/close", confirmed="on")
    assert (await resume_store(by, handle)).status == "closed"
    assert not await is_open(shop, settings)
    assert (await reopen_store(by, handle)).status == "active"


async def test_a_store_is_exported(maria: User, db: Database) -> None:
    params = await path_params_for(maria, db)
    await maria.open(f"/portal/stores/{params['handle']}/settings")
    await maria.submit(f"/portal/stores/{params['handle']}/export")
    assert maria.response.headers["content-disposition"].endswith(f'"{params["handle"]}.ndjson"')
    lines = [msgspec.json.decode(line) for line in maria.response.content.splitlines()]
    ids = {line["type"]: line["data"].get("id") for line in lines}
    assert (ids["product"], ids["order"], ids["customer"]) == (
        params["product_id"],
        params["order_id"],
        params["customer_id"],
    )
    assert {"store", "variant"} <= ids.keys()
    await maria.open(f"/portal/stores/{params['handle']}/audit")
    assert "Store exported" in maria.text


async def test_a_deleted_store_is_erased_after_30_days(maria: User, db: Database, settings: Settings) -> None:
    params, by = await path_params_for(maria, db), as_operator(db, settings)
    handle, base = params["handle"], f"/portal/stores/{params['handle']}"
    store_id = (await find_store(db, handle)).id
    await maria.open(f"{base}/settings")
    await maria.submit(f"{base}/delete", handle="another")
    assert "handle" in maria.faults
    await maria.submit(f"{base}/delete", handle=handle)
    assert "erased in 30 days" in maria.notice
    await maria.submit(f"{base}/keep")
    assert "cancelled" in maria.notice
    await maria.submit(f"{base}/delete", handle=handle)
    await maintain(db)
    before = await rows_of(db, store_id)
    assert all(before[table] for table in ("products", "orders", "customers", "events", "webhooks", "account_stores"))
    await db.execute("UPDATE store_closures SET erase_at = now() WHERE store_id = $1", store_id)
    with pytest.raises(ErasureBegun):
        await reopen_store(by, handle)
    while (await rows_of(db, store_id))["store_closures"]:
        await maintain(db)
    assert set((await rows_of(db, store_id)).values()) == {0}
    with pytest.raises(NoSuchStore):
        await find_store(db, handle)
    assert await audit.verify(db, audit.SERVICE) is None
    [entry] = await audit.newest(db, audit.SERVICE, 1)
    assert (entry.action, entry.subject) == ("store.erased", f"store:{handle}")


async def test_an_erasure_reaches_every_table_of_a_store(db: Database) -> None:
    reached = [step.table for step in STEPS] + list(WITH_THE_STORE)
    assert len(set(reached)) == len(reached)
    assert set(await rows_of(db, 0)) == set(reached), "add new tables to stoa.store_data.store_erasure"


@of_one_server
@pytest.mark.parametrize("step", [pytest.param(step, id=step.table) for step in STEPS])
async def test_an_erasure_is_bound_to_its_store(db: Database, step: Step) -> None:
    await assert_bound(db, step.delete.sql)


async def test_an_erasure_runs_in_bounded_batches(shop: Shop) -> None:
    await shop.fill()
    total = sum((await rows_of(shop.db, shop.store_id)).values())
    async with shop.db.transaction() as db:
        assert await delete_rows(db, shop.store_id, 3) == 3
    assert sum((await rows_of(shop.db, shop.store_id)).values()) == total - 3


async def test_a_development_store_is_reset_and_deleted(
    maria: User, db: Database, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    await maria.open("/portal/stores")
    await maria.submit("/portal/stores/development")
    base = maria.path
    handle = base.rpartition("/")[2]
    store_id = (await find_store(db, handle)).id
    fresh = await rows_of(db, store_id)
    await db.execute("DELETE FROM product_terms WHERE store_id = $1", store_id)
    await maria.open(f"{base}/settings")
    monkeypatch.setattr(development_stores, "MAX_RESET_ROWS", 5)
    await maria.submit(f"{base}/development/reset", confirmed="on")
    assert "too large" in maria.faults[""]
    monkeypatch.undo()
    await maria.submit(f"{base}/development/reset", confirmed="on")
    assert "only the sample data" in maria.notice
    content = {step.table for step in CONTENT} - {"row_counts"}  # whose rows are folded now and then
    after = await rows_of(db, store_id)
    assert {table: after[table] for table in content} == {table: fresh[table] for table in content}
    assert after["events"] > fresh["events"], "apps receive events about the new products"
    await maria.submit(f"{base}/development/delete", handle=handle)
    assert maria.notice == "Development store was deleted."
    await maria.open(base)
    assert maria.response.status_code == 404
    while any((await rows_of(db, store_id)).values()):
        await maintain(db)


async def test_a_store_to_sell_from_cannot_be_reset(maria: User, store_url: str, shop: Shop) -> None:
    await maria.open(f"{store_url}/settings")
    assert "Reset" not in maria.text
    await maria.submit(f"{store_url}/development/reset", confirmed="on")
    assert maria.response.status_code == 404
    await maria.open(f"{store_url}/settings")
    await maria.submit(f"{store_url}/development/delete", handle=shop.store.handle)
    assert maria.response.status_code == 404
