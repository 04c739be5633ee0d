"""SQL for authentication: credentials, two-factor authentication, sessions and devices."""

import msgspec

from stoa.accounts.contract import Session, SessionAccount
from stoa.db.query import Command, Query

_ACCOUNTS = "accounts belong to no store"
_CHORE = "maintenance covers all accounts"


class StoredCredentials(msgspec.Struct):
    """What a sign-in is checked against."""

    id: int
    status: str
    password_hash: str
    two_factor: bool
    disabled_reason: str | None


_CREDENTIALS = "SELECT id, status, password_hash, totp_secret IS NOT NULL AS two_factor, disabled_reason FROM accounts"
CREDENTIALS_BY_EMAIL = Query(StoredCredentials, f"{_CREDENTIALS} WHERE email = $1", unbound=_ACCOUNTS)
CREDENTIALS = Query(StoredCredentials, f"{_CREDENTIALS} WHERE id = $1", unbound=_ACCOUNTS)
LOCK_CREDENTIALS = Query(StoredCredentials, f"{_CREDENTIALS} WHERE id = $1 FOR NO KEY UPDATE", unbound=_ACCOUNTS)

# --- two-factor authentication -----------------------------------------------------------------------------


class TwoFactor(msgspec.Struct):
    """The two-factor authentication of an account; its row stays locked until the transaction ends."""

    totp_secret: bytes | None
    totp_step: int
    locked: bool
    failures: int
    now: float


LOCK_TWO_FACTOR = Query(
    TwoFactor,
    """SELECT totp_secret, totp_step, coalesce(factor_locked_until > now(), false) AS locked,
              factor_failures AS failures, extract(epoch FROM now())::float8 AS now
         FROM accounts WHERE id = $1 FOR NO KEY UPDATE""",
    unbound=_ACCOUNTS,
)
SET_TWO_FACTOR = Command(
    """UPDATE accounts SET totp_secret = $2, totp_step = $3, factor_failures = 0, factor_locked_until = NULL,
              updated_at = now() WHERE id = $1""",
    unbound=_ACCOUNTS,
)
TWO_FACTOR_PASSED = Command(
    "UPDATE accounts SET totp_step = greatest(totp_step, $2), factor_failures = 0 WHERE id = $1", unbound=_ACCOUNTS
)
TWO_FACTOR_FAILED = Command(
    """UPDATE accounts SET factor_failures = CASE WHEN factor_failures + 1 >= $2 THEN 0 ELSE factor_failures + 1 END,
              factor_locked_until = now() + CASE WHEN factor_failures + 1 >= $2 THEN interval '15 minutes' END
        WHERE id = $1""",
    unbound=_ACCOUNTS,
)
DELETE_RECOVERY_CODES = Command("DELETE FROM account_recovery_codes WHERE account_id = $1", unbound=_ACCOUNTS)
ADD_RECOVERY_CODES = Command(
    "INSERT INTO account_recovery_codes (account_id, code_hash) SELECT $1, unnest($2::bytea[])", unbound=_ACCOUNTS
)
USE_RECOVERY_CODE = Command(
    "DELETE FROM account_recovery_codes WHERE account_id = $1 AND code_hash = ANY ($2::bytea[])", unbound=_ACCOUNTS
)
COUNT_RECOVERY_CODES = Query(
    int, "SELECT count(*) FROM account_recovery_codes WHERE account_id = $1", unbound=_ACCOUNTS
)

# --- sessions ----------------------------------------------------------------------------------------------

OPEN_SESSION = Command(
    """INSERT INTO account_sessions (session_hash, account_id, stage, address, agent, expires_at)
       VALUES ($1, $2, $3, $4, $5, now() + make_interval(secs => $6))""",
    unbound=_ACCOUNTS,
)
FIND_SESSION = Query(
    SessionAccount,
    """SELECT s.id AS session_id, s.stage, s.seen_at < now() - interval '1 minute' AS stale, a.id AS account_id,
              a.email, a.name, a.operator, a.totp_secret IS NOT NULL AS two_factor
         FROM account_sessions s JOIN accounts a ON a.id = s.account_id
        WHERE s.session_hash = ANY ($1::bytea[]) AND s.expires_at > now() AND s.seen_at > now() - make_interval(secs => $2)
          AND a.status = 'active'""",
    unbound=_ACCOUNTS,
)
TOUCH_SESSION = Command(
    "UPDATE account_sessions SET seen_at = now() WHERE session_hash = ANY ($1::bytea[])", unbound=_ACCOUNTS
)
LIST_SESSIONS = Query(
    Session,
    """SELECT id, address, agent, created_at, seen_at FROM account_sessions
        WHERE account_id = $1 AND stage = 'signed in' AND expires_at > now()
          AND seen_at > now() - make_interval(secs => $2) ORDER BY seen_at DESC, id DESC LIMIT 100""",
    unbound=_ACCOUNTS,
)
CLOSE_SESSION = Command("DELETE FROM account_sessions WHERE session_hash = ANY ($1::bytea[])", unbound=_ACCOUNTS)
END_SESSION = Command("DELETE FROM account_sessions WHERE account_id = $1 AND id = $2", unbound=_ACCOUNTS)
END_SESSIONS = Command("DELETE FROM account_sessions WHERE account_id = $1", unbound=_ACCOUNTS)
END_OTHER_SESSIONS = Command("DELETE FROM account_sessions WHERE account_id = $1 AND id <> $2", unbound=_ACCOUNTS)

# A device that was not used for a year is new again.
SEE_DEVICE = Command(
    """UPDATE account_devices SET seen_at = now()
        WHERE account_id = $1 AND device_hash = ANY ($2::bytea[]) AND seen_at > now() - interval '1 year'""",
    unbound=_ACCOUNTS,
)
ADD_DEVICE = Command(
    """INSERT INTO account_devices (account_id, device_hash) VALUES ($1, $2)
           ON CONFLICT (account_id, device_hash) DO UPDATE SET seen_at = excluded.seen_at""",
    unbound=_ACCOUNTS,
)

# --- maintenance ---------------------------------------------------------------------------------------------

FORGET_OLD_SESSIONS = Command(
    """DELETE FROM account_sessions WHERE session_hash IN (
           SELECT session_hash FROM account_sessions WHERE expires_at < now() LIMIT 1000)""",
    unbound=_CHORE,
)
FORGET_OLD_DEVICES = Command(
    """DELETE FROM account_devices d USING (
           SELECT account_id, device_hash FROM account_devices WHERE seen_at < now() - interval '1 year' LIMIT 1000) old
        WHERE d.account_id = old.account_id AND d.device_hash = old.device_hash""",
    unbound=_CHORE,
)
