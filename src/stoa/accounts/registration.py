"""Account creation and maintenance: first set-up, sign-up, invitations, password resets, disabling."""

import secrets

from stoa.access.audit import SERVICE
from stoa.access.authentication import Attempt, count_failure, refuse_guessing
from stoa.access.credentials import keyed_hash, keyed_hashes
from stoa.access.operator import Operator
from stoa.access.queries import FAILED_ATTEMPTS
from stoa.accounts import passwords
from stoa.accounts.authentication_queries import DELETE_RECOVERY_CODES, END_SESSIONS, SET_TWO_FACTOR
from stoa.accounts.contract import Account, AccountInvitation, Link, NewLink, NewSession, Purpose
from stoa.accounts.invitation_mail import QUIET_MINUTES, Carried, account_invitation, carry
from stoa.accounts.queries import (
    ACCOUNT_BY_EMAIL,
    ACCOUNT_INVITATIONS,
    ADD_LINK,
    ANY_ACCOUNT,
    CREATE_ACCOUNT,
    DELETE_LINKS,
    FIND_LINK,
    GET_ACCOUNT,
    LIST_ACCOUNTS,
    LOCK_TEXT,
    MAILED_ACCOUNT_INVITATION,
    RENAME_ACCOUNT,
    REVOKE_ACCOUNT_INVITATION,
    SET_ACCOUNT_STATUS,
    SET_PASSWORD,
    USE_LINK,
    AddedLink,
)
from stoa.accounts.refusals import EmailTaken, LinkExpired, NoSuchAccount, NoSuchInvitation
from stoa.accounts.rules import check_password, check_person_name, normalize_email
from stoa.accounts.sessions import check_confirmed, open_session
from stoa.accounts.verification import request_verification, verified_by_mail
from stoa.db.errors import PostgresError, violates
from stoa.db.pool import Database
from stoa.db.query import Executor
from stoa.mail.contract import Content, Recipient
from stoa.mail.outbox import discard, post
from stoa.rest.headers import address_of
from stoa.settings import Settings, service_url

LINK_HOURS: dict[Purpose, int] = {"set-up": 24, "invitation": 7 * 24, "reset": 24}
_PASSWORD_CHANGED = Content(
    "password_changed",
    "Your password was changed",
    "The password of your account was changed, and all other sessions have ended. If it was not you, ask an operator of this "
    "service for help at once.",
    "/portal/account",
    "Open your account",
)
_PATHS: dict[Purpose, str] = {"set-up": "set-up", "invitation": "invitation", "reset": "new-password"}


async def create_account(
    by: Operator, email: str, name: str, password: str, *, operator: bool = False, verify: bool = False
) -> Account:
    """Create an account; with `verify`, an email asks its person to confirm the address, if the service sends email."""
    email, name = normalize_email(email), check_person_name(name)
    check_password(password, email)
    password_hash = await passwords.hash_password(password)
    try:
        async with by.db.transaction() as db:
            account = await insert_account(by, db, email, name, password_hash, operator=operator)
            if verify:
                await request_verification(by, db, account.id, account.email)
            return account
    except PostgresError as error:
        if violates(error, "accounts_email_key"):
            raise EmailTaken from error
        raise


async def sign_up(by: Operator, db: Database, email: str, name: str, password: str, *, peer: str) -> Account:
    """Create an account for a visitor; each IP address is limited to a number of sign-ups per minute."""
    attempt = Attempt("sign-up", address_of(peer), "account")
    refuse_guessing(await FAILED_ATTEMPTS.one(db, attempt.subjects))
    try:
        account = await create_account(by, email, name, password, verify=True)
    except EmailTaken:
        await count_failure(db, attempt, by.request_id)  # limits how fast a visitor can enumerate accounts
        raise
    await count_failure(db, attempt, by.request_id)
    return account


async def insert_account(
    by: Operator, db: Executor, email: str, name: str, password_hash: str, *, operator: bool
) -> Account:
    """Add an account in the caller's transaction; its values are checked before."""
    account_id = await CREATE_ACCOUNT.one(db, email, name, password_hash, operator)
    await by.record(db, SERVICE, "account.created", f"account:{account_id}", operator=operator)
    return await GET_ACCOUNT.one(db, account_id)


async def list_accounts(by: Operator) -> list[Account]:
    return await LIST_ACCOUNTS.all(by.db)


async def find_account(db: Executor, email: str) -> Account:
    found = await ACCOUNT_BY_EMAIL.maybe(db, email.strip().lower())
    if found is None:
        raise NoSuchAccount(email)
    return found


