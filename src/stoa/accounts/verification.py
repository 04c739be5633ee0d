"""Verification of email addresses: a link that was emailed to the address, followed by the person who is signed in."""

from stoa.access.audit import SERVICE
from stoa.access.credentials import keyed_hash, keyed_hashes
from stoa.access.operator import Operator
from stoa.accounts.queries import (
    ASK_FOR_VERIFICATION,
    IS_VERIFICATION,
    LOCK_TEXT,
    MAILED_RECENTLY,
    VERIFY_ADDRESS,
    VERIFY_BY_LINK,
)
from stoa.db.query import Executor
from stoa.mail.contract import Content, Recipient
from stoa.mail.message import new_nonce, one_time_token
from stoa.mail.outbox import post

LINK_HOURS = 24
KIND = "address_verification"
_BODY = (
    "An account at this service has your email address. If it is yours, sign in and confirm the address with the link, within "
    "24 hours. It works once. Merchants then see that the address is verified.\n\n"
    "If it is not yours, ignore this email."
)


async def request_verification(by: Operator, db: Executor, account_id: int, email: str) -> bool:
    """Send a link to the address, in the caller's transaction, unless it is verified or one was sent minutes ago."""
    if not by.settings.smtp_url:
        return False
    await LOCK_TEXT.one(db, email)  # of two requests at once, the second sees the email of the first
    if await MAILED_RECENTLY.one(db, account_id, KIND):
        return False
    nonce = new_nonce(by.key)
    token_hash = keyed_hash(by.key, one_time_token(by.key, nonce))
    if not await ASK_FOR_VERIFICATION.run(db, account_id, token_hash, LINK_HOURS):
        return False
    content = Content(
        KIND, "Confirm your email address", _BODY, "/portal/account/verify/", "Confirm the address", nonce
    )
    await post(db, content, [Recipient(account_id, email)])
    return True


async def is_verification(by: Operator, account_id: int, token: str) -> bool:
    """Whether the token is that of the link that was sent to this account, and still works."""
    return await IS_VERIFICATION.one(by.db, account_id, keyed_hashes(by.key, token))


async def verify(by: Operator, account_id: int, token: str) -> bool:
    """Verify the address by its link, which then ends; returns whether it did."""
    async with by.db.transaction() as db:
        verified = await VERIFY_BY_LINK.run(db, account_id, keyed_hashes(by.key, token))
        if verified:
            await by.record(db, SERVICE, "account.address_verified", f"account:{account_id}")
        return bool(verified)


async def verified_by_mail(db: Executor, account_id: int, mail_ids: list[int]) -> None:
    """Note that a link that an email carried was used for this account; 0 is a link that somebody passed on."""
    if any(mail_ids):
        await VERIFY_ADDRESS.run(db, account_id)
