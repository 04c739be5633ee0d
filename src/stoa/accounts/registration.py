"""How accounts come to be and are looked after: the first set-up, invitations, sign-up, new passwords."""

import secrets

from stoa.access.audit import SERVICE
from stoa.access.authentication import Try, address_of, count_failure, refuse_guessing
from stoa.access.credentials import keyed_hash
from stoa.access.operator import Operator
from stoa.access.queries import TRIES
from stoa.accounts import passwords
from stoa.accounts.contract import Account, EmailTaken, Link, LinkSpent, NewLink, NoSuchAccount, Opened, Purpose
from stoa.accounts.queries import (
    ACCOUNT_BY_EMAIL,
    ADD_LINK,
    ANY_ACCOUNT,
    CREATE_ACCOUNT,
    DROP_CODES,
    DROP_LINKS,
    END_SESSIONS,
    FIND_LINK,
    GET_ACCOUNT,
    LIST_ACCOUNTS,
    RENAME_ACCOUNT,
    SET_ACCOUNT_STATUS,
    SET_FACTOR,
    SET_PASSWORD,
    SPEND_LINK,
)
from stoa.accounts.rules import check_password, check_person, normal_email
from stoa.accounts.sessions import open_session
from stoa.db.errors import PostgresError, violates
from stoa.db.pool import Database
from stoa.db.query import Executor
from stoa.ids import new_id
from stoa.settings import Settings

LINK_HOURS: dict[Purpose, int] = {"set-up": 24, "invitation": 7 * 24, "reset": 24}
_PATHS: dict[Purpose, str] = {"set-up": "set-up", "invitation": "invitation", "reset": "new-password"}
_NOBODY = 0  # no session has this id


async def create_account(by: Operator, email: str, name: str, password: str, *, operator: bool = False) -> Account:
    known, person = normal_email(email), check_person(name)
    check_password(password, known)
    digest = await passwords.hashed(password)
    try:
        async with by.db.transaction() as db:
            return await _create(by, db, known, person, digest, operator=operator)
    except PostgresError as error:
        if violates(error, "accounts_email_key"):
            raise EmailTaken from error
        raise


async def sign_up(by: Operator, db: Database, email: str, name: str, password: str, *, peer: str) -> Account:
    """An account that somebody makes for themselves; an address makes, or finds taken, only so many in a minute."""
    attempt = Try("sign-up", address_of(peer), "account")
    refuse_guessing(await TRIES.one(db, attempt.subjects))
    try:
        made = await create_account(by, email, name, password)
    except EmailTaken:
        await count_failure(db, attempt, by.request_id)  # or it would be the way to find out who is here
        raise
    await count_failure(db, attempt, by.request_id)
    return made


async def _create(by: Operator, db: Executor, email: str, name: str, digest: str, *, operator: bool) -> Account:
    account_id = await CREATE_ACCOUNT.one(db, email, name, digest, operator)
    await by.record(db, SERVICE, "account.created", f"account:{account_id}", operator=operator)
    return await GET_ACCOUNT.one(db, account_id)


async def list_accounts(by: Operator) -> list[Account]:
    return await LIST_ACCOUNTS.all(by.db)


async def find_account(db: Executor, email: str) -> Account:
    found = await ACCOUNT_BY_EMAIL.maybe(db, email.strip().lower())
    if found is None:
        raise NoSuchAccount(email)
    return found


async def first_set_up(by: Operator) -> NewLink | None:
    """The address at which the first account is made, as long as there is none; one that was made before ends."""
    async with by.db.transaction() as db:
        if await ANY_ACCOUNT.one(db):
            return None
        return await _link(by, db, "set-up", "", operator=True)


async def say_set_up(settings: Settings) -> str:
    """What a service says at its start as long as nobody has an account; nothing once somebody has."""
    database = Database(settings.database_url, size=1)
    try:
        link = await first_set_up(Operator(database, settings, actor="operator:service", request_id=new_id("req")))
    finally:
        await database.close()
    if link is None:
        return ""
    return f"Nobody has an account yet. Make the first one here, once, within a day: {link.address}"


async def invite(by: Operator, email: str, *, operator: bool = False) -> NewLink:
    """An address at which the person with this e-mail address makes their account."""
    known = normal_email(email)
    async with by.db.transaction() as db:
        if await ACCOUNT_BY_EMAIL.maybe(db, known) is not None:
            raise EmailTaken
        made = await _link(by, db, "invitation", known, operator=operator)
        await by.record(db, SERVICE, "account.invited", "account:new", operator=operator)
    return made


