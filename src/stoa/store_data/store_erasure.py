"""Erases a store: deletes all of its rows in bounded batches, in one explicit order."""

import msgspec

from stoa.access import audit
from stoa.db.directory_outbox import WAITING, send
from stoa.db.query import Command, Executor, Query
from stoa.db.service_facts import own_shard
from stoa.ids import new_id
from stoa.media.queries import NOTE_ERASED

BATCH = 5_000  # rows that one run of maintenance deletes at most
ERASED = "erased"  # the kind of a message to the directory


class Step(msgspec.Struct, frozen=True):
    """A table of a store, and the statement that deletes a batch of its rows; `content` is what a reset deletes too, and the
    rows of the `directory` are not in the shard of the store."""

    table: str
    delete: Command
    content: bool
    directory: bool


def _step(table: str, *keys: str, content: bool = False, directory: bool = False) -> Step:
    """A step for a table whose primary key is `store_id` and `keys`."""
    columns = ", ".join(keys)
    batch = f"({columns}) IN (SELECT {columns} FROM {table} WHERE store_id = $1 LIMIT $2)" if keys else "$2::bigint > 0"
    sql = f"DELETE FROM {table} WHERE store_id = $1 AND {batch}"
    return Step(table, Command(sql), content, directory)


# Access ends first. Rows come before the rows that they refer to. The audit log comes last.
STEPS: tuple[Step, ...] = (
    _step("ownership_offers", "id", directory=True),
    _step("team_invitations", "id", directory=True),
    _step("account_stores", "account_id", directory=True),
    _step("installation_requests", "app_id", directory=True),
    _step("tokens", "token_hash", directory=True),
    _step("store_hosts", "host", directory=True),
    _step("shard_outbox", "position", directory=True),
    _step("installations", "app_id"),
    _step("removed_installations", "app_id"),
    _step("redeliveries", "id"),
    _step("pending_deliveries", "webhook_id", "sequence"),
    _step("lanes", "webhook_id"),
    _step("deliveries", "webhook_id", "sequence", "finished_on"),
    _step("delivery_hours", "webhook_id", "hour"),
    _step("app_subscription_failures", "subscription_id", directory=True),
    _step("webhooks", "id"),
    _step("events", "id", "routed_on"),
    _step("import_queue", "import_id", content=True),
    _step("import_rows", "import_id", "row", content=True),
    _step("import_parts", "import_id", "part", content=True),
    _step("imports", "id", content=True),
    _step("order_duplicates", "order_id", "other_id", content=True),
    _step("order_comments", "order_id", "id", content=True),
    _step("order_allocations", "order_id", "line_id", "location", content=True),
    _step("order_lines", "order_id", "id", content=True),
    _step("orders", "id", content=True),
    _step("order_numbers", content=True),
    _step("customer_metadata", "customer_id", content=True),
    _step("customers", "id", content=True),
    _step("stock_movements", "id", content=True),
    _step("stock_levels", "variant_id", "location", content=True),
    _step("product_terms", "product_id", content=True),
    _step("collection_products", "product_id", "handle", content=True),
    _step("collections", "handle", content=True),
    _step("collection_scans", content=True),
    _step("collection_revisions", content=True),
    _step("variants", "id", content=True),
    _step("products", "id", content=True),
    _step("picture_fetches", "product_id", "image_id", content=True),
    _step("media_files", "name"),  # a reset leaves the files to the removal of unused ones
    _step("row_counts", "resource", "id", content=True),
    _step("idempotency_keys", "app_id", "key", content=True),
    _step("submitted_forms", "account_id", "key", content=True),
    _step("saved_filters", "account_id", "name"),
    _step("locations", "code"),
    _step("rate_buckets", "app_id", "purpose"),
    _step("stream_leases", "app_id"),
    _step("usage_days", "app_id", "day", "operation"),
    _step("usage_hours", "app_id", "hour", "operation"),
    _step("failed_requests", "app_id", "at", "id"),
    _step("request_log", "app_id", "id"),
    _step("store_moves", "id", directory=True),
    _step("store_inbox", "id"),
    _step("audit_entries", "position"),
    _step("audit_heads"),
    _step("store_residence"),
)
IN_SHARD = tuple(step for step in STEPS if not step.directory)
CONTENT = tuple(step for step in STEPS if step.content)
# Deleted with the row of the store.
WITH_THE_STORE = ("store_closures",)


class DueStore(msgspec.Struct):
    id: int
    handle: str


_CHORE = "maintenance covers all stores"
DUE = Query(
    DueStore,
    """SELECT s.id, s.handle FROM store_closures c JOIN stores s ON s.id = c.store_id
        WHERE c.erase_at <= now() AND store_is_here(s.id) ORDER BY c.erase_at, s.id LIMIT 10""",
    unbound=_CHORE,
)
# The mover knows the rest of the store by these rows. They are in the directory.
_MOVES = Query(bool, "SELECT EXISTS (SELECT FROM store_moves WHERE store_id = $1 AND ended_at IS NULL)")
DELETE_STORE = Command("DELETE FROM stores WHERE id = $1", unbound=_CHORE)


async def delete_rows(db: Executor, store_id: int, most: int, steps: tuple[Step, ...] = STEPS) -> int:
    """Delete at most `most` rows of a store, table by table; returns how many there were."""
    deleted = 0
    for step in steps:
        deleted += await step.delete.run(db, store_id, most - deleted)
        if deleted >= most:
            break
    return deleted


async def erase_due_store(db: Executor, request_id: str, most: int = BATCH) -> None:
    """Delete a batch of a store that is due; when nothing is left, delete the store itself, which is in the directory. One whose
    move has not ended waits for it, and the others do not wait for that one."""
    due = await DUE.all(db)
    in_shard, waiting = await own_shard(db), await WAITING.one(db, ERASED)
    for store in due:
        if not in_shard and await _MOVES.one(db, store.id):
            continue
        if await delete_rows(db, store.id, most, IN_SHARD if in_shard else STEPS):
            return
        if not in_shard:
            await _delete_store(db, store, request_id)
        elif not waiting:
            await send(db, ERASED, store)


async def receive_erasure(db: Executor, content: bytes) -> None:
    """Delete a store whose rows its shard has deleted. While its move has not ended, the former shard has rows, too: the message is
    dropped, and the shard sends it again."""
    store = msgspec.json.decode(content, type=DueStore)
    if await _MOVES.one(db, store.id):
        return
    while await delete_rows(db, store.id, BATCH):
        pass
    await _delete_store(db, store, new_id("req"))


async def _delete_store(db: Executor, store: DueStore, request_id: str) -> None:
    if not await DELETE_STORE.run(db, store.id):  # it was deleted before
        return
    await NOTE_ERASED.run(db, store.id)
    await audit.record(
        db,
        audit.SERVICE,
        "store.erased",
        actor="service",
        subject=f"store:{store.handle}",
        detail={},
        request_id=request_id,
    )