async def create_setup_link(by: Operator) -> NewLink | None:
    """Create the link for the first account and end older ones; None if an account exists."""
    async with by.db.transaction() as db:
        if await ANY_ACCOUNT.one(db):
            return None
        token = Carried(secrets.token_urlsafe(32), None)
        return _shown(by, "set-up", "", token, await _add_link(by, db, "set-up", "", token, operator=True))


async def setup_message(settings: Settings) -> str:
    """Return the line that a service without accounts prints at startup; empty once an account exists. It contains no link,
    because the output of a service is kept in logs, and the link makes an operator of anybody who reads it."""
    database = Database(settings.database_url, size=1)
    try:
        exists = await ANY_ACCOUNT.one(database)
    finally:
        await database.close()
    return "" if exists else "No account exists yet. `stoa account set-up` prints a link to create the first one."


async def invite(by: Operator, email: str, *, operator: bool = False, by_email: bool = False) -> NewLink:
    """Create a link with which the person with this email address creates an account; an earlier link of theirs ends.

    With `by_email`, an email carries the link if the service sends email.
    """
    email = normalize_email(email)
    async with by.db.transaction() as db:
        await LOCK_TEXT.one(db, email)
        if await ACCOUNT_BY_EMAIL.maybe(db, email) is not None:
            raise EmailTaken
        mailed = await MAILED_ACCOUNT_INVITATION.maybe(db, email, operator, QUIET_MINUTES) if by_email else None
        if mailed is not None:
            return NewLink(email, "", mailed)
        carried = await carry(by, db, email, account_invitation(operator=operator), by_email=by_email)
        added = await _add_link(by, db, "invitation", email, carried, operator=operator)
        await by.record(db, SERVICE, "account.invited", f"invitation:{added.reference}", operator=operator)
    return _shown(by, "invitation", email, carried, added)


async def pending_invitations(db: Executor) -> list[AccountInvitation]:
    return await ACCOUNT_INVITATIONS.all(db)


async def revoke_invitation(by: Operator, reference: str) -> None:
    """End a pending invitation to create an account; an email that carries it and was not sent is discarded."""
    async with by.db.transaction() as db:
        mails = await REVOKE_ACCOUNT_INVITATION.all(db, reference)
        if not mails:
            raise NoSuchInvitation
        await discard(db, mails)
        await by.record(db, SERVICE, "account.invitation_revoked", f"invitation:{reference}")


async def create_reset_link(by: Operator, email: str, *, two_factor: bool = False) -> NewLink:
    """Create a link that sets a new password; `two_factor` also turns two-factor authentication off."""
    async with by.db.transaction() as db:
        account = await find_account(db, email)
        if two_factor:
            await _turn_off_two_factor(db, account.id)
        token = Carried(secrets.token_urlsafe(32), None)
        added = await _add_link(by, db, "reset", account.email, token, account_id=account.id)
        detail = {"two_factor_off": two_factor}
        await by.record(db, SERVICE, "account.reset_offered", f"account:{account.id}", **detail)
    return _shown(by, "reset", account.email, token, added)


async def _add_link(
    by: Operator,
    db: Executor,
    purpose: Purpose,
    email: str,
    carried: Carried,
    *,
    operator: bool = False,
    account_id: int | None = None,
) -> AddedLink:
    """Store a link in place of an earlier one to the same address."""
    await discard(db, await DELETE_LINKS.all(db, purpose, email))
    reset = (account_id, LINK_HOURS[purpose], carried.mail_id, False)
    return await ADD_LINK.one(db, keyed_hash(by.key, carried.token), purpose, email, operator, *reset)


def _shown(by: Operator, purpose: Purpose, email: str, carried: Carried, added: AddedLink) -> NewLink:
    """The link as it is shown to the person who made it; the address is empty if an email carries it."""
    address = f"{service_url(by.settings)}/portal/{_PATHS[purpose]}/{carried.token}" if carried.mail_id is None else ""
    return NewLink(email, address, added.expires_at)


async def find_link(by: Operator, purpose: Purpose, token: str) -> Link | None:
    """Return the valid link with this token; None if it was used, has expired or has another purpose."""
    found = await FIND_LINK.maybe(by.db, keyed_hashes(by.key, token))
    return found if found is not None and found.purpose == purpose else None


async def accept_link(by: Operator, purpose: Purpose, token: str, *, email: str, name: str, password: str) -> Account:
    """Create the account of a set-up link or an invitation, and use up the link."""
    link = await find_link(by, purpose, token)
    if link is None:
        raise LinkExpired
    email, name = link.email or normalize_email(email), check_person_name(name)
    check_password(password, email)
    password_hash = await passwords.hash_password(password)
    try:
        async with by.db.transaction() as db:
            mails = await _use_link(by, db, token)
            if purpose == "set-up":
                # Of two concurrent set-ups with different links, only the first may create the first account.
                await DELETE_LINKS.all(db, purpose, "")
                if await ANY_ACCOUNT.one(db):
                    raise LinkExpired
            account = await insert_account(by, db, email, name, password_hash, operator=link.operator)
            await verified_by_mail(db, account.id, mails)
            return account
    except PostgresError as error:
        if violates(error, "accounts_email_key"):
            raise EmailTaken from error
        raise


