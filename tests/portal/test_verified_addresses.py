"""Email addresses: verified by a link that only the owner of the mailbox gets, and marked for merchants."""

import pytest

from stoa.accounts.registration import accept_link, create_reset_link, invite, reset_password, sign_up
from stoa.accounts.reset_requests import answer_reset_requests, request_reset
from stoa.accounts.teams import find_team, join_with_new_account
from stoa.accounts.teams import invite as invite_to_team
from stoa.app import Application
from stoa.db.pool import Database
from tests.portal.installed_app import install_app
from tests.portal.mail_service import run_courier
from tests.support.people import PASSWORD, as_operator, create_user, new_email, new_peer
from tests.support.smtp import MailboxServer

BASE = "http://testserver"


async def link_to(db: Database, service: Application, mailbox: MailboxServer, email: str, count: int = 1) -> str:
    """The path of the link in the newest of this many mails to the address."""

    async def received() -> bool:
        return len(mailbox.to(email)) >= count

    await run_courier(db, service.settings, received, f"{count} mails")
    return mailbox.to(email)[-1].link.removeprefix(BASE)


async def is_verified(db: Database, email: str) -> bool:
    [[verified]] = await db.fetch("SELECT email_verified_at IS NOT NULL FROM accounts WHERE email = $1", email)
    return verified


async def test_an_address_is_verified_once_by_the_person_who_is_signed_in(
    service: Application, db: Database, mailbox: MailboxServer
) -> None:
    user, other = await create_user(service, db), await create_user(service, db)
    await user.open("/portal/account")
    assert "Not verified" in user.text
    for _ in "ab":  # a second click sends nothing more
        await user.submit("/portal/account/address")
        assert user.notice == f"We have sent a link to {user.email}. It works once, for 24 hours."
    link = await link_to(db, service, mailbox, user.email)
    assert link.startswith("/portal/account/verify/")
    assert len(mailbox.to(user.email)) == 1
    await other.open(link)
    assert other.response.status_code == 404, "another account"
    await user.open(link)
    assert not await is_verified(db, user.email), "a page that is only opened changes nothing"
    await user.submit(link)
    assert (user.notice, await is_verified(db, user.email)) == ("Your email address is verified.", True)
    assert "Not verified" not in user.text
    await user.open(link)
    assert user.response.status_code == 404, "the link works once"
    rows = await db.fetch("SELECT m::text FROM mails m WHERE account_id = $1", user.account.id)
    assert link.rpartition("/")[2] not in str(rows)
    for each in (user, other):
        await each.client.aclose()


async def test_a_link_that_has_expired_verifies_nothing(
    service: Application, db: Database, mailbox: MailboxServer
) -> None:
    user = await create_user(service, db)
    await user.open("/portal/account")
    await user.submit("/portal/account/address")
    link = await link_to(db, service, mailbox, user.email)
    await db.execute("UPDATE accounts SET verification_expires_at = now() WHERE id = $1", user.account.id)
    await user.open(link)
    assert (user.response.status_code, await is_verified(db, user.email)) == (404, False)
    await user.client.aclose()


@pytest.mark.parametrize("verified", [False, True])
async def test_a_merchant_sees_whether_the_address_of_a_developer_is_verified(
    application: Application, db: Database, verified: bool
) -> None:
    user = await create_user(application, db)
    if verified:
        await db.execute("UPDATE accounts SET email_verified_at = now() WHERE id = $1", user.account.id)
    app = await install_app(user, db)
    await user.open(f"/portal/stores/{app.handle}/apps/{app.app_id}")
    contact = user.text.partition("<dt>Contact</dt>")[2].partition("</dd>")[0]
    assert user.email in contact
    assert (">Verified<" in contact, ">Not verified<" in contact) == (verified, not verified)
    await user.client.aclose()


async def test_a_service_without_email_says_that_no_address_can_be_verified(
    application: Application, db: Database
) -> None:
    user = await create_user(application, db)
    await user.open("/portal/account")
    assert "This service does not send email, so no address can be verified." in user.text
    await user.client.aclose()


async def test_a_person_who_signs_up_is_asked_to_verify_the_address(
    service: Application, db: Database, mailbox: MailboxServer
) -> None:
    by, email = as_operator(db, service.settings), new_email()
    await sign_up(by, db, email, "Anna", PASSWORD, peer=new_peer())
    assert not await is_verified(db, email)
    assert (await link_to(db, service, mailbox, email)).startswith("/portal/account/verify/")


@pytest.mark.parametrize("by_email", [True, False])
@pytest.mark.parametrize("kind", ["account", "team"])
async def test_an_account_of_an_emailed_invitation_has_a_verified_address(
    service: Application, db: Database, mailbox: MailboxServer, kind: str, by_email: bool
) -> None:
    by, email = as_operator(db, service.settings), new_email()
    user = await create_user(service, db)
    if kind == "account":
        made = await invite(by, email, by_email=by_email)
    else:
        team = await find_team(db, store=(await install_app(user, db)).handle)
        made = await invite_to_team(by, team, email, "viewer", by_email=by_email)
    token = (made.address or await link_to(db, service, mailbox, email)).rpartition("/")[2]
    if kind == "account":
        await accept_link(by, "invitation", token, email="", name="Anna", password=PASSWORD)
    else:
        await join_with_new_account(by, token, "Anna", PASSWORD)
    assert await is_verified(db, email) is by_email
    await user.client.aclose()


@pytest.mark.parametrize("by_email", [True, False])
async def test_a_new_password_by_an_emailed_link_verifies_the_address(
    service: Application, db: Database, mailbox: MailboxServer, by_email: bool
) -> None:
    by, user = as_operator(db, service.settings), await create_user(service, db)
    if by_email:
        await request_reset(by, db, user.email, peer=new_peer())
        await answer_reset_requests(by)
        address = await link_to(db, service, mailbox, user.email)
    else:
        address = (await create_reset_link(by, user.email)).address
    await reset_password(by, address.rpartition("/")[2], "another sentence with words")
    assert await is_verified(db, user.email) is by_email
    await user.client.aclose()
