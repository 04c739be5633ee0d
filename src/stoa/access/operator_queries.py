"""SQL of what operators and owners manage: stores, apps and their secrets, installations and tokens."""

from datetime import datetime

import msgspec

from stoa.access.contract import App, AppKey, AppSecret, Installation, RemovedInstallation, StoreRow
from stoa.db.fan_out import FanOut, figures, in_order
from stoa.db.query import Command, Query

_OPERATOR = "operators see every store and app"

_STORE = """SELECT s.id, s.handle, s.name, s.currency, s.prices_include_tax,
       CASE WHEN c.store_id IS NULL THEN s.status ELSE 'closed' END AS status, s.timezone, s.locale,
       ARRAY(SELECT h.host FROM store_hosts h WHERE h.store_id = s.id ORDER BY h.host) AS hosts, s.created_at, c.erase_at,
       s.shard
  FROM stores s LEFT JOIN store_closures c ON c.store_id = s.id"""
LIST_STORES = Query(StoreRow, f"{_STORE} ORDER BY s.handle", unbound=_OPERATOR)
GET_STORE = Query(StoreRow, f"{_STORE} WHERE s.handle = $1", unbound=_OPERATOR)
# Whether the store is here; until the transaction ends, it does not move.
TRY_ENTER = Query(bool, "SELECT try_enter_store($1)")
CREATE_STORE = Query(
    int,
    """INSERT INTO stores (handle, name, currency, prices_include_tax, timezone, locale, shard)
       VALUES ($1, $2, $3, $4, $5, $6, $7) RETURNING id""",
    unbound=_OPERATOR,
)
ADD_DEFAULT_LOCATION = Command(
    "INSERT INTO locations (store_id, code, name, priority) VALUES ($1, 'default', 'Default', 0)"
)


class StoresOfShard(msgspec.Struct):
    shard: str
    stores: int


STORES_BY_SHARD = Query(StoresOfShard, "SELECT shard, count(*) AS stores FROM stores GROUP BY shard", unbound=_OPERATOR)
ADD_HOSTS = Command(
    "INSERT INTO store_hosts (store_id, host) SELECT $1, unnest($2::text[])",
)
SET_STORE_STATUS = Command(
    "UPDATE stores SET status = $2, updated_at = now() WHERE id = $1 AND status <> $2", unbound=_OPERATOR
)


class Closure(msgspec.Struct):
    """A closed store; `suspended` if an operator has suspended it too, `erasing` once its erasure has begun."""

    suspended: bool
    erasing: bool


LOCK_STORE = Query(str, "SELECT status FROM stores WHERE id = $1 FOR NO KEY UPDATE", unbound=_OPERATOR)
LOCK_CLOSURE = Query(
    Closure,
    """SELECT suspended, coalesce(erase_at <= now(), false) AS erasing FROM store_closures
        WHERE store_id = $1 FOR UPDATE""",
)
CLOSE_STORE = Command(
    "INSERT INTO store_closures (store_id, suspended) VALUES ($1, $2) ON CONFLICT (store_id) DO NOTHING"
)
SUSPEND_CLOSED_STORE = Command("UPDATE store_closures SET suspended = $2 WHERE store_id = $1 AND suspended <> $2")
REMOVE_CLOSURE = Command("DELETE FROM store_closures WHERE store_id = $1")
SCHEDULE_ERASURE = Query(
    datetime,
    """UPDATE store_closures SET erase_at = least(erase_at, now() + make_interval(days => $2))
        WHERE store_id = $1 RETURNING erase_at""",
)
CANCEL_ERASURE = Command("UPDATE store_closures SET erase_at = NULL WHERE store_id = $1 AND erase_at > now()")
UPDATE_STORE = Command(
    """UPDATE stores SET name = $2, timezone = $3, locale = $4, prices_include_tax = $5, updated_at = now()
        WHERE id = $1""",
    unbound=_OPERATOR,
)

