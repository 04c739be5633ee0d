"""Self-service password resets: a request is noted the same way for every address, and answered in the background.

The request does the same work whether the address has an account or not, so neither its response nor its duration tells.
"""

from stoa.access.audit import SERVICE
from stoa.access.authentication import Attempt, count_failure, refuse_guessing
from stoa.access.credentials import keyed_hash
from stoa.access.operator import Operator
from stoa.access.queries import FAILED_ATTEMPTS
from stoa.accounts.contract import Account
from stoa.accounts.queries import (
    ACCOUNT_BY_EMAIL,
    ADD_LINK,
    ADD_RESET_REQUEST,
    DELETE_LINKS,
    DELETE_REQUESTED_LINKS,
    LOCK_TEXT,
    MAILED_RECENTLY,
    TAKE_RESET_REQUESTS,
)
from stoa.accounts.rules import normalize_email
from stoa.db.pool import Database
from stoa.db.query import Executor
from stoa.mail.contract import Content, Recipient
from stoa.mail.message import new_nonce, one_time_token
from stoa.mail.outbox import discard, post
from stoa.rest.headers import address_of

LINK_HOURS = 1
PASSWORD, TWO_FACTOR = "password_reset", "two_factor_reset"  # the kinds of email
_BATCH = 50
_ASKED = (
    "Somebody asked for a new password for your account. If it was you, follow the link within one hour. It works once.\n\n"
    "If it was not you, ignore this email: your password stays as it is."
)
_OFFERED = (
    "An operator of this service sends you a link to choose a new password. Follow it within one hour. It works once.\n\n"
    "If you did not ask for it, ignore this email: your password stays as it is."
)
_TWO_FACTOR_OFFERED = (
    "An operator of this service sends you a link to choose a new password and turn off two-factor authentication, because "
    "you cannot enter a code. Follow it within one hour. It works once. Turn two-factor authentication on again afterwards.\n\n"
    "If you did not ask for it, ignore this email, and tell an operator: nothing changes until the link is used."
)


async def request_reset(by: Operator, db: Database, email: str, *, peer: str) -> None:
    """Note a request; the number of requests for one address and from one IP address is limited."""
    email = normalize_email(email)
    attempt = Attempt(f"reset/{keyed_hash(by.key, email).hex()[:32]}", address_of(peer), "account")
    refuse_guessing(await FAILED_ATTEMPTS.one(db, attempt.subjects))
    await count_failure(db, attempt, by.request_id)
    await ADD_RESET_REQUEST.run(db, email)


async def answer_reset_requests(by: Operator) -> None:
    """Send a link to each address that has an active account; any number of processes may do so."""
    taken = _BATCH
    while taken == _BATCH:
        async with by.db.transaction() as db:
            emails = await TAKE_RESET_REQUESTS.all(db, _BATCH)
            for email in sorted(set(emails)):
                await _answer(by, db, email)
        taken = len(emails)


async def _answer(by: Operator, db: Executor, email: str) -> None:
    await LOCK_TEXT.one(db, email)  # of two processes at once, the second sees the email of the first
    account = await ACCOUNT_BY_EMAIL.maybe(db, email)
    if account is None or account.status != "active" or await MAILED_RECENTLY.one(db, account.id, PASSWORD):
        return
    await discard(db, await DELETE_REQUESTED_LINKS.all(db, account.email))
    await _mail_link(by, db, account, _ASKED)
    await by.record(db, SERVICE, "account.reset_requested", f"account:{account.id}")


async def send_reset(by: Operator, account: Account, *, two_factor: bool = False) -> bool:
    """Email a link that sets a new password, and with `two_factor` also turns two-factor authentication off.

    Return False if such a link was emailed in the last minutes, which still works.
    """
    body, kind = (_TWO_FACTOR_OFFERED, TWO_FACTOR) if two_factor else (_OFFERED, PASSWORD)
    async with by.db.transaction() as db:
        await LOCK_TEXT.one(db, account.email)
        if await MAILED_RECENTLY.one(db, account.id, kind):
            return False
        await discard(db, await DELETE_LINKS.all(db, "reset", account.email))
        await _mail_link(by, db, account, body, two_factor=two_factor)
        await by.record(db, SERVICE, "account.reset_offered", f"account:{account.id}", two_factor_off=two_factor)
    return True


async def _mail_link(by: Operator, db: Executor, account: Account, body: str, *, two_factor: bool = False) -> None:
    nonce = new_nonce(by.key)
    token_hash = keyed_hash(by.key, one_time_token(by.key, nonce))
    kind, subject = (TWO_FACTOR, "Reset your second factor") if two_factor else (PASSWORD, "Reset your password")
    content = Content(kind, subject, body, "/portal/new-password/", "Choose a new password", nonce)
    [mail_id] = await post(db, content, [Recipient(account.id, account.email)])
    link = (token_hash, "reset", account.email, False, account.id, LINK_HOURS, mail_id, two_factor)
    await ADD_LINK.one(db, *link)
