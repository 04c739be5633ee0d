"""SQL of access control: lookups before a store is known, and the operators' changes."""

from datetime import datetime

import msgspec

from stoa.access.contract import App, AppSecret, Installation, RemovedInstallation, StoreRow
from stoa.db.query import Command, Query
from stoa.rest.request import Store

_ADDRESS = "it finds the store that a URL names"
_CLIENT = "a client authenticates before any store is known"
_OPERATOR = "operators see every store and app"
_MAINTENANCE = "maintenance covers all stores"

# --- every request -----------------------------------------------------------------------------------------

STORE_BY_HANDLE = Query(
    Store,
    """SELECT id, handle, name, currency, status, prices_include_tax, timezone, locale, locations
         FROM stores WHERE handle = $1""",
    unbound=_ADDRESS,
)
STORE_BY_HOST = Query(
    Store,
    """SELECT s.id, s.handle, s.name, s.currency, s.status, s.prices_include_tax, s.timezone, s.locale, s.locations
         FROM store_hosts h JOIN stores s ON s.id = h.store_id WHERE h.host = $1""",
    unbound=_ADDRESS,
)


class TokenAccess(msgspec.Struct):
    """A token on a store, with everything that decides what it may do there now."""

    app_id: int
    app_name: str
    app_status: str
    store_status: str
    seconds_left: float
    requested: list[str] | None
    granted: list[str] | None
    rate_burst: int | None
    rate_refill: int | None
    reinstalled_at: datetime | None
    invalid: bool  # revoked, of another store, or from before the app was reinstalled


TOKEN_ACCESS = Query(
    TokenAccess,
    """SELECT a.id AS app_id, a.name AS app_name, a.status AS app_status, s.status AS store_status,
              extract(epoch FROM t.expires_at - now())::float8 AS seconds_left,
              t.scopes AS requested, i.scopes AS granted, i.rate_burst, i.rate_refill, i.reinstalled_at,
              t.revoked_at IS NOT NULL OR coalesce(t.store_id <> $1, false)
              OR coalesce(t.created_at < i.reinstalled_at, false) AS invalid
         FROM tokens t JOIN apps a ON a.id = t.app_id JOIN stores s ON s.id = $1
              LEFT JOIN installations i ON i.store_id = $1 AND i.app_id = t.app_id
        WHERE t.token_hash = $2""",
)

# --- the token endpoints -----------------------------------------------------------------------------------


class Client(msgspec.Struct):
    """Everything a token request needs: the app, its live secrets, the stores that the request names, failed attempts."""

    app_id: int | None
    app_status: str | None
    scopes: list[str] | None
    secrets: list[bytes]
    url_store_id: int | None
    resource_store_id: int | None
    store_status: str | None
    granted: list[str] | None
    failures: list[int]
    seconds_left: list[float]


_FAILED_ATTEMPTS = """SELECT array_agg(coalesce(f.failures, 0) ORDER BY wanted.index) AS failures,
              array_agg(coalesce(60 - extract(epoch FROM now() - f.first_at)::float8, 0)
                        ORDER BY wanted.index) AS seconds_left
         FROM unnest($1::text[]) WITH ORDINALITY AS wanted (subject, index)
              LEFT JOIN failed_attempts f
              ON f.subject = wanted.subject AND f.first_at > now() - interval '60 seconds'"""
# An unknown client costs the same lookups as a known one, so that timing does not reveal which it is.
CLIENT = Query(
    Client,
    f"""WITH named AS MATERIALIZED (
           SELECT coalesce((SELECT id FROM stores WHERE handle = $2),
                           (SELECT store_id FROM store_hosts WHERE host = $3)) AS url_store_id,
                  coalesce((SELECT id FROM stores WHERE handle = $4),
                           (SELECT store_id FROM store_hosts WHERE host = $5)) AS resource_store_id),
       attempts AS MATERIALIZED (
           {_FAILED_ATTEMPTS.replace("$1", "$6")})
       SELECT a.id AS app_id, a.status AS app_status, a.scopes,
              ARRAY(SELECT k.secret_hash FROM app_secrets k
                     WHERE k.app_id = coalesce(a.id, 0) AND (k.expires_at IS NULL OR k.expires_at > now())) AS secrets,
              named.url_store_id, named.resource_store_id, s.status AS store_status, i.scopes AS granted,
              attempts.failures, attempts.seconds_left
         FROM named CROSS JOIN attempts
              LEFT JOIN apps a ON a.client_id = $1
              LEFT JOIN stores s ON s.id = coalesce(named.resource_store_id, named.url_store_id)
              LEFT JOIN installations i ON i.store_id = s.id AND i.app_id = coalesce(a.id, 0)""",
    unbound=_CLIENT,
)


