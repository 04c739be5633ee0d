"""SQL for pages of operators that no API endpoint covers."""

from datetime import date, datetime

import msgspec

from stoa.accounts.queries import ROLE_ON_APP, ROLE_ON_STORE
from stoa.db.fan_out import FanOut, figures
from stoa.db.query import Query

_OPERATOR = "operators see every store, app and account"
_SERVICE = "the health of the service belongs to no store"
_MATCHES = "($2 = '' OR strpos(lower({0}), $2) > 0 OR strpos(lower({1}), $2) > 0)"

ACCOUNT_NUMBER = Query(
    int,
    "SELECT id FROM accounts WHERE lower(email) = lower($1) OR id::text = $1 ORDER BY id LIMIT 1",
    unbound=_OPERATOR,
)


class Member(msgspec.Struct):
    """An account with a role on a store or an app."""

    id: int
    name: str
    email: str
    role: str


STORE_MEMBERS = Query(
    Member,
    f"""SELECT a.id, a.name, a.email, {ROLE_ON_STORE} AS role FROM account_stores o JOIN accounts a ON a.id = o.account_id
        WHERE o.store_id = $1 ORDER BY o.role, a.id LIMIT 100""",
)
APP_MEMBERS = Query(
    Member,
    f"""SELECT a.id, a.name, a.email, {ROLE_ON_APP} AS role FROM account_apps o JOIN accounts a ON a.id = o.account_id
        WHERE o.app_id = $1 ORDER BY o.role, a.id LIMIT 100""",
    unbound=_OPERATOR,
)

# --- search for operators ----------------------------------------------------------------------------------


class StoreResult(msgspec.Struct):
    id: int
    handle: str
    name: str
    currency: str
    status: str
    development: bool
    apps: int
    created_at: datetime
    shard: str


STORES = FanOut(
    StoreResult,
    f"""WITH found AS MATERIALIZED (
            SELECT s.* FROM stores s
             WHERE s.id < $1 AND {_MATCHES.format("s.handle", "s.name")} AND ($3 = '' OR $3 = CASE
                   WHEN EXISTS (SELECT 1 FROM store_closures c WHERE c.store_id = s.id) THEN 'closed' ELSE s.status END)
             ORDER BY s.id DESC LIMIT $4),
        installed AS MATERIALIZED (
            SELECT i.store_id, count(*) AS apps FROM installations i
             WHERE i.store_id IN (SELECT f.id FROM found f) AND i.store_id <> ALL ($5::bigint[]) GROUP BY i.store_id)
        SELECT s.id, s.handle, s.name, s.currency,
               CASE WHEN c.store_id IS NULL THEN s.status ELSE 'closed' END AS status,
               EXISTS (SELECT 1 FROM account_stores o WHERE o.store_id = s.id AND o.development) AS development,
               coalesce(i.apps, 0) AS apps, s.created_at, s.shard
          FROM found s LEFT JOIN installed i ON i.store_id = s.id LEFT JOIN store_closures c ON c.store_id = s.id
         ORDER BY s.id DESC""",
    figures("apps"),
    unbound=_OPERATOR,
)


class AppResult(msgspec.Struct):
    id: int
    client_id: str
    name: str
    status: str
    owner: str | None
    stores: int
    created_at: datetime


APPS = FanOut(
    AppResult,
    f"""WITH found AS MATERIALIZED (
            SELECT a.* FROM apps a
             WHERE a.id < $1 AND {_MATCHES.format("a.client_id", "a.name")} AND ($3 = '' OR a.status = $3)
             ORDER BY a.id DESC LIMIT $4),
        installed AS MATERIALIZED (
            SELECT i.app_id, count(*) AS stores FROM installations i
             WHERE i.app_id IN (SELECT f.id FROM found f) AND i.store_id <> ALL ($5::bigint[]) GROUP BY i.app_id)
        SELECT a.id, a.client_id, a.name, a.status,
               (SELECT p.email FROM account_apps o JOIN accounts p ON p.id = o.account_id
                 WHERE o.app_id = a.id AND o.role = 'owner' ORDER BY p.id LIMIT 1) AS owner,
               coalesce(i.stores, 0) AS stores, a.created_at
          FROM found a LEFT JOIN installed i ON i.app_id = a.id ORDER BY a.id DESC""",
    figures("stores"),
    unbound=_OPERATOR,
)