# The apps come first: on a cluster, the nodes are then asked once for the installations of all of them.
_APPS = """WITH found AS MATERIALIZED (SELECT a.* FROM apps a {0}),
     installed AS MATERIALIZED (
         SELECT i.app_id, s.handle FROM installations i JOIN stores s ON s.id = i.store_id
          WHERE i.app_id IN (SELECT f.id FROM found f) AND i.store_id <> ALL ({1}::bigint[]))
SELECT a.id, a.client_id, a.name, a.scopes, a.status,
       ARRAY(SELECT k.hint FROM app_secrets k
              WHERE k.app_id = a.id AND (k.expires_at IS NULL OR k.expires_at > now()) ORDER BY k.id) AS secret_hints,
       ARRAY(SELECT i.handle FROM installed i WHERE i.app_id = a.id ORDER BY i.handle) AS stores, a.created_at
  FROM found a ORDER BY a.id"""
LIST_APPS = FanOut(App, _APPS.format("", "$1"), figures("stores"), unbound=_OPERATOR)
GET_APP = FanOut(App, _APPS.format("WHERE a.client_id = $1 OR a.id = $2", "$3"), figures("stores"), unbound=_OPERATOR)
# An install and a change of the app's callbacks lock the app, so that they see each other. FOR SHARE would be enough for two
# installs, but on a cluster two shared locks on a global table deadlock.
LOCK_APP = Query(int, "SELECT id FROM apps WHERE id = $1 FOR NO KEY UPDATE", unbound=_OPERATOR)
CREATE_APP = Query(
    int, "INSERT INTO apps (client_id, name, scopes) VALUES ($1, $2, $3) RETURNING id", unbound=_OPERATOR
)
SET_APP_STATUS = Command(
    "UPDATE apps SET status = $2, updated_at = now() WHERE id = $1 AND status NOT IN ($2, 'deleted')",
    unbound=_OPERATOR,
)
CHANGE_APP = Command(
    "UPDATE apps SET name = $2, scopes = $3, updated_at = now() WHERE id = $1 AND (name, scopes) <> ($2, $3::text[])",
    unbound=_OPERATOR,
)
ADD_SECRET = Command("INSERT INTO app_secrets (app_id, secret_hash, hint) VALUES ($1, $2, $3)", unbound=_OPERATOR)
# A secret that expires is one that was rotated out.
ENDING_SECRETS = Query(
    int,
    "SELECT count(*) FROM app_secrets WHERE app_id = $1 AND expires_at > now()",
    unbound=_OPERATOR,
)
LIVE_SECRETS = Query(
    AppSecret,
    """SELECT hint, created_at, expires_at FROM app_secrets
        WHERE app_id = $1 AND (expires_at IS NULL OR expires_at > now()) ORDER BY id DESC""",
    unbound=_OPERATOR,
)
LIST_KEYS = Query(
    AppKey,
    "SELECT kid, algorithm, jwk, created_at FROM app_keys WHERE app_id = $1 ORDER BY created_at DESC, kid",
    unbound=_OPERATOR,
)
ADD_KEY = Command("INSERT INTO app_keys (app_id, kid, algorithm, jwk) VALUES ($1, $2, $3, $4)", unbound=_OPERATOR)
REMOVE_KEY = Command("DELETE FROM app_keys WHERE app_id = $1 AND kid = $2", unbound=_OPERATOR)
DROP_KEYS = Command("DELETE FROM app_keys WHERE app_id = $1", unbound=_OPERATOR)
DROP_DEPLOY_TOKENS = Command("DELETE FROM deploy_tokens WHERE app_id = $1", unbound=_OPERATOR)
DELETE_CALLBACKS = Command("DELETE FROM app_callbacks WHERE app_id = $1", unbound=_OPERATOR)
# A store that has left is not changed where it was: $2 names those.
INSTALLED_HERE = Query(
    str,
    """SELECT s.handle FROM installations i JOIN stores s ON s.id = i.store_id
        WHERE i.app_id = $1 AND i.store_id <> ALL ($2::bigint[]) ORDER BY s.handle""",
    unbound=_OPERATOR,
    over="shard",
)
END_APP_ENDPOINTS = Command(
    """UPDATE webhooks SET ended_at = now(), url = NULL
        WHERE app_id = $1 AND of_app AND ended_at IS NULL AND store_id <> ALL ($2::bigint[])""",
    unbound=_OPERATOR,
    over="shard",
)
DROP_SECRETS = Command("DELETE FROM app_secrets WHERE app_id = $1", unbound=_OPERATOR)
DROP_ENDING_SECRETS = Command("DELETE FROM app_secrets WHERE app_id = $1 AND expires_at IS NOT NULL", unbound=_OPERATOR)
END_SECRET = Query(
    datetime,
    """UPDATE app_secrets SET expires_at = now() + make_interval(hours => $2)
        WHERE app_id = $1 AND expires_at IS NULL RETURNING expires_at""",
    unbound=_OPERATOR,
)

