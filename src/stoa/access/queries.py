"""SQL of access control: what requests and the token endpoints look up before a store is known."""

from datetime import datetime

import msgspec

from stoa.db.fan_out import FanOut, in_order
from stoa.db.query import Command, Query
from stoa.rest.call import Store

_ADDRESS = "it finds the store that a URL names"
_CLIENT = "a client authenticates before any store is known"
_HASH = "a token is found by its hash"
_MAINTENANCE = "maintenance covers all stores"

# --- every request -----------------------------------------------------------------------------------------


class ServedStore(Store, frozen=True):
    """The row of a store, with what its slices need of it at any request."""

    locations: str = "[]"  # JSON


STORE_BY_HANDLE = Query(
    ServedStore,
    """SELECT id, handle, name, currency, status, prices_include_tax, timezone, locale, shard, locations
         FROM stores WHERE handle = $1""",
    unbound=_ADDRESS,
)
STORE_BY_ID = Query(
    ServedStore,
    """SELECT id, handle, name, currency, status, prices_include_tax, timezone, locale, shard, locations
         FROM stores WHERE id = $1""",
    unbound="the row of the store itself",
)
STORE_BY_HOST = Query(
    ServedStore,
    """SELECT s.id, s.handle, s.name, s.currency, s.status, s.prices_include_tax, s.timezone, s.locale, s.shard,
              s.locations
         FROM store_hosts h JOIN stores s ON s.id = h.store_id WHERE h.host = $1""",
    unbound=_ADDRESS,
)


class TokenAccess(msgspec.Struct):
    """A token on a store, with everything that decides what it may do there now, except what the store grants."""

    app_id: int
    app_name: str
    app_status: str
    store_status: str
    seconds_left: float
    requested: list[str] | None
    created_at: datetime
    invalid: bool  # revoked, or of another store


TOKEN_ACCESS = Query(
    TokenAccess,
    """SELECT app_id, app_name, app_status, store_status, seconds_left, requested, created_at, invalid
         FROM token_access($1, $2)""",
    unbound=_HASH,
)


class StoreGrant(msgspec.Struct):
    """What a store grants to an app that is installed on it."""

    scopes: list[str]
    rate_burst: int | None
    rate_refill: int | None
    reinstalled_at: datetime | None
    definitions: str | None  # of metadata, by owner, as JSON

    def covers(self, issued_at: datetime) -> bool:
        """Whether a token of this time belongs to this installation; one from before a reinstall does not."""
        return self.reinstalled_at is None or issued_at >= self.reinstalled_at


# A statement of its own: on a cluster, tokens are on the coordinator, and the installations of a store are on its node. While
# that node is away, the tokens of other stores must stay valid.
STORE_GRANT = Query(
    StoreGrant, "SELECT scopes, rate_burst, rate_refill, reinstalled_at, definitions FROM store_grant($1, $2)"
)
DEFINITIONS = Query(str, "SELECT coalesce(store_definitions($1), '[]') AS definitions")


class Arrival(msgspec.Struct):
    """The columns of ServedStore, TokenAccess, StoreGrant and a grant of the rate limit, for one request."""

    id: int | None
    handle: str
    name: str
    currency: str
    status: str
    prices_include_tax: bool
    timezone: str
    locale: str
    shard: str
    locations: str
    app_id: int | None
    app_name: str
    app_status: str
    seconds_left: float
    requested: list[str] | None
    created_at: datetime
    invalid: bool
    scopes: list[str] | None
    rate_burst: int | None
    rate_refill: int | None
    reinstalled_at: datetime | None
    definitions: str | None
    granted: float | None
    remaining: float | None

    @property
    def store(self) -> ServedStore | None:
        if self.id is None:
            return None
        return ServedStore(
            self.id,
            self.handle,
            self.name,
            self.currency,
            self.status,
            self.prices_include_tax,
            self.timezone,
            self.locale,
            self.shard,
            self.locations,
        )

    @property
    def token(self) -> TokenAccess | None:
        if self.app_id is None:
            return None
        return TokenAccess(
            self.app_id,
            self.app_name,
            self.app_status,
            self.status,
            self.seconds_left,
            self.requested,
            self.created_at,
            self.invalid,
        )

    @property
    def grant(self) -> StoreGrant | None:
        if self.scopes is None:
            return None
        return StoreGrant(self.scopes, self.rate_burst, self.rate_refill, self.reinstalled_at, self.definitions)