class AccountResult(msgspec.Struct):
    id: int
    email: str
    name: str
    operator: bool
    status: str
    two_factor: bool
    stores: int
    apps: int
    seen_at: datetime | None


ACCOUNTS = Query(
    AccountResult,
    f"""SELECT a.id, a.email, a.name, a.operator, a.status, a.totp_secret IS NOT NULL AS two_factor,
               (SELECT count(*) FROM account_stores o WHERE o.account_id = a.id) AS stores,
               (SELECT count(*) FROM account_apps o WHERE o.account_id = a.id) AS apps,
               (SELECT max(s.seen_at) FROM account_sessions s WHERE s.account_id = a.id) AS seen_at
          FROM accounts a WHERE a.id < $1 AND {_MATCHES.format("a.email", "a.name")} AND ($3 = '' OR a.status = $3)
         ORDER BY a.id DESC LIMIT $4""",
    unbound=_OPERATOR,
)

# --- health ------------------------------------------------------------------------------------------------


class DatabaseStatus(msgspec.Struct):
    version: str
    bytes: int
    started_at: datetime
    connections: int
    max_connections: int
    now: datetime


DATABASE = Query(
    DatabaseStatus,
    """SELECT current_setting('server_version') AS version, pg_database_size(current_database()) AS bytes,
              pg_postmaster_start_time() AS started_at,
              (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()) AS connections,
              current_setting('max_connections')::integer AS max_connections, clock_timestamp() AS now""",
    unbound=_SERVICE,
)


class AppliedMigration(msgspec.Struct):
    version: int
    name: str
    applied_at: datetime


MIGRATIONS = Query(
    AppliedMigration,
    "SELECT version, name, applied_at FROM schema_migrations ORDER BY version DESC",
    unbound=_SERVICE,
)


class Partitions(msgspec.Struct):
    """The daily partitions of a table; `ahead` if the partition for tomorrow exists."""

    table: str
    days: int
    last: date | None
    ahead: bool


PARTITIONS = Query(
    Partitions,
    """SELECT t.name AS table, count(d.day) AS days, max(d.day) AS last,
              coalesce(max(d.day) > current_date, false) AS ahead
         FROM unnest(ARRAY['events', 'deliveries']) AS t (name) LEFT JOIN (
              SELECT i.inhparent, to_date(right(c.relname, 8), 'YYYYMMDD') AS day
                FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE c.relname ~ '_[0-9]{8}$') d
              ON d.inhparent = to_regclass(t.name)
        GROUP BY t.name ORDER BY t.name""",
    unbound=_SERVICE,
)


class OverdueTask(msgspec.Struct):
    """Rows that maintenance should have deleted by now, and since when."""

    chore: str
    rows: int
    since: datetime | None


OVERDUE_CHORES = Query(
    OverdueTask,
    """SELECT 'idempotency keys' AS chore, count(*) AS rows, min(t.at) AS since FROM (
              SELECT created_at + interval '7 days' AS at FROM idempotency_keys
               WHERE created_at < now() - interval '7 days' LIMIT 10000) t
        UNION ALL
       SELECT 'access tokens', count(*), min(t.at) FROM (
              SELECT expires_at + interval '1 day' AS at FROM tokens
               WHERE expires_at < now() - interval '1 day' LIMIT 10000) t
        UNION ALL
       SELECT 'sessions', count(*), min(t.at) FROM (
              SELECT expires_at AS at FROM account_sessions WHERE expires_at < now() LIMIT 10000) t
        UNION ALL
       SELECT 'import reports', count(*), min(t.at) FROM (
              SELECT report_expires_at AS at FROM imports
               WHERE NOT expired AND report_expires_at < now() LIMIT 10000) t""",
    unbound=_SERVICE,
    over="shard",
)
