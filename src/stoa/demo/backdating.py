"""Moves the rows that the sample data of a store has written into their past: columns, stored documents and events."""

from datetime import datetime, timedelta

import msgspec

from stoa.db.query import Command, Executor, Query
from stoa.demo.past import Past

KEPT_DAYS = 29  # of events and deliveries; those of older days would be dropped on the first day
_REAL, _PAST = "$2::timestamptz[]", "$3::timestamptz[]"


def _moved(column: str, written_at: str = "") -> str:
    """The moment of a column in the past; one before the first step stays."""
    return f"moved_time({column}, {written_at or column}, {_REAL}, {_PAST})"


def _columns(table: str, *columns: str, more: str = "") -> Command:
    moved = ", ".join(f"{column} = {_moved(column)}" for column in columns)
    return Command(f"UPDATE {table} SET {moved}{more} WHERE store_id = $1")


MOVE_PRODUCTS = _columns("products", "created_at", "updated_at")
MOVE_VARIANTS = _columns("variants", "created_at", "updated_at")
MOVE_MOVEMENTS = _columns("stock_movements", "created_at")
MOVE_CUSTOMER_METADATA = _columns("customer_metadata", "updated_at")
MOVE_LOCATIONS = _columns("locations", "created_at", "updated_at")
MOVE_INSTALLATIONS = _columns("installations", "created_at", "updated_at")
MOVE_WEBHOOKS = _columns("webhooks", "created_at", "updated_at")
MOVE_IMPORTS = _columns(
    "imports",
    *("created_at", "started_at", "finished_at"),
    more=f", report_expires_at = {_moved('report_expires_at', 'created_at')}",
)
_COLUMNS_ONLY = (
    *(MOVE_PRODUCTS, MOVE_VARIANTS, MOVE_MOVEMENTS, MOVE_CUSTOMER_METADATA, MOVE_LOCATIONS, MOVE_INSTALLATIONS),
    *(MOVE_WEBHOOKS, MOVE_IMPORTS),
)


class Document(msgspec.Struct):
    """The parts of a stored document; their names differ by table."""

    id: int
    one: str
    two: str
    three: str


_CHANGED = """FROM json_to_recordset($4::text::json) AS t (id bigint, one text, two text, three text)
        WHERE r.store_id = $1 AND r.id = t.id"""
CUSTOMERS = Query(
    Document, "SELECT id, head AS one, shown AS two, '' AS three FROM customers WHERE store_id = $1 ORDER BY id"
)
MOVE_CUSTOMERS = Command(
    f"""UPDATE customers r SET head = t.one, shown = t.two, created_at = {_moved("r.created_at")},
              updated_at = {_moved("r.updated_at")} {_CHANGED}"""
)
ORDERS = Query(
    Document, "SELECT id, head AS one, lines AS two, person AS three FROM orders WHERE store_id = $1 ORDER BY id"
)
MOVE_ORDERS = Command(
    f"""UPDATE orders r SET head = t.one, lines = t.two, person = t.three,
              {
        ", ".join(
            f"{each} = {_moved(f'r.{each}')}"
            for each in ("created_at", "updated_at", "shipped_at", "paid_at", "refunded_at")
        )
    } {_CHANGED}"""
)
COMMENTS = Query(
    Document, "SELECT id, changes AS one, '' AS two, '' AS three FROM order_comments WHERE store_id = $1 ORDER BY id"
)
MOVE_COMMENTS = Command(
    f"UPDATE order_comments r SET changes = t.one, created_at = {_moved('r.created_at')} {_CHANGED}"
)


class StoredEvent(msgspec.Struct):
    id: str
    changes: str
    data: str
    created_at: datetime
    request_id: str


