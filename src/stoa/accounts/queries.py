"""What the database does for people: who they are, their sessions, and what they own."""

from datetime import datetime

import msgspec

from stoa.accounts.contract import (
    Account,
    InstallationRequest,
    Link,
    OwnedApp,
    OwnedStore,
    Session,
    SignedIn,
)
from stoa.db.query import Command, Query

_PERSON = "people are looked up before any store is known"
_OWNER = "it finds what an account owns, by the account"
_CHORE = "housekeeping goes over all accounts"

# --- accounts ----------------------------------------------------------------------------------------------

_ACCOUNT = """SELECT id, email, name, operator, status, totp_secret IS NOT NULL AS second_factor, created_at
  FROM accounts"""
LIST_ACCOUNTS = Query(Account, f"{_ACCOUNT} ORDER BY id", unbound=_PERSON)
GET_ACCOUNT = Query(Account, f"{_ACCOUNT} WHERE id = $1", unbound=_PERSON)
ACCOUNT_BY_EMAIL = Query(Account, f"{_ACCOUNT} WHERE email = $1", unbound=_PERSON)
ANY_ACCOUNT = Query(bool, "SELECT EXISTS (SELECT FROM accounts)", unbound=_PERSON)
CREATE_ACCOUNT = Query(
    int,
    "INSERT INTO accounts (email, name, password_hash, operator) VALUES ($1, $2, $3, $4) RETURNING id",
    unbound=_PERSON,
)
RENAME_ACCOUNT = Command(
    "UPDATE accounts SET name = $2, updated_at = now() WHERE id = $1 AND name <> $2", unbound=_PERSON
)
SET_PASSWORD = Command("UPDATE accounts SET password_hash = $2, updated_at = now() WHERE id = $1", unbound=_PERSON)
SET_ACCOUNT_STATUS = Command(
    "UPDATE accounts SET status = $2, updated_at = now() WHERE id = $1 AND status <> $2", unbound=_PERSON
)


class Proof(msgspec.Struct):
    """What somebody must match to sign in."""

    id: int
    status: str
    password_hash: str
    second_factor: bool


_PROOF = "SELECT id, status, password_hash, totp_secret IS NOT NULL AS second_factor FROM accounts"
PROOF_BY_EMAIL = Query(Proof, f"{_PROOF} WHERE email = $1", unbound=_PERSON)
PROOF = Query(Proof, f"{_PROOF} WHERE id = $1", unbound=_PERSON)
LOCK_PROOF = Query(Proof, f"{_PROOF} WHERE id = $1 FOR NO KEY UPDATE", unbound=_PERSON)

# --- the second factor -------------------------------------------------------------------------------------


class Factor(msgspec.Struct):
    """An account's second factor, locked for as long as the transaction lasts."""

    totp_secret: bytes | None
    totp_step: int
    locked: bool
    failures: int
    moment: float


FACTOR = Query(
    Factor,
    """SELECT totp_secret, totp_step, coalesce(factor_locked_until > now(), false) AS locked,
              factor_failures AS failures, extract(epoch FROM now())::float8 AS moment
         FROM accounts WHERE id = $1 FOR NO KEY UPDATE""",
    unbound=_PERSON,
)
SET_FACTOR = Command(
    """UPDATE accounts SET totp_secret = $2, totp_step = $3, factor_failures = 0, factor_locked_until = NULL,
              updated_at = now() WHERE id = $1""",
    unbound=_PERSON,
)
FACTOR_PASSED = Command(
    "UPDATE accounts SET totp_step = greatest(totp_step, $2), factor_failures = 0 WHERE id = $1", unbound=_PERSON
)
FACTOR_FAILED = Command(
    """UPDATE accounts SET factor_failures = CASE WHEN factor_failures + 1 >= $2 THEN 0 ELSE factor_failures + 1 END,
              factor_locked_until = CASE WHEN factor_failures + 1 >= $2 THEN now() + interval '15 minutes' END
        WHERE id = $1""",
    unbound=_PERSON,
)
DROP_CODES = Command("DELETE FROM account_recovery_codes WHERE account_id = $1", unbound=_PERSON)
ADD_CODES = Command(
    "INSERT INTO account_recovery_codes (account_id, code_hash) SELECT $1, unnest($2::bytea[])", unbound=_PERSON
)
USE_CODE = Command("DELETE FROM account_recovery_codes WHERE account_id = $1 AND code_hash = $2", unbound=_PERSON)
CODES_LEFT = Query(int, "SELECT count(*) FROM account_recovery_codes WHERE account_id = $1", unbound=_PERSON)

# --- sessions ----------------------------------------------------------------------------------------------

