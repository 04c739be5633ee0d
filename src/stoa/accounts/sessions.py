"""Sign-in and sessions: a password, and a code where two-factor authentication is on, prove who is behind a browser."""

import secrets

from stoa.access.audit import SERVICE
from stoa.access.authentication import Attempt, count_failure, refuse_guessing
from stoa.access.credentials import keyed_hash, keyed_hashes
from stoa.access.operator import Operator
from stoa.access.queries import FAILED_ATTEMPTS
from stoa.accounts import passwords
from stoa.accounts.authentication_queries import (
    CLOSE_SESSION,
    CREDENTIALS,
    CREDENTIALS_BY_EMAIL,
    END_OTHER_SESSIONS,
    END_SESSION,
    FIND_SESSION,
    LIST_SESSIONS,
    LOCK_CREDENTIALS,
    OPEN_SESSION,
    TOUCH_SESSION,
)
from stoa.accounts.contract import NewSession, Session, SessionAccount
from stoa.accounts.devices import note_sign_in
from stoa.accounts.queries import SET_PASSWORD
from stoa.accounts.refusals import AccountDisabled, InvalidEmail, WrongCredentials, WrongPassword
from stoa.accounts.rules import normalize_email
from stoa.db.pool import Database
from stoa.db.query import Executor
from stoa.rest.headers import address_of
from stoa.secret_keys import Keys

IDLE_TIMEOUT_S = 60 * 60
MAX_AGE_S = 12 * 60 * 60
TWO_FACTOR_TIMEOUT_S = 10 * 60
_TOKEN_BYTES = 32
_MAX_AGENT_LENGTH = 200


async def sign_in(
    by: Operator, db: Database, email: str, password: str, *, peer: str, agent: str, device: str = ""
) -> NewSession:
    """Check the password and open a session; with two-factor authentication the session is not complete yet."""
    try:
        email = normalize_email(email)
    except InvalidEmail:
        email = ""
    attempt = Attempt(f"account/{keyed_hash(by.key, email).hex()[:32]}", address_of(peer), "account")
    refuse_guessing(await FAILED_ATTEMPTS.one(db, attempt.subjects))
    checked = await CREDENTIALS_BY_EMAIL.maybe(db, email)
    correct = await passwords.matches(checked.password_hash if checked else None, password)
    if checked is None or not correct:
        await count_failure(db, attempt, by.request_id)
        raise WrongCredentials
    if checked.status != "active":
        raise AccountDisabled(checked.disabled_reason or "")
    rehashed = await passwords.hash_password(password) if passwords.needs_rehash(checked.password_hash) else None
    async with db.transaction() as transaction:
        current = await LOCK_CREDENTIALS.one(transaction, checked.id)
        if (current.status, current.password_hash) != (checked.status, checked.password_hash):
            raise WrongCredentials  # the account changed while we checked the old password
        if rehashed:
            await SET_PASSWORD.run(transaction, checked.id, rehashed)
        complete = not current.two_factor
        session = await open_session(by, transaction, checked.id, complete=complete, peer=peer, agent=agent)
        if complete:
            subject = f"account:{checked.id}"
            await by.record(transaction, SERVICE, "account.signed_in", subject, address=address_of(peer))
            await note_sign_in(by, transaction, checked.id, device, peer=peer, agent=agent)
    return session


async def open_session(
    by: Operator, db: Executor, account_id: int, *, complete: bool, peer: str, agent: str
) -> NewSession:
    """Open a session under a new token; a token from the browser is never reused (session fixation)."""
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    stage, seconds = ("signed in", MAX_AGE_S) if complete else ("password", TWO_FACTOR_TIMEOUT_S)
    printable_agent = "".join(c if c.isprintable() else " " for c in agent[:_MAX_AGENT_LENGTH])
    await OPEN_SESSION.run(db, keyed_hash(by.key, token), account_id, stage, address_of(peer), printable_agent, seconds)
    return NewSession(token, complete)


async def find_session(db: Executor, keys: Keys, token: str, *, touch: bool = True) -> SessionAccount | None:
    """Return the account behind a live session; `touch` resets the idle timeout."""
    hashes = keyed_hashes(keys, token)
    found = await FIND_SESSION.maybe(db, hashes, IDLE_TIMEOUT_S)
    if touch and found is not None and found.stale and found.stage == "signed in":
        await TOUCH_SESSION.run(db, hashes)
    return found


async def sign_out(by: Operator, token: str) -> None:
    await CLOSE_SESSION.run(by.db, keyed_hashes(by.key, token))


async def list_sessions(by: Operator, account_id: int) -> list[Session]:
    return await LIST_SESSIONS.all(by.db, account_id, IDLE_TIMEOUT_S)


async def end_session(by: Operator, account_id: int, session_id: int) -> bool:
    """End a session of the account; False if the account has no such session."""
    async with by.db.transaction() as db:
        ended = await END_SESSION.run(db, account_id, session_id) > 0
        if ended:
            await by.record(db, SERVICE, "account.session_ended", f"account:{account_id}", sessions=1)
    return ended


async def end_other_sessions(by: Operator, account_id: int, session_id: int) -> None:
    """End all sessions of the account except this one."""
    async with by.db.transaction() as db:
        ended = await END_OTHER_SESSIONS.run(db, account_id, session_id)
        if ended:
            await by.record(db, SERVICE, "account.session_ended", f"account:{account_id}", sessions=ended)


async def confirm_password(by: Operator, db: Database, account_id: int, password: str, *, peer: str) -> str:
    """Check the password again before a sensitive change, in case the browser is borrowed; guessing is rate limited.

    Return its stored hash, with which the transaction of the change calls `check_confirmed`.
    """
    attempt = Attempt(f"account/{account_id}/again", address_of(peer), "account")
    refuse_guessing(await FAILED_ATTEMPTS.one(db, attempt.subjects))
    credentials = await CREDENTIALS.one(db, account_id)
    if not await passwords.matches(credentials.password_hash, password):
        await count_failure(db, attempt, by.request_id)
        raise WrongPassword
    return credentials.password_hash


async def check_confirmed(db: Executor, account_id: int, confirmed: str) -> None:
    """Lock the account, and refuse a change if its password was changed, or it was disabled, since it was confirmed."""
    current = await LOCK_CREDENTIALS.one(db, account_id)
    if (current.status, current.password_hash) != ("active", confirmed):
        raise WrongPassword