class FailedAttempts(msgspec.Struct):
    """Failed attempts of the last minute for each subject, and how long they still count."""

    failures: list[int]
    seconds_left: list[float]


FAILED_ATTEMPTS = Query(FailedAttempts, _FAILED_ATTEMPTS, unbound=_CLIENT)


class Failures(msgspec.Struct):
    subject: str
    failures: int


# Subjects are sorted, so that concurrent failures lock their rows in the same order.
COUNT_FAILURE = Query(
    Failures,
    """INSERT INTO failed_attempts AS f (subject, failures, first_at) SELECT unnest($1::text[]), 1, now()
       ON CONFLICT (subject) DO UPDATE SET
           failures = CASE WHEN f.first_at > now() - interval '60 seconds' THEN f.failures + 1 ELSE 1 END,
           first_at = CASE WHEN f.first_at > now() - interval '60 seconds' THEN f.first_at ELSE now() END
       RETURNING subject, failures""",
    unbound=_CLIENT,
)
INSERT_TOKEN = Query(
    datetime,
    """INSERT INTO tokens (token_hash, app_id, store_id, scopes, expires_at)
       VALUES ($1, $2, $3, $4, now() + make_interval(secs => $5)) RETURNING expires_at""",
    unbound=_CLIENT,
)
REVOKE_OWN_TOKEN = Command(
    "UPDATE tokens SET revoked_at = now() WHERE token_hash = $1 AND app_id = $2 AND revoked_at IS NULL",
    unbound=_CLIENT,
)


class LiveToken(msgspec.Struct):
    """A token that is valid now; `store` is set if it is limited to one store."""

    client_id: str
    requested: list[str] | None
    granted: list[str]
    store: str | None
    created_at: datetime
    expires_at: datetime


INTROSPECT = Query(
    LiveToken,
    """SELECT a.client_id, t.scopes AS requested, coalesce(i.scopes, a.scopes) AS granted, s.handle AS store,
              t.created_at, t.expires_at
         FROM tokens t JOIN apps a ON a.id = t.app_id
              LEFT JOIN stores s ON s.id = t.store_id
              LEFT JOIN installations i ON i.store_id = t.store_id AND i.app_id = t.app_id
        WHERE t.token_hash = $1 AND t.app_id = $2 AND t.revoked_at IS NULL AND t.expires_at > now()
          AND a.status = 'active' AND (i.reinstalled_at IS NULL OR t.created_at >= i.reinstalled_at)
          AND (t.store_id IS NULL OR (s.status = 'active' AND i.app_id IS NOT NULL))""",
    unbound=_CLIENT,
)

# --- the installations of an app ----------------------------------------------------------------------------


class TokenOwner(msgspec.Struct):
    """The app behind a token; `store_id` is set if the token is limited to one store."""

    app_id: int
    app_status: str
    store_id: int | None
    seconds_left: float


TOKEN_OWNER = Query(
    TokenOwner,
    """SELECT a.id AS app_id, a.status AS app_status, t.store_id,
              extract(epoch FROM t.expires_at - now())::float8 AS seconds_left
         FROM tokens t JOIN apps a ON a.id = t.app_id WHERE t.token_hash = $1 AND t.revoked_at IS NULL""",
    unbound=_CLIENT,
)


class InstallationRow(msgspec.Struct):
    """An installation of an app, or the tombstone of one."""

    store_id: int
    handle: str
    name: str
    currency: str
    timezone: str
    locale: str
    scopes: list[str]
    status: str
    installed_at: datetime
    updated_at: datetime


# Each half reads at most one page from its index.
_PAGE = "app_id = $1 AND store_id > $2 AND {0} >= $3 ORDER BY app_id, store_id LIMIT $5"
INSTALLATIONS_PAGE = Query(
    InstallationRow,
    f"""SELECT s.id AS store_id, s.handle, s.name, s.currency, s.timezone, s.locale, i.scopes, i.status,
              i.installed_at, i.updated_at
         FROM ((SELECT store_id, scopes, 'installed' AS status, created_at AS installed_at, updated_at
                  FROM installations WHERE 'installed' = ANY ($4::text[]) AND {_PAGE.format("updated_at")})
               UNION ALL
               (SELECT store_id, '{{}}'::text[], 'uninstalled', installed_at, removed_at
                  FROM removed_installations WHERE 'uninstalled' = ANY ($4::text[]) AND {_PAGE.format("removed_at")})) i
              JOIN stores s ON s.id = i.store_id
        ORDER BY i.store_id LIMIT $5""",
    unbound="an app lists its own installations on all stores",
)