OPEN_SESSION = Query(
    int,
    """INSERT INTO account_sessions (session_hash, account_id, stage, address, agent, expires_at)
       VALUES ($1, $2, $3, $4, $5, now() + make_interval(secs => $6)) RETURNING id""",
    unbound=_PERSON,
)
SIGNED_IN = Query(
    SignedIn,
    """SELECT s.id AS session_id, s.stage, s.seen_at < now() - interval '1 minute' AS stale, a.id AS account_id,
              a.email, a.name, a.operator, a.totp_secret IS NOT NULL AS second_factor
         FROM account_sessions s JOIN accounts a ON a.id = s.account_id
        WHERE s.session_hash = $1 AND s.expires_at > now() AND s.seen_at > now() - make_interval(secs => $2)
          AND a.status = 'active'""",
    unbound=_PERSON,
)
TOUCH_SESSION = Command("UPDATE account_sessions SET seen_at = now() WHERE session_hash = $1", unbound=_PERSON)
LIST_SESSIONS = Query(
    Session,
    """SELECT id, address, agent, created_at, seen_at FROM account_sessions
        WHERE account_id = $1 AND stage = 'signed in' AND expires_at > now()
          AND seen_at > now() - make_interval(secs => $2) ORDER BY seen_at DESC, id DESC LIMIT 100""",
    unbound=_PERSON,
)
CLOSE_SESSION = Command("DELETE FROM account_sessions WHERE session_hash = $1", unbound=_PERSON)
END_SESSION = Command("DELETE FROM account_sessions WHERE account_id = $1 AND id = $2", unbound=_PERSON)
END_SESSIONS = Command("DELETE FROM account_sessions WHERE account_id = $1 AND id <> $2", unbound=_PERSON)

# --- links -------------------------------------------------------------------------------------------------

_LINK = "purpose, email, operator, account_id, expires_at"
ADD_LINK = Query(
    datetime,
    """INSERT INTO account_links (token_hash, purpose, email, operator, account_id, expires_at)
       VALUES ($1, $2, $3, $4, $5, now() + make_interval(hours => $6)) RETURNING expires_at""",
    unbound=_PERSON,
)
FIND_LINK = Query(
    Link, f"SELECT {_LINK} FROM account_links WHERE token_hash = $1 AND expires_at > now()", unbound=_PERSON
)
SPEND_LINK = Query(
    Link, f"DELETE FROM account_links WHERE token_hash = $1 AND expires_at > now() RETURNING {_LINK}", unbound=_PERSON
)
DROP_LINKS = Command("DELETE FROM account_links WHERE purpose = $1 AND email = $2", unbound=_PERSON)

# --- what people own ---------------------------------------------------------------------------------------

_OWNED_APP = """SELECT a.id, a.client_id, a.name, a.scopes, a.status, o.role,
       (SELECT count(*) FROM installations i WHERE i.app_id = a.id) AS installations, a.created_at
  FROM account_apps o JOIN apps a ON a.id = o.app_id
 WHERE o.account_id = $1 AND a.status <> 'deleted'"""
OWNED_APPS = Query(OwnedApp, f"{_OWNED_APP} ORDER BY a.id DESC LIMIT 200", unbound=_OWNER)
OWNED_APP = Query(OwnedApp, f"{_OWNED_APP} AND a.id = $2", unbound=_OWNER)
COUNT_APPS = Query(
    int,
    """SELECT count(*) FROM account_apps o JOIN apps a ON a.id = o.app_id
        WHERE o.account_id = $1 AND o.role = 'owner' AND a.status <> 'deleted'""",
    unbound=_OWNER,
)
_OWNED_STORE = """SELECT s.id, s.handle, s.name, s.currency, s.status, o.role, o.development,
       (SELECT count(*) FROM installations i WHERE i.store_id = s.id) AS installations,
       (SELECT count(*) FROM installation_requests r WHERE r.store_id = s.id AND r.status = 'pending') AS requests,
       s.created_at
  FROM account_stores o JOIN stores s ON s.id = o.store_id WHERE o.account_id = $1"""