async def reset(by: Operator, email: str, *, second_factor: bool = False) -> NewLink:
    """An address at which a new password is chosen; with `second_factor`, that is turned off too."""
    async with by.db.transaction() as db:
        account = await find_account(db, email)
        if second_factor:
            await SET_FACTOR.run(db, account.id, None, 0)
            await DROP_CODES.run(db, account.id)
        made = await _link(by, db, "reset", account.email, account_id=account.id)
        detail = {"second_factor_off": second_factor}
        await by.record(db, SERVICE, "account.reset_offered", f"account:{account.id}", **detail)
    return made


async def _link(
    by: Operator, db: Executor, purpose: Purpose, email: str, *, operator: bool = False, account_id: int | None = None
) -> NewLink:
    token = secrets.token_urlsafe(32)
    await DROP_LINKS.run(db, purpose, email)
    hours = LINK_HOURS[purpose]
    until = await ADD_LINK.one(db, keyed_hash(by.key, token), purpose, email, operator, account_id, hours)
    service = by.settings.public_url.rstrip("/") or f"http://localhost:{by.settings.port}"
    return NewLink(email, f"{service}/portal/{_PATHS[purpose]}/{token}", until)


async def find_link(by: Operator, purpose: Purpose, token: str) -> Link | None:
    """What an address promises, while it does."""
    found = await FIND_LINK.maybe(by.db, keyed_hash(by.key, token))
    return found if found is not None and found.purpose == purpose else None


async def accept(by: Operator, purpose: Purpose, token: str, *, email: str, name: str, password: str) -> Account:
    """Make the account that a set-up address or an invitation promises; the address is spent with it."""
    link = await find_link(by, purpose, token)
    if link is None:
        raise LinkSpent
    known, person = link.email or normal_email(email), check_person(name)
    check_password(password, known)
    digest = await passwords.hashed(password)
    try:
        async with by.db.transaction() as db:
            if await SPEND_LINK.maybe(db, keyed_hash(by.key, token)) is None:
                raise LinkSpent
            if purpose == "set-up":
                # Of two who set up at once, by different addresses, the second finds its own gone.
                await DROP_LINKS.run(db, purpose, "")
                if await ANY_ACCOUNT.one(db):
                    raise LinkSpent
            return await _create(by, db, known, person, digest, operator=link.operator)
    except PostgresError as error:
        if violates(error, "accounts_email_key"):
            raise EmailTaken from error
        raise


async def choose_password(by: Operator, token: str, password: str) -> Account:
    """Set the password that a reset address allows; every session ends."""
    link = await find_link(by, "reset", token)
    if link is None or link.account_id is None:
        raise LinkSpent
    check_password(password, link.email)
    digest = await passwords.hashed(password)
    async with by.db.transaction() as db:
        if await SPEND_LINK.maybe(db, keyed_hash(by.key, token)) is None:
            raise LinkSpent
        account = await GET_ACCOUNT.one(db, link.account_id)
        await _set_password(by, db, account, digest, kept=_NOBODY)
        return account


async def change_password(by: Operator, account: Account, password: str, *, kept: int) -> None:
    """Set another password; all sessions end but the one that is kept."""
    check_password(password, account.email)
    digest = await passwords.hashed(password)
    async with by.db.transaction() as db:
        await _set_password(by, db, account, digest, kept=kept)


async def change_own_password(by: Operator, account: Account, password: str, *, peer: str, agent: str) -> Opened:
    """Set another password; all sessions end, and whoever did it goes on in a new one: the old may have been stolen."""
    check_password(password, account.email)
    digest = await passwords.hashed(password)
    async with by.db.transaction() as db:
        await _set_password(by, db, account, digest, kept=_NOBODY)
        return await open_session(by, db, account.id, complete=True, peer=peer, agent=agent)


async def _set_password(by: Operator, db: Executor, account: Account, digest: str, *, kept: int) -> None:
    account_id = account.id
    await SET_PASSWORD.run(db, account_id, digest)
    await DROP_LINKS.run(db, "reset", account.email)
    ended = await END_SESSIONS.run(db, account_id, kept)
    await by.record(db, SERVICE, "account.password_changed", f"account:{account_id}", sessions_ended=ended)


async def rename(by: Operator, account_id: int, name: str) -> None:
    await RENAME_ACCOUNT.run(by.db, account_id, check_person(name))


async def disable_account(by: Operator, email: str) -> Account:
    """Sign a person out everywhere, and let them in no more until they are enabled again."""
    return await _set_status(by, email, "disabled", "account.disabled")


async def enable_account(by: Operator, email: str) -> Account:
    return await _set_status(by, email, "active", "account.enabled")


async def _set_status(by: Operator, email: str, status: str, action: str) -> Account:
    async with by.db.transaction() as db:
        account = await find_account(db, email)
        if await SET_ACCOUNT_STATUS.run(db, account.id, status):
            await END_SESSIONS.run(db, account.id, _NOBODY)
            await by.record(db, SERVICE, action, f"account:{account.id}")
        return await GET_ACCOUNT.one(db, account.id)
