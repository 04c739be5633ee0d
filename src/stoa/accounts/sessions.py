"""Signing in and out: who is behind a browser, proven by a password and, where one is set, a second factor."""

import secrets

from stoa.access.audit import SERVICE
from stoa.access.authentication import Try, address_of, count_failure, refuse_guessing
from stoa.access.credentials import keyed_hash
from stoa.access.operator import Operator
from stoa.access.queries import TRIES
from stoa.accounts import passwords
from stoa.accounts.contract import InvalidEmail, Opened, Session, SignedIn, WrongCredentials, WrongPassword
from stoa.accounts.queries import (
    CLOSE_SESSION,
    END_SESSION,
    END_SESSIONS,
    LIST_SESSIONS,
    LOCK_PROOF,
    OPEN_SESSION,
    PROOF,
    PROOF_BY_EMAIL,
    SET_PASSWORD,
    SIGNED_IN,
    TOUCH_SESSION,
    Proof,
)
from stoa.accounts.rules import normal_email
from stoa.db.pool import Database
from stoa.db.query import Executor

IDLE_S = 60 * 60
ABSOLUTE_S = 12 * 60 * 60
BETWEEN_FACTORS_S = 10 * 60
_TOKEN_BYTES = 32
_LONGEST_AGENT = 200


async def sign_in(by: Operator, db: Database, email: str, password: str, *, peer: str, agent: str) -> Opened:
    """Open a session for whoever knows the password; the second factor, if there is one, is still to come."""
    try:
        known = normal_email(email)
    except InvalidEmail:
        known = ""
    attempt = Try(f"account/{keyed_hash(by.key, known).hex()[:32]}", address_of(peer), "account")
    refuse_guessing(await TRIES.one(db, attempt.subjects))
    proof = await PROOF_BY_EMAIL.maybe(db, known)
    usable = proof is not None and proof.status == "active"
    right = await passwords.matches(proof.password_hash if proof and usable else None, password)
    if proof is None or not right:
        await count_failure(db, attempt, by.request_id)
        raise WrongCredentials
    fresh = await passwords.hashed(password) if passwords.outdated(proof.password_hash) else None
    async with db.transaction() as transaction:
        now = await LOCK_PROOF.one(transaction, proof.id)
        if (now.status, now.password_hash) != (proof.status, proof.password_hash):
            raise WrongCredentials  # it changed while we compared: what was right then lets nobody in now
        if fresh:
            await SET_PASSWORD.run(transaction, proof.id, fresh)
        opened = await open_session(by, transaction, proof.id, complete=not now.second_factor, peer=peer, agent=agent)
        if opened.complete:
            await by.record(transaction, SERVICE, "account.signed_in", f"account:{proof.id}", address=address_of(peer))
    return opened


async def open_session(by: Operator, db: Executor, account_id: int, *, complete: bool, peer: str, agent: str) -> Opened:
    """A session under a new secret: what a browser brought along is never taken up."""
    token = secrets.token_urlsafe(_TOKEN_BYTES)
    stage, seconds = ("signed in", ABSOLUTE_S) if complete else ("password", BETWEEN_FACTORS_S)
    seen = "".join(c if c.isprintable() else " " for c in agent[:_LONGEST_AGENT])
    await OPEN_SESSION.one(db, keyed_hash(by.key, token), account_id, stage, address_of(peer), seen, seconds)
    return Opened(token, account_id, complete)


async def find_session(db: Executor, key: bytes, token: str, *, touch: bool = True) -> SignedIn | None:
    """Who this browser is signed in as, if its session has neither ended nor gone cold; `touch` when a person asks."""
    digest = keyed_hash(key, token)
    found = await SIGNED_IN.maybe(db, digest, IDLE_S)
    if touch and found is not None and found.stale and found.stage == "signed in":
        await TOUCH_SESSION.run(db, digest)
    return found


async def sign_out(by: Operator, token: str) -> None:
    await CLOSE_SESSION.run(by.db, keyed_hash(by.key, token))


async def list_sessions(by: Operator, account_id: int) -> list[Session]:
    return await LIST_SESSIONS.all(by.db, account_id, IDLE_S)


async def end_session(by: Operator, account_id: int, session_id: int) -> bool:
    """End one of the account's own sessions; whether there was such a one."""
    async with by.db.transaction() as db:
        ended = await END_SESSION.run(db, account_id, session_id) > 0
        if ended:
            await by.record(db, SERVICE, "account.session_ended", f"account:{account_id}", sessions=1)
    return ended


async def end_other_sessions(by: Operator, account_id: int, kept: int) -> int:
    """End all sessions of an account but one; 0 keeps none."""
    async with by.db.transaction() as db:
        ended = await END_SESSIONS.run(db, account_id, kept)
        if ended:
            await by.record(db, SERVICE, "account.session_ended", f"account:{account_id}", sessions=ended)
    return ended


async def confirm_password(by: Operator, db: Database, account_id: int, password: str, *, peer: str) -> Proof:
    """Ask again for the password before something that a borrowed browser must not do; guessing is slowed here too."""
    attempt = Try(f"account/{account_id}/again", address_of(peer), "account")
    refuse_guessing(await TRIES.one(db, attempt.subjects))
    proof = await PROOF.one(db, account_id)
    if not await passwords.matches(proof.password_hash, password):
        await count_failure(db, attempt, by.request_id)
        raise WrongPassword
    return proof