OWNED_STORES = Query(OwnedStore, f"{_OWNED_STORE} ORDER BY s.handle LIMIT 200", unbound=_OWNER)
OWNED_STORE = Query(OwnedStore, f"{_OWNED_STORE} AND s.handle = $2", unbound=_OWNER)
COUNT_STORES = Query(
    int,
    "SELECT count(*) FROM account_stores WHERE account_id = $1 AND role = 'owner' AND development = $2",
    unbound=_OWNER,
)
LOCK_ACCOUNT = Query(int, "SELECT id FROM accounts WHERE id = $1 FOR NO KEY UPDATE", unbound=_PERSON)
OWN_APP = Command(
    """INSERT INTO account_apps (account_id, app_id, role) VALUES ($1, $2, $3)
       ON CONFLICT (account_id, app_id) DO UPDATE SET role = excluded.role""",
    unbound=_OWNER,
)
DISOWN_APP = Command("DELETE FROM account_apps WHERE account_id = $1 AND app_id = $2", unbound=_OWNER)
OWN_STORE = Command(
    """INSERT INTO account_stores (account_id, store_id, role, development) VALUES ($1, $2, $3, $4)
       ON CONFLICT (account_id, store_id) DO UPDATE SET role = excluded.role""",
    unbound=_OWNER,
)
DISOWN_STORE = Command("DELETE FROM account_stores WHERE account_id = $1 AND store_id = $2", unbound=_OWNER)


class TryingStore(msgspec.Struct):
    """A development store that has an app, and what it grants."""

    handle: str
    scopes: list[str]


TRYING_STORES = Query(
    TryingStore,
    """SELECT s.handle, i.scopes FROM account_stores o JOIN stores s ON s.id = o.store_id
              JOIN installations i ON i.store_id = o.store_id AND i.app_id = $2
        WHERE o.account_id = $1 AND o.role = 'owner' AND o.development ORDER BY s.handle""",
    unbound=_OWNER,
)


class ListingRow(msgspec.Struct):
    homepage: str
    reasons: str


GET_LISTING = Query(ListingRow, "SELECT homepage, reasons FROM app_listings WHERE app_id = $1", unbound=_OWNER)
SAVE_LISTING = Command(
    """INSERT INTO app_listings (app_id, homepage, reasons, registration) VALUES ($1, $2, $3, $4)
       ON CONFLICT (app_id) DO UPDATE SET homepage = excluded.homepage, reasons = excluded.reasons""",
    unbound=_OWNER,
)
REGISTERED = Query(int, "SELECT app_id FROM app_listings WHERE registration = $1", unbound=_OWNER)

# --- what apps ask of stores -------------------------------------------------------------------------------

_REQUEST = """SELECT s.handle AS store, s.name AS store_name, a.id AS app_id, a.name AS app_name,
       a.status AS app_status, r.scopes, r.message, r.status, r.created_at, r.decided_at
  FROM installation_requests r JOIN stores s ON s.id = r.store_id JOIN apps a ON a.id = r.app_id"""
REQUESTS_OF_STORE = Query(
    InstallationRequest, f"{_REQUEST} WHERE r.store_id = $1 AND r.status = 'pending' ORDER BY r.created_at LIMIT 200"
)
REQUESTS_OF_APP = Query(
    InstallationRequest, f"{_REQUEST} WHERE r.app_id = $1 ORDER BY r.created_at DESC LIMIT 200", unbound=_OWNER
)
REQUESTS_OF_ACCOUNT = Query(
    InstallationRequest,
    f"""{_REQUEST} JOIN account_stores o ON o.store_id = r.store_id
        WHERE o.account_id = $1 AND o.role = 'owner' AND r.status = 'pending' ORDER BY r.created_at LIMIT 20""",
    unbound=_OWNER,
)


class Pending(msgspec.Struct):
    scopes: list[str]
    message: str
    status: str
    fresh: bool


FIND_REQUEST = Query(
    Pending,
    """SELECT scopes, message, status, coalesce(decided_at > now() - interval '1 day', false) AS fresh
         FROM installation_requests WHERE store_id = $1 AND app_id = $2 FOR UPDATE""",
)
ASK = Command(
    """INSERT INTO installation_requests AS r (store_id, app_id, account_id, scopes, message)
       VALUES ($1, $2, $3, $4, $5)
       ON CONFLICT (store_id, app_id) DO UPDATE SET account_id = excluded.account_id, scopes = excluded.scopes,
           message = excluded.message, status = 'pending', created_at = excluded.created_at, decided_at = NULL"""
)
REFUSE = Command(
    """UPDATE installation_requests SET status = 'refused', decided_at = now()
        WHERE store_id = $1 AND app_id = $2 AND status = 'pending'"""
)
DROP_REQUEST = Command("DELETE FROM installation_requests WHERE store_id = $1 AND app_id = $2")

# --- housekeeping ------------------------------------------------------------------------------------------

FORGET_OLD_SESSIONS = Command(
    """DELETE FROM account_sessions WHERE session_hash IN (
           SELECT session_hash FROM account_sessions WHERE expires_at < now() LIMIT 1000)""",
    unbound=_CHORE,
)
FORGET_OLD_LINKS = Command(
    """DELETE FROM account_links WHERE token_hash IN (
           SELECT token_hash FROM account_links WHERE expires_at < now() LIMIT 1000)""",
    unbound=_CHORE,
)