_INSTALLATION = """SELECT s.handle AS store, a.id AS app_id, a.client_id, a.name AS app_name, i.scopes,
       i.rate_burst, i.rate_refill, i.created_at AS installed_at, i.updated_at
  FROM installations i JOIN stores s ON s.id = i.store_id JOIN apps a ON a.id = i.app_id
 WHERE i.store_id = $1"""
LIST_INSTALLATIONS = Query(Installation, f"{_INSTALLATION} ORDER BY a.id")
INSTALLATIONS_OF_APP = FanOut(
    Installation,
    f"""{_INSTALLATION.replace("i.store_id = $1", "i.app_id = $1")} AND i.store_id <> ALL ($2::bigint[])
 ORDER BY s.handle""",
    in_order("store", unique=["store"]),
    unbound=_OPERATOR,
)
GET_INSTALLATION = Query(Installation, f"{_INSTALLATION} AND i.app_id = $2 FOR UPDATE OF i")
# Returns nothing if the app is installed already. Citus counts such a row as inserted, so the row itself is returned.
INSTALL = Query(
    int,
    """INSERT INTO installations (store_id, app_id, scopes, rate_burst, rate_refill, reinstalled_at)
       SELECT $1, $2, $3, $4, $5,
              (SELECT clock_timestamp() FROM removed_installations WHERE store_id = $1 AND app_id = $2)
       ON CONFLICT (store_id, app_id) DO NOTHING RETURNING app_id""",
)
DELETE_TOMBSTONE = Command("DELETE FROM removed_installations WHERE store_id = $1 AND app_id = $2")
# The router ends the subscriptions of an uninstalled app. A reinstall does not wait for it.
END_OLD_SUBSCRIPTIONS = Command(
    """UPDATE webhooks SET ended_at = now(), updated_at = now(), version = version + 1
        WHERE store_id = $1 AND app_id = $2 AND ended_at IS NULL AND NOT of_app"""
)
# The app's endpoint becomes a subscription of this store, if the app has an endpoint.
ADD_APP_ENDPOINT = Query(int, "SELECT add_app_endpoint($1, $2)")
CHANGE_INSTALLATION = Command(
    """UPDATE installations SET scopes = $3, rate_burst = coalesce($4, rate_burst),
              rate_refill = coalesce($5, rate_refill), updated_at = now()
        WHERE store_id = $1 AND app_id = $2"""
)
UNINSTALL = Command(
    """WITH removed AS (
           DELETE FROM installations WHERE store_id = $1 AND app_id = $2 RETURNING store_id, app_id, scopes, created_at)
       INSERT INTO removed_installations (store_id, app_id, scopes, installed_at) SELECT * FROM removed
       ON CONFLICT (store_id, app_id) DO UPDATE SET scopes = excluded.scopes, installed_at = excluded.installed_at,
           removed_at = excluded.removed_at"""
)
# Scopes that the app no longer requests are left out.
REMOVED_INSTALLATIONS = Query(
    RemovedInstallation,
    """SELECT r.app_id, a.name AS app_name, r.removed_at,
              ARRAY(SELECT s FROM unnest(r.scopes) s WHERE s = ANY (a.scopes)) AS scopes
         FROM removed_installations r JOIN apps a ON a.id = r.app_id
        WHERE r.store_id = $1 AND r.removed_at > now() - interval '30 days' AND a.status = 'active'
        ORDER BY r.removed_at DESC LIMIT 50""",
)


class RevokedToken(msgspec.Struct):
    app_id: int
    store_id: int | None


REVOKE_TOKEN = Query(
    RevokedToken,
    """UPDATE tokens SET revoked_at = now()
        WHERE token_hash = ANY ($1::bytea[]) AND revoked_at IS NULL AND expires_at > now() RETURNING app_id, store_id""",
    unbound=_OPERATOR,
)
REVOKE_TOKENS_OF_APP = Command(
    "UPDATE tokens SET revoked_at = now() WHERE app_id = $1 AND revoked_at IS NULL AND expires_at > now()",
    unbound=_OPERATOR,
)