# --- operators ---------------------------------------------------------------------------------------------

_STORE = """SELECT s.id, s.handle, s.name, s.currency, s.prices_include_tax,
       CASE WHEN c.store_id IS NULL THEN s.status ELSE 'closed' END AS status, s.timezone, s.locale,
       ARRAY(SELECT h.host FROM store_hosts h WHERE h.store_id = s.id ORDER BY h.host) AS hosts, s.created_at, c.erase_at
  FROM stores s LEFT JOIN store_closures c ON c.store_id = s.id"""
LIST_STORES = Query(StoreRow, f"{_STORE} ORDER BY s.handle", unbound=_OPERATOR)
GET_STORE = Query(StoreRow, f"{_STORE} WHERE s.handle = $1", unbound=_OPERATOR)
CREATE_STORE = Query(
    int,
    """INSERT INTO stores (handle, name, currency, prices_include_tax, timezone, locale)
       VALUES ($1, $2, $3, $4, $5, $6) RETURNING id""",
    unbound=_OPERATOR,
)
ADD_DEFAULT_LOCATION = Command(
    "INSERT INTO locations (store_id, code, name, priority) VALUES ($1, 'default', 'Default', 0)"
)
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
_APPS = """WITH found AS MATERIALIZED (SELECT a.* FROM apps a {}),
     installed AS MATERIALIZED (
         SELECT i.app_id, s.handle FROM installations i JOIN stores s ON s.id = i.store_id
          WHERE i.app_id IN (SELECT f.id FROM found f))
SELECT a.id, a.client_id, a.name, a.scopes, a.status,
       ARRAY(SELECT k.hint FROM app_secrets k
              WHERE k.app_id = a.id AND (k.expires_at IS NULL OR k.expires_at > now()) ORDER BY k.id) AS secret_hints,
       ARRAY(SELECT i.handle FROM installed i WHERE i.app_id = a.id ORDER BY i.handle) AS stores, a.created_at
  FROM found a ORDER BY a.id"""
LIST_APPS = Query(App, _APPS.format(""), unbound=_OPERATOR)
GET_APP = Query(App, _APPS.format("WHERE a.client_id = $1 OR a.id = $2"), unbound=_OPERATOR)
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
DELETE_CALLBACKS = Command("DELETE FROM app_callbacks WHERE app_id = $1", unbound=_OPERATOR)
END_APP_ENDPOINTS = Command(
    "UPDATE webhooks SET ended_at = now(), url = NULL WHERE app_id = $1 AND of_app AND ended_at IS NULL",
    unbound=_OPERATOR,
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
INSTALLATIONS_OF_APP = Query(
    Installation, f"{_INSTALLATION.replace('i.store_id = $1', 'i.app_id = $1')} ORDER BY s.handle", unbound=_OPERATOR
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
        WHERE token_hash = $1 AND revoked_at IS NULL AND expires_at > now() RETURNING app_id, store_id""",
    unbound=_OPERATOR,
)
REVOKE_TOKENS_OF_APP = Command(
    "UPDATE tokens SET revoked_at = now() WHERE app_id = $1 AND revoked_at IS NULL AND expires_at > now()",
    unbound=_OPERATOR,
)

# --- maintenance -------------------------------------------------------------------------------------------

# For a day after it expires, a token is reported as expired instead of unknown.
DELETE_EXPIRED_TOKENS = Command(
    """DELETE FROM tokens WHERE token_hash IN (
           SELECT token_hash FROM tokens WHERE expires_at < now() - interval '1 day' LIMIT 1000)""",
    unbound=_MAINTENANCE,
)
DELETE_OLD_ATTEMPTS = Command(
    """DELETE FROM failed_attempts WHERE subject IN (
           SELECT subject FROM failed_attempts WHERE first_at < now() - interval '60 seconds' LIMIT 1000)""",
    unbound=_MAINTENANCE,
)