async def _use_link(by: Operator, db: Executor, token: str) -> list[int]:
    """Use up a link; returns the email that carried it, or 0."""
    used = await USE_LINK.all(db, keyed_hashes(by.key, token))
    if not used:
        raise LinkExpired
    await discard(db, used)
    return used


async def _turn_off_two_factor(db: Executor, account_id: int) -> None:
    await SET_TWO_FACTOR.run(db, account_id, None, 0)
    await DELETE_RECOVERY_CODES.run(db, account_id)


async def reset_password(by: Operator, token: str, password: str) -> None:
    """Set a new password with a reset link, which may also turn two-factor authentication off; all sessions end."""
    link = await find_link(by, "reset", token)
    if link is None or link.account_id is None:
        raise LinkExpired
    check_password(password, link.email)
    password_hash = await passwords.hash_password(password)
    async with by.db.transaction() as db:
        await verified_by_mail(db, link.account_id, await _use_link(by, db, token))
        account = await GET_ACCOUNT.one(db, link.account_id)
        if link.two_factor and account.two_factor:
            await _turn_off_two_factor(db, account.id)
            await by.record(db, SERVICE, "account.two_factor_off", f"account:{account.id}")
        await _set_password(by, db, account, password_hash)


async def change_password(by: Operator, account: Account, password: str) -> None:
    """Set a new password; all sessions end."""
    check_password(password, account.email)
    password_hash = await passwords.hash_password(password)
    async with by.db.transaction() as db:
        await _set_password(by, db, account, password_hash)


async def change_own_password(
    by: Operator, account: Account, password: str, *, confirmed: str, peer: str, agent: str
) -> NewSession:
    """Set a new password and open a new session; all old sessions end, because one may have been stolen.

    `confirmed` is the hash of the old password. If it was replaced meanwhile, such as by a reset, nothing changes.
    """
    check_password(password, account.email)
    password_hash = await passwords.hash_password(password)
    async with by.db.transaction() as db:
        await check_confirmed(db, account.id, confirmed)
        await _set_password(by, db, account, password_hash)
        return await open_session(by, db, account.id, complete=True, peer=peer, agent=agent)


async def _set_password(by: Operator, db: Executor, account: Account, password_hash: str) -> None:
    await SET_PASSWORD.run(db, account.id, password_hash)
    await discard(db, await DELETE_LINKS.all(db, "reset", account.email))
    ended = await END_SESSIONS.run(db, account.id)
    await by.record(db, SERVICE, "account.password_changed", f"account:{account.id}", sessions_ended=ended)
    await post(db, _PASSWORD_CHANGED, [Recipient(account.id, account.email)])


async def rename_account(by: Operator, account_id: int, name: str) -> None:
    await RENAME_ACCOUNT.run(by.db, account_id, check_person_name(name))


async def disable_account(by: Operator, email: str, reason: str = "") -> Account:
    """End all sessions of the account and block sign-in until it is enabled again.

    The person reads the reason in an email and when they sign in; the audit log keeps it.
    """
    return await _set_status(by, email, "disabled", reason)


async def enable_account(by: Operator, email: str) -> Account:
    return await _set_status(by, email, "active")


async def _set_status(by: Operator, email: str, status: str, reason: str = "") -> Account:
    async with by.db.transaction() as db:
        account = await find_account(db, email)
        if await SET_ACCOUNT_STATUS.run(db, account.id, status, reason or None):
            await END_SESSIONS.run(db, account.id)
            action = "account.enabled" if status == "active" else "account.disabled"
            await by.record(db, SERVICE, action, f"account:{account.id}", **({"reason": reason} if reason else {}))
            await post(db, _status_mail(status, reason), [Recipient(account.id, account.email)])
        return await GET_ACCOUNT.one(db, account.id)


def _status_mail(status: str, reason: str) -> Content:
    if status == "active":
        text = "An operator of this service has enabled your account again. You can sign in with your password."
        return Content("account_enabled", "Your account is enabled again", text, "/portal", "Sign in")
    why = f"\n\nThe reason: {reason}" if reason else ""
    text = (
        f"An operator of this service has disabled your account. You are signed out and cannot sign in.{why}\n\nYour "
        "stores and apps keep working. If you think that this is a mistake, ask an operator of this service."
    )
    return Content("account_disabled", "Your account is disabled", text)
