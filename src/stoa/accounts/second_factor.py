"""The second factor: codes from an authenticator (RFC 6238), and recovery codes for the day the phone is gone."""

import pyotp

from stoa.access.audit import SERVICE
from stoa.access.authentication import address_of
from stoa.access.credentials import keyed_hash
from stoa.access.operator import Operator
from stoa.access.sealing import Sealer
from stoa.accounts.contract import FactorLocked, FactorOn, Opened, SignedIn, SignInAgain, WrongCode
from stoa.accounts.queries import (
    ADD_CODES,
    CLOSE_SESSION,
    CODES_LEFT,
    DROP_CODES,
    END_SESSIONS,
    FACTOR,
    FACTOR_FAILED,
    FACTOR_PASSED,
    SET_FACTOR,
    USE_CODE,
    Factor,
)
from stoa.accounts.rules import RECOVERY_CODES, matching_step, new_recovery_code, plain_code
from stoa.accounts.sessions import open_session
from stoa.db.query import Executor

MOST_FAILURES = 10
_ISSUER = "Stoa"
_NO_SESSION = 0  # no session has this id


def _kept(account_id: int) -> tuple[str, str, int, int]:
    """Where a secret is bound to: the column of its account, which belongs to no store."""
    return "accounts", "totp_secret", 0, account_id


def _carried(account_id: int) -> tuple[str, str, int, int]:
    """A secret on its way through the page that sets it up, good for nothing else."""
    return "accounts", "totp_secret/new", 0, account_id


def new_secret() -> str:
    return pyotp.random_base32()


def address_for_app(secret: str, email: str) -> str:
    """What the QR code holds."""
    totp = pyotp.TOTP(secret, name=email, issuer=_ISSUER)
    return totp.provisioning_uri()  # pyright: ignore[reportUnknownMemberType]


def carried(by: Operator, account_id: int, secret: str) -> str:
    """The secret as a form carries it while somebody scans it: of no use to anybody but us."""
    return Sealer(by.key).seal(secret, *_carried(account_id)).hex()


def uncarried(by: Operator, account_id: int, text: str) -> str:
    return Sealer(by.key).open(bytes.fromhex(text), *_carried(account_id))


async def turn_on(by: Operator, account_id: int, secret: str, code: str) -> list[str]:
    """Begin to ask for codes, once the first one proves that they can be given; answers the recovery codes. Every
    session ends: one that was opened without a code must not outlive this."""
    async with by.db.transaction() as db:
        factor = await FACTOR.one(db, account_id)
        if factor.totp_secret is not None:
            raise FactorOn
        step = matching_step(secret, plain_code(code), factor.moment)
        if step is None:
            raise WrongCode
        await SET_FACTOR.run(db, account_id, Sealer(by.key).seal(secret, *_kept(account_id)), step)
        codes = await _new_codes(by, db, account_id)
        ended = await END_SESSIONS.run(db, account_id, _NO_SESSION)
        await by.record(db, SERVICE, "account.second_factor_on", f"account:{account_id}", sessions_ended=ended)
    return codes


async def turn_off(by: Operator, account_id: int) -> None:
    async with by.db.transaction() as db:
        await SET_FACTOR.run(db, account_id, None, 0)
        await DROP_CODES.run(db, account_id)
        await by.record(db, SERVICE, "account.second_factor_off", f"account:{account_id}")


async def renew_codes(by: Operator, account_id: int) -> list[str]:
    """New recovery codes; the old ones end."""
    async with by.db.transaction() as db:
        codes = await _new_codes(by, db, account_id)
        await by.record(db, SERVICE, "account.recovery_codes_renewed", f"account:{account_id}")
    return codes


async def codes_left(by: Operator, account_id: int) -> int:
    return await CODES_LEFT.one(by.db, account_id)


async def _new_codes(by: Operator, db: Executor, account_id: int) -> list[str]:
    codes = [new_recovery_code() for _ in range(RECOVERY_CODES)]
    await DROP_CODES.run(db, account_id)
    await ADD_CODES.run(db, account_id, [keyed_hash(by.key, plain_code(code)) for code in codes])
    return codes


async def complete_sign_in(by: Operator, person: SignedIn, token: str, code: str, *, peer: str, agent: str) -> Opened:
    """Turn a session that lacks its second factor into a whole one, under a new secret."""
    account_id = person.account_id
    opened: Opened | None = None
    async with by.db.transaction() as db:
        factor = await FACTOR.one(db, account_id)
        if factor.locked:
            raise FactorLocked
        how = await _passes(by, db, account_id, factor, plain_code(code))
        if how:
            if not await CLOSE_SESSION.run(db, keyed_hash(by.key, token)):
                raise SignInAgain  # another request completed it, or it ran out
            opened = await open_session(by, db, account_id, complete=True, peer=peer, agent=agent)
            await by.record(
                db, SERVICE, "account.signed_in", f"account:{account_id}", address=address_of(peer), second_factor=how
            )
        else:
            await FACTOR_FAILED.run(db, account_id, MOST_FAILURES)
            if factor.failures + 1 >= MOST_FAILURES:
                await by.record(db, SERVICE, "account.second_factor_locked", f"account:{account_id}")
    if opened is None:
        raise WrongCode
    return opened


async def _passes(by: Operator, db: Executor, account_id: int, factor: Factor, code: str) -> str:
    """How the code proves the second factor, or nothing; either kind works once."""
    if factor.totp_secret is None:
        raise SignInAgain  # it was turned off meanwhile
    step = matching_step(Sealer(by.key).open(factor.totp_secret, *_kept(account_id)), code, factor.moment)
    if step is not None and step > factor.totp_step:
        await FACTOR_PASSED.run(db, account_id, step)
        return "code"
    if step is None and await USE_CODE.run(db, account_id, keyed_hash(by.key, code)):
        await FACTOR_PASSED.run(db, account_id, 0)
        return "recovery code"
    return ""
