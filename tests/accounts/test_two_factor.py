"""Two-factor authentication: concurrent set-up and sign-in, and storage of secrets."""

import asyncio

import pyotp

from stoa.access.operator import Operator
from stoa.accounts import two_factor
from stoa.accounts.refusals import TwoFactorOn, WrongCode
from stoa.accounts.sessions import find_session, sign_in
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.support.people import PASSWORD, User, as_operator, new_peer


async def test_concurrent_set_ups_turn_it_on_once(maria: User, operator: Operator) -> None:
    secrets = [two_factor.new_secret() for _ in range(4)]
    setups = [two_factor.turn_on(operator, maria.account.id, each, pyotp.TOTP(each).now()) for each in secrets]
    results = await asyncio.gather(*setups, return_exceptions=True)
    assert sum(isinstance(each, list) for each in results) == 1
    assert sum(isinstance(each, TwoFactorOn) for each in results) == 3


async def test_concurrent_sign_ins_use_a_code_once(maria: User, db: Database, settings: Settings) -> None:
    by = as_operator(db, settings)
    secret = two_factor.new_secret()
    await two_factor.turn_on(by, maria.account.id, secret, pyotp.TOTP(secret).now())
    # The code of this time step counts as used; reset it, so that the test need not wait for the next one.
    await db.execute("UPDATE accounts SET totp_step = 0 WHERE id = $1", maria.account.id)
    sessions = [await sign_in(by, db, maria.email, PASSWORD, peer=new_peer(), agent="") for _ in range(4)]
    accounts = [await find_session(db, by.key, each.token) for each in sessions]
    code = pyotp.TOTP(secret).now()
    attempts = [
        two_factor.complete_sign_in(by, account, session.token, code, peer="", agent="")
        for account, session in zip(accounts, sessions, strict=True)
        if account is not None
    ]
    results = await asyncio.gather(*attempts, return_exceptions=True)
    assert sum(isinstance(each, WrongCode) for each in results) == 3


async def test_the_secret_and_the_codes_are_not_stored_in_plain_text(
    maria: User, db: Database, operator: Operator
) -> None:
    secret = two_factor.new_secret()
    codes = await two_factor.turn_on(operator, maria.account.id, secret, pyotp.TOTP(secret).now())
    [[stored]] = await db.fetch("SELECT totp_secret FROM accounts WHERE id = $1", maria.account.id)
    assert secret.encode() not in stored
    hashes = await db.fetch("SELECT code_hash FROM account_recovery_codes WHERE account_id = $1", maria.account.id)
    assert len(hashes) == 10
    assert not any(code.replace("-", "").encode() in row[0] for code in codes for row in hashes)
