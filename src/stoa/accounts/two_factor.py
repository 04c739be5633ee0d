"""Two-factor authentication: TOTP codes (RFC 6238) and single-use recovery codes."""

import pyotp

from stoa.access.audit import SERVICE
from stoa.access.credentials import keyed_hash, keyed_hashes
from stoa.access.encryption import Cipher
from stoa.access.operator import Operator
from stoa.accounts.authentication_queries import (
    ADD_RECOVERY_CODES,
    CLOSE_SESSION,
    COUNT_RECOVERY_CODES,
    DELETE_RECOVERY_CODES,
    END_SESSIONS,
    LOCK_TWO_FACTOR,
    SET_TWO_FACTOR,
    TWO_FACTOR_FAILED,
    TWO_FACTOR_PASSED,
    USE_RECOVERY_CODE,
    TwoFactor,
)
from stoa.accounts.contract import NewSession, SessionAccount
from stoa.accounts.devices import note_sign_in
from stoa.accounts.refusals import SignInExpired, TwoFactorLocked, TwoFactorOn, WrongCode
from stoa.accounts.rules import RECOVERY_CODES, matching_step, new_recovery_code, normalize_code
from stoa.accounts.sessions import open_session
from stoa.db.query import Executor
from stoa.rest.headers import address_of

MAX_FAILURES = 10
_ISSUER = "Stoa"


def _stored_context(account_id: int) -> tuple[str, str, int, int]:
    """The column to which a stored secret is encrypted; accounts belong to no store."""
    return "accounts", "totp_secret", 0, account_id


def _setup_context(account_id: int) -> tuple[str, str, int, int]:
    """The context of a secret in the setup form, which cannot be opened as a stored secret."""
    return "accounts", "totp_secret/new", 0, account_id


def new_secret() -> str:
    return pyotp.random_base32()


def provisioning_uri(secret: str, email: str) -> str:
    """Return the content of the QR code."""
    totp = pyotp.TOTP(secret, name=email, issuer=_ISSUER)
    return totp.provisioning_uri()  # pyright: ignore[reportUnknownMemberType]


def encrypt_setup_secret(by: Operator, account_id: int, secret: str) -> str:
    """Encrypt the secret for a hidden field of the setup form, so that no table has to store it."""
    return Cipher(by.key).encrypt(secret, *_setup_context(account_id)).hex()


def decrypt_setup_secret(by: Operator, account_id: int, encrypted: str) -> str:
    return Cipher(by.key).decrypt(bytes.fromhex(encrypted), *_setup_context(account_id))


async def turn_on(by: Operator, account_id: int, secret: str, code: str) -> list[str]:
    """Turn two-factor authentication on and return the recovery codes. The first code proves that the authenticator
    works; all sessions end, because they were opened without a code."""
    async with by.db.transaction() as db:
        factor = await LOCK_TWO_FACTOR.one(db, account_id)
        if factor.totp_secret is not None:
            raise TwoFactorOn
        step = matching_step(secret, normalize_code(code), factor.now)
        if step is None:
            raise WrongCode
        encrypted = Cipher(by.key).encrypt(secret, *_stored_context(account_id))
        await SET_TWO_FACTOR.run(db, account_id, encrypted, step)
        codes = await _replace_recovery_codes(by, db, account_id)
        ended = await END_SESSIONS.run(db, account_id)
        await by.record(db, SERVICE, "account.two_factor_on", f"account:{account_id}", sessions_ended=ended)
    return codes


async def turn_off(by: Operator, account_id: int) -> None:
    async with by.db.transaction() as db:
        await SET_TWO_FACTOR.run(db, account_id, None, 0)
        await DELETE_RECOVERY_CODES.run(db, account_id)
        await by.record(db, SERVICE, "account.two_factor_off", f"account:{account_id}")


async def renew_recovery_codes(by: Operator, account_id: int) -> list[str]:
    """Replace all recovery codes and return the new ones."""
    async with by.db.transaction() as db:
        codes = await _replace_recovery_codes(by, db, account_id)
        await by.record(db, SERVICE, "account.recovery_codes_renewed", f"account:{account_id}")
    return codes


async def count_recovery_codes(by: Operator, account_id: int) -> int:
    return await COUNT_RECOVERY_CODES.one(by.db, account_id)


async def _replace_recovery_codes(by: Operator, db: Executor, account_id: int) -> list[str]:
    codes = [new_recovery_code() for _ in range(RECOVERY_CODES)]
    await DELETE_RECOVERY_CODES.run(db, account_id)
    await ADD_RECOVERY_CODES.run(db, account_id, [keyed_hash(by.key, normalize_code(code)) for code in codes])
    return codes


async def complete_sign_in(
    by: Operator, account: SessionAccount, token: str, code: str, *, peer: str, agent: str, device: str = ""
) -> NewSession:
    """Check the code and replace the incomplete session with a complete one under a new token."""
    account_id = account.account_id
    session: NewSession | None = None
    async with by.db.transaction() as db:
        factor = await LOCK_TWO_FACTOR.one(db, account_id)
        if factor.locked:
            raise TwoFactorLocked
        method = await _verify(by, db, account_id, factor, normalize_code(code))
        if method:
            if not await CLOSE_SESSION.run(db, keyed_hashes(by.key, token)):
                raise SignInExpired  # another request completed it, or it timed out
            session = await open_session(by, db, account_id, complete=True, peer=peer, agent=agent)
            detail = {"address": address_of(peer), "two_factor": method}
            await by.record(db, SERVICE, "account.signed_in", f"account:{account_id}", **detail)
            await note_sign_in(by, db, account_id, device, peer=peer, agent=agent)
        else:
            await TWO_FACTOR_FAILED.run(db, account_id, MAX_FAILURES)
            if factor.failures + 1 >= MAX_FAILURES:
                await by.record(db, SERVICE, "account.two_factor_locked", f"account:{account_id}")
    # Raised after the commit, so that the failure is counted.
    if session is None:
        raise WrongCode
    return session


async def _verify(by: Operator, db: Executor, account_id: int, factor: TwoFactor, code: str) -> str:
    """Return the method that the code proves, or an empty string; each code works once."""
    if factor.totp_secret is None:
        raise SignInExpired  # two-factor authentication was turned off in the meantime
    secret = Cipher(by.key).decrypt(factor.totp_secret, *_stored_context(account_id))
    step = matching_step(secret, code, factor.now)
    if step is not None and step > factor.totp_step:
        await TWO_FACTOR_PASSED.run(db, account_id, step)
        return "code"
    if step is None and await USE_RECOVERY_CODE.run(db, account_id, keyed_hashes(by.key, code)):
        await TWO_FACTOR_PASSED.run(db, account_id, 0)
        return "recovery code"
    return ""