# What a request to a store that a worker has not been asked for lately needs, in one round trip.
ARRIVAL = Query(
    Arrival,
    f"SELECT {', '.join(field.name for field in msgspec.structs.fields(Arrival))} FROM admit($1, $2, $3, $4, $5)",
    unbound=_ADDRESS,
)

# --- the token endpoints -----------------------------------------------------------------------------------


class Client(msgspec.Struct):
    """What `authenticate_client` returns: the app, its secrets or keys, the stores that the request names, failed attempts."""

    app_id: int | None
    app_status: str | None
    scopes: list[str] | None
    secrets: list[bytes] | None  # one of these two, for what the request proves its identity with
    keys: list[str] | None  # JSON: id, algorithm and JWK of each
    url_store_id: int | None
    resource_store_id: int | None
    store_status: str | None
    failures: list[int]
    seconds_left: list[float]
    token_expires_at: datetime | None  # set if the token is stored


CLIENT = Query(
    Client,
    f"""SELECT {", ".join(field.name for field in msgspec.structs.fields(Client))}
          FROM authenticate_client($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)""",
    unbound=_CLIENT,
)


# Returns nothing if the assertion was used before.
USE_ASSERTION = Query(
    bool,
    """INSERT INTO used_assertions (app_id, jti_hash, expires_at) VALUES ($1, $2, to_timestamp($3))
       ON CONFLICT DO NOTHING RETURNING true""",
    unbound=_CLIENT,
)


class FailedAttempts(msgspec.Struct):
    """Failed attempts of the last minute for each subject, and how long they still count."""

    failures: list[int]
    seconds_left: list[float]


FAILED_ATTEMPTS = Query(FailedAttempts, "SELECT failures, seconds_left FROM failed_attempts_of($1)", unbound=_CLIENT)


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


STORE_TOKEN = Query(datetime, "SELECT store_token($1, $2, $3, $4, $5) AS expires_at", unbound=_CLIENT)

REVOKE_OWN_TOKEN = Command(
    "UPDATE tokens SET revoked_at = now() WHERE token_hash = ANY ($1::bytea[]) AND app_id = $2 AND revoked_at IS NULL",
    unbound=_CLIENT,
)


class LiveToken(msgspec.Struct):
    """A token that is valid now; if it is limited to one store, only as far as `STORE_GRANT` covers it."""

    client_id: str
    requested: list[str] | None
    app_scopes: list[str]
    store_id: int | None
    store: str | None
    created_at: datetime
    expires_at: datetime


INTROSPECT = Query(
    LiveToken,
    """SELECT a.client_id, t.scopes AS requested, a.scopes AS app_scopes, t.store_id, s.handle AS store,
              t.created_at, t.expires_at
         FROM tokens t JOIN apps a ON a.id = t.app_id LEFT JOIN stores s ON s.id = t.store_id
        WHERE t.token_hash = ANY ($1::bytea[]) AND t.app_id = $2 AND t.revoked_at IS NULL AND t.expires_at > now()
          AND a.status = 'active' AND (t.store_id IS NULL OR s.status = 'active')""",
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
         FROM tokens t JOIN apps a ON a.id = t.app_id WHERE t.token_hash = ANY ($1::bytea[]) AND t.revoked_at IS NULL""",
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
_PAGE = (
    "app_id = $1 AND store_id > $2 AND {0} >= $3 AND store_id <> ALL ($6::bigint[]) ORDER BY app_id, store_id LIMIT $5"
)
INSTALLATIONS_PAGE = FanOut(
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
    in_order("store_id", limit=5, unique=["store_id"]),
    unbound="an app lists its own installations on all stores",
)

# --- maintenance -------------------------------------------------------------------------------------------

# For a day after it expires, a token is reported as expired instead of unknown.
DELETE_EXPIRED_TOKENS = Command(
    """DELETE FROM tokens WHERE token_hash IN (
           SELECT token_hash FROM tokens WHERE expires_at < now() - interval '1 day' LIMIT 1000)""",
    unbound=_MAINTENANCE,
)
DELETE_USED_ASSERTIONS = Command(
    """DELETE FROM used_assertions WHERE (app_id, jti_hash) IN (
           SELECT app_id, jti_hash FROM used_assertions WHERE expires_at < now() LIMIT 1000)""",
    unbound=_MAINTENANCE,
)
DELETE_OLD_ATTEMPTS = Command(
    """DELETE FROM failed_attempts WHERE subject IN (
           SELECT subject FROM failed_attempts WHERE first_at < now() - interval '60 seconds' LIMIT 1000)""",
    unbound=_MAINTENANCE,
)