EVENTS = Query(
    StoredEvent,
    """SELECT id, changes, data, created_at, request_id FROM events
        WHERE store_id = $1 AND routed_on = 'infinity' ORDER BY position""",
)
MOVE_EVENTS = Command(
    """UPDATE events r SET changes = t.changes, data = t.data, created_at = t.created_at
         FROM json_to_recordset($2::text::json) AS t (id text, changes text, data text, created_at timestamptz)
        WHERE r.store_id = $1 AND r.id = t.id AND r.routed_on = 'infinity'"""
)
DROP_OLD_EVENTS = Command(
    "DELETE FROM events WHERE store_id = $1 AND routed_on = 'infinity' AND (created_at AT TIME ZONE 'UTC')::date < $2::date"
)
# Events that were routed on their own day.
ROUTE_EVENTS = Command(
    """UPDATE events SET routed_on = (created_at AT TIME ZONE 'UTC')::date
        WHERE store_id = $1 AND routed_on = 'infinity' AND created_at < $2"""
)
MAKE_DAYS = Query(
    int,
    """SELECT count(*) FROM unnest(ARRAY['events', 'deliveries']) AS t (name), generate_series(0, $1::integer) AS d
        WHERE make_day(t.name, (now() AT TIME ZONE 'UTC')::date - d)""",
    unbound="a day contains the events of all stores",
)


_NOTIFIED = "notifications belong to an account"
MOVE_NOTIFICATIONS = Command(
    f"UPDATE notifications SET created_at = {_moved('created_at')} WHERE account_id = $1", unbound=_NOTIFIED
)
NOTIFY_EARLIER = Command(
    "UPDATE notifications SET created_at = $3 WHERE account_id = $1 AND subject = $2", unbound=_NOTIFIED
)
_FOUNDED = "it belongs to the app or the account of the demo"
# The row of a store is global: it is written in the directory, not with the rows of the store.
FOUND_STORE = Command(
    "UPDATE stores SET created_at = $2, updated_at = $2 WHERE id = $1", unbound="the row of the store itself"
)
FOUND_APP = Command("UPDATE apps SET created_at = $2, updated_at = $2 WHERE id = $1", unbound=_FOUNDED)
FOUND_SECRETS = Command("UPDATE app_secrets SET created_at = $2 WHERE app_id = $1", unbound=_FOUNDED)
FOUND_CALLBACKS = Command(
    "UPDATE app_callbacks SET created_at = $2, updated_at = $2 WHERE app_id = $1", unbound=_FOUNDED
)
FOUND_SUBSCRIPTIONS = Command(
    "UPDATE app_subscriptions SET created_at = $2, updated_at = $2 WHERE app_id = $1", unbound=_FOUNDED
)
FOUND_ROLES = Command("UPDATE account_apps SET created_at = $2 WHERE app_id = $1", unbound=_FOUNDED)
FOUND_ACCOUNT = Command("UPDATE accounts SET created_at = $2, updated_at = $2 WHERE id = $1", unbound=_FOUNDED)


async def found_earlier(db: Executor, app_id: int, account_id: int, at: datetime) -> None:
    """Let the app and the account of the demo exist since a moment."""
    for command in (FOUND_APP, FOUND_SECRETS, FOUND_CALLBACKS, FOUND_SUBSCRIPTIONS, FOUND_ROLES):
        await command.run(db, app_id, at)
    await FOUND_ACCOUNT.run(db, account_id, at)


async def backdate(db: Executor, store_id: int, past: Past) -> None:
    """Give every row of a story its time in the past; rows from before the story keep theirs."""
    moments = past.real, past.past
    for command in _COLUMNS_ONLY:
        await command.run(db, store_id, *moments)
    for read, write in ((CUSTOMERS, MOVE_CUSTOMERS), (ORDERS, MOVE_ORDERS), (COMMENTS, MOVE_COMMENTS)):
        documents = [
            Document(each.id, past.rewrite(each.one), past.rewrite(each.two), past.rewrite(each.three))
            for each in await read.all(db, store_id)
        ]
        await write.run(db, store_id, *moments, msgspec.json.encode(documents).decode())
    events = [
        StoredEvent(
            each.id,
            past.rewrite(each.changes),
            past.rewrite(each.data),
            past.of_event(each.created_at, each.request_id),
            each.request_id,
        )
        for each in await EVENTS.all(db, store_id)
    ]
    await MOVE_EVENTS.run(db, store_id, msgspec.json.encode(events).decode())


async def route(db: Executor, store_id: int, now: datetime) -> None:
    """Move the past events of a store from the outbox to their days; those of expired days are dropped."""
    await MAKE_DAYS.one(db, KEPT_DAYS + 1)
    await DROP_OLD_EVENTS.run(db, store_id, (now - timedelta(days=KEPT_DAYS)).date())
    await ROUTE_EVENTS.run(db, store_id, now)
