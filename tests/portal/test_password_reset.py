"""Self-service password reset: from the sign-in page through a real email to a new password."""

import asyncio

import pyotp
import pytest

from stoa.access import audit
from stoa.access.authentication import MOST_AT_ONE_ADDRESS
from stoa.accounts import two_factor
from stoa.accounts.queries import GET_ACCOUNT
from stoa.accounts.registration import create_reset_link, disable_account, enable_account
from stoa.accounts.reset_requests import answer_reset_requests, send_reset
from stoa.app import Application
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.portal.mail_service import run_courier
from tests.support.people import PASSWORD, User, Visitor, as_operator, browser, create_user, new_email
from tests.support.races import until_it_waits
from tests.support.smtp import MailboxServer

NEW_PASSWORD = "another stroll through the stoa"
SAME = "If this address has an account, we have sent it an email with a link. The link works once, for one hour."


async def ask(service: Application, email: str, *, peer: str = "") -> Visitor:
    visitor = Visitor(browser(service, peer=peer))
    await visitor.open("/portal/sign-in")
    assert 'href="/portal/forgot-password"' in visitor.text
    await visitor.open("/portal/forgot-password")
    await visitor.submit("/portal/forgot-password", email=email)
    return visitor


async def deliver(db: Database, service: Application, email: str, mailbox: MailboxServer, count: int) -> None:
    """Do what the delivery process does until the address has got so many mails."""
    await answer_reset_requests(as_operator(db, service.settings))

    async def received() -> bool:
        return len(mailbox.to(email)) >= count

    await run_courier(db, service.settings, received, f"{count} mails")


async def test_a_forgotten_password_is_reset_by_email(
    service: Application, db: Database, mailbox: MailboxServer
) -> None:
    user = await create_user(service, db)
    visitor = await ask(service, f" {user.email.upper()} ")
    assert visitor.notice == SAME
    await deliver(db, service, user.email, mailbox, 1)
    mail = mailbox.to(user.email)[0]
    assert mail.message["Subject"] == "Reset your password"
    assert mail.link.startswith("http://testserver/portal/new-password/")
    link = mail.link.removeprefix("http://testserver")
    await visitor.open(link)
    await visitor.submit(link, password="short")
    assert "password" in visitor.faults
    await visitor.submit(link, password=NEW_PASSWORD)
    assert visitor.notice == "Your password is changed. Sign in with the new one."
    await user.open("/portal/account")
    assert user.path == "/portal/sign-in", "all sessions end"
    await visitor.open(link)
    assert visitor.response.status_code == 404, "the link works once"
    for password, path in ((PASSWORD, "/portal/sign-in"), (NEW_PASSWORD, "/portal")):
        await visitor.open("/portal/sign-in")
        await visitor.submit("/portal/sign-in", email=user.email, password=password)
        assert visitor.path == path
    await deliver(db, service, user.email, mailbox, 2)
    subjects = [str(each.message["Subject"]) for each in mailbox.to(user.email)]
    assert subjects[:2] == ["Reset your password", "Your password was changed"]
    rows = await db.fetch("SELECT m::text FROM mails m WHERE account_id = $1", user.account.id)
    assert link.rpartition("/")[2] not in str(rows)
    await user.client.aclose()
    await visitor.client.aclose()


async def test_every_address_gets_the_same_answer_and_only_an_active_account_gets_one_mail(
    service: Application, db: Database, settings: Settings
) -> None:
    known, disabled = await create_user(service, db), await create_user(service, db)
    await disable_account(as_operator(db, settings), disabled.email)
    pages: set[tuple[str, str]] = set()
    for email in (known.email, disabled.email, new_email(), known.email):
        visitor = await ask(service, email)
        pages.add((visitor.path, visitor.notice))
        await visitor.client.aclose()
    assert pages == {("/portal/sign-in", SAME)}
    for _ in range(2):
        await answer_reset_requests(as_operator(db, settings))
    await ask(service, known.email)
    await answer_reset_requests(as_operator(db, settings))
    accounts = [known.account.id, disabled.account.id]
    rows = await db.fetch(
        "SELECT account_id FROM mails WHERE kind = 'password_reset' AND account_id = ANY ($1)", accounts
    )
    assert [row[0] for row in rows] == [known.account.id]
    assert await db.fetch("SELECT FROM reset_requests") == []
    links = "SELECT expires_at - now() BETWEEN interval '59 minutes' AND interval '1 hour' FROM account_links WHERE email = $1"
    assert [row[0] for row in await db.fetch(links, known.email)] == [True]
    for user in (known, disabled):
        await user.client.aclose()


@pytest.mark.parametrize("email", ["", "nobody", "a@b@c", "x\r\ny@example.com", "a" * 300 + "@example.com"])
async def test_what_is_no_address_is_refused(service: Application, email: str) -> None:
    visitor = await ask(service, email)
    assert set(visitor.faults) == {"email"}
    await visitor.client.aclose()


async def test_requests_are_limited(service: Application, maria: User, db: Database) -> None:
    for _ in range(MOST_AT_ONE_ADDRESS):
        visitor = await ask(service, maria.email, peer="10.251.251.251")
        await visitor.client.aclose()
    visitor = await ask(service, maria.email, peer="10.251.251.251")
    assert visitor.response.status_code == 429
    await visitor.client.aclose()
    await db.execute("DELETE FROM reset_requests")


async def test_without_a_mail_server_the_pages_say_whom_to_ask(visitor: Visitor, db: Database) -> None:
    await visitor.open("/portal/sign-in")
    assert "Ask an operator of this service for a reset link" in visitor.text
    await visitor.open("/portal/forgot-password")
    assert "Ask an operator of this service for a reset link" in visitor.text
    await visitor.submit("/portal/forgot-password", email="maria@example.com")
    assert visitor.response.status_code == 403
    assert await db.fetch("SELECT FROM reset_requests WHERE email = 'maria@example.com'") == []


async def test_an_operator_sends_a_reset_by_email_and_never_sees_its_link(
    service: Application, db: Database, mailbox: MailboxServer
) -> None:
    operator, user = await create_user(service, db, operator=True), await create_user(service, db)
    page = f"/portal/operators/accounts/{user.account.id}"
    await operator.open(page)
    await operator.submit(f"{page}/reset-password")
    assert operator.notice == f"We have sent a link to {user.email} by email. It works once, for one hour."
    assert "new-password" not in operator.text
    await operator.submit(f"{page}/reset-password")
    assert operator.tone == "warn", "a second email would end the link of the first"
    await deliver(db, service, user.email, mailbox, 1)
    [mail] = mailbox.to(user.email)
    assert "An operator of this service sends you a link" in mail.text
    link = mail.link.removeprefix("http://testserver")
    visitor = Visitor(browser(service))
    await visitor.open(link)
    await visitor.submit(link, password=NEW_PASSWORD)
    assert visitor.notice == "Your password is changed. Sign in with the new one."
    for each in (operator, user):
        await each.client.aclose()


# --- by an operator --------------------------------------------------------------------------------------------------


async def _with_two_factor(service: Application, db: Database) -> tuple[User, str]:
    user = await create_user(service, db)
    secret = two_factor.new_secret()
    await two_factor.turn_on(as_operator(db, service.settings), user.account.id, secret, pyotp.TOTP(secret).now())
    return user, f"/portal/operators/accounts/{user.account.id}"


async def test_a_second_factor_is_reset_by_an_email_that_the_operator_never_sees(
    service: Application, db: Database, mailbox: MailboxServer
) -> None:
    operator = await create_user(service, db, operator=True)
    user, page = await _with_two_factor(service, db)
    await operator.open(page)
    await operator.submit(f"{page}/reset-two-factor")
    assert set(operator.faults) == {"confirmed"}, "one click resets nothing"
    await operator.submit(f"{page}/reset-two-factor", confirmed="on")
    assert operator.notice == f"We have sent a link to {user.email} by email. It works once, for one hour."
    assert "new-password" not in operator.text
    await operator.submit(f"{page}/reset-two-factor", confirmed="on")
    assert operator.notice == "A link was sent in the last five minutes, and still works."
    entry = (await audit.newest(db, audit.SERVICE, 1))[0]
    assert (entry.action, entry.subject) == ("account.reset_offered", f"account:{user.account.id}")
    assert (entry.actor, entry.detail) == (f"account:{operator.account.id}", '{"two_factor_off":true}')
    await deliver(db, service, user.email, mailbox, 1)
    [mail] = mailbox.to(user.email)
    assert mail.message["Subject"] == "Reset your second factor"
    link = mail.link.removeprefix("http://testserver")
    assert (await GET_ACCOUNT.one(db, user.account.id)).two_factor, "nothing changes until the link is used"
    visitor = Visitor(browser(service))
    await visitor.open(link)
    assert "two-factor authentication is turned off" in visitor.text
    await visitor.submit(link, password=NEW_PASSWORD)
    assert not (await GET_ACCOUNT.one(db, user.account.id)).two_factor
    assert [each.action for each in await audit.newest(db, audit.SERVICE, 2)] == [
        "account.password_changed",
        "account.two_factor_off",
    ]
    assert await db.fetch("SELECT FROM account_recovery_codes WHERE account_id = $1", user.account.id) == []
    await visitor.open("/portal/sign-in")
    await visitor.submit("/portal/sign-in", email=user.email, password=NEW_PASSWORD)
    assert visitor.path == "/portal", "without a code"
    rows = await db.fetch("SELECT m::text FROM mails m WHERE account_id = $1", user.account.id)
    assert link.rpartition("/")[2] not in str(rows)
    for browsing in (operator, user, visitor):
        await browsing.client.aclose()


async def test_a_password_reset_keeps_the_second_factor(
    service: Application, db: Database, mailbox: MailboxServer
) -> None:
    operator = await create_user(service, db, operator=True)
    user, page = await _with_two_factor(service, db)
    await operator.open(page)
    await operator.submit(f"{page}/reset-password")
    await deliver(db, service, user.email, mailbox, 1)
    link = mailbox.to(user.email)[0].link.removeprefix("http://testserver")
    visitor = Visitor(browser(service))
    await visitor.open(link)
    await visitor.submit(link, password=NEW_PASSWORD)
    await visitor.submit("/portal/sign-in", email=user.email, password=NEW_PASSWORD)
    assert visitor.path == "/portal/two-factor"
    for browsing in (operator, user, visitor):
        await browsing.client.aclose()


async def test_a_request_of_a_visitor_does_not_end_a_link_of_an_operator(
    service: Application, db: Database, mailbox: MailboxServer
) -> None:
    operator = await create_user(service, db, operator=True)
    user, page = await _with_two_factor(service, db)
    await operator.open(page)
    await operator.submit(f"{page}/reset-two-factor", confirmed="on")
    await deliver(db, service, user.email, mailbox, 1)
    stranger = await ask(service, user.email)
    await deliver(db, service, user.email, mailbox, 2)
    [by_operator, by_stranger] = [mail.link.removeprefix("http://testserver") for mail in mailbox.to(user.email)]
    await operator.open(page)
    await operator.submit(f"{page}/reset-two-factor", confirmed="on")
    assert operator.notice == "A link was sent in the last five minutes, and still works."
    visitor = Visitor(browser(service))
    await visitor.open(by_operator)
    await visitor.submit(by_operator, password=NEW_PASSWORD)
    assert not (await GET_ACCOUNT.one(db, user.account.id)).two_factor
    await visitor.open(by_stranger)
    assert visitor.response.status_code == 404, "a changed password ends all links"
    for browsing in (operator, user, visitor, stranger):
        await browsing.client.aclose()


async def test_a_request_of_a_visitor_ends_only_the_link_of_an_earlier_request(
    service: Application, db: Database, mailbox: MailboxServer
) -> None:
    user = await create_user(service, db)
    by = as_operator(db, service.settings)
    printed = await create_reset_link(by, user.email)
    for count in (1, 2):
        visitor = await ask(service, user.email)
        await deliver(db, service, user.email, mailbox, count)
        await db.execute(
            "UPDATE mails SET created_at = now() - interval '6 minutes' WHERE account_id = $1", user.account.id
        )
        await visitor.client.aclose()
    links = [printed.address, *(mail.link for mail in mailbox.to(user.email))]
    visitor = Visitor(browser(service))
    statuses = [(await visitor.open(link[link.index("/portal") :])).status_code for link in links]
    assert statuses == [200, 404, 200]
    for browsing in (user, visitor):
        await browsing.client.aclose()


async def test_a_second_factor_is_reset_only_where_it_makes_sense(
    service: Application, application: Application, db: Database
) -> None:
    operator = await create_user(service, db, operator=True)
    user, page = await _with_two_factor(service, db)
    off = await create_user(service, db)
    await operator.open(page)
    for account_id, expected in (
        (off.account.id, "two-factor authentication is off"),
        (operator.account.id, "your own"),
    ):
        url = f"/portal/operators/accounts/{account_id}/reset-two-factor"
        await operator.submit(url, confirmed="on")
        assert expected in operator.response.text
        assert operator.response.status_code == 422
        await operator.open(page)
    await disable_account(as_operator(db, service.settings), user.email)
    await operator.submit(f"{page}/reset-two-factor", confirmed="on")
    assert operator.response.status_code == 422
    silent = await create_user(application, db, operator=True)
    await enable_account(as_operator(db, service.settings), user.email)
    await silent.open(page)
    assert "--two-factor" in silent.text
    await silent.submit(f"{page}/reset-two-factor", confirmed="on")
    assert silent.response.status_code == 422, "without email, no link is shown either"
    assert await db.fetch("SELECT FROM account_links WHERE account_id = $1", user.account.id) == []
    for browsing in (operator, user, off, silent):
        await browsing.client.aclose()


async def test_a_disabled_person_gets_the_reason_by_email(
    service: Application, db: Database, mailbox: MailboxServer
) -> None:
    operator, user = await create_user(service, db, operator=True), await create_user(service, db)
    page = f"/portal/operators/accounts/{user.account.id}"
    await operator.open(page)
    await operator.submit(f"{page}/disable", reason="Left the <company>.", confirmed="on")
    assert "Disabled because: “Left the <company>.”" in operator.text
    await operator.submit(f"{page}/enable")
    assert "Disabled because" not in operator.text
    await deliver(db, service, user.email, mailbox, 2)
    disabled, enabled = mailbox.to(user.email)
    assert disabled.message["Subject"] == "Your account is disabled"
    assert "The reason: Left the <company>." in disabled.text
    assert enabled.message["Subject"] == "Your account is enabled again"
    for browsing in (operator, user):
        await browsing.client.aclose()


async def test_a_request_and_an_operator_at_the_same_time_send_one_link(service: Application, db: Database) -> None:
    user = await create_user(service, db)
    by = as_operator(db, service.settings)
    await ask(service, user.email)
    async with by.transaction() as first:
        await send_reset(first, user.account)
        second = asyncio.create_task(answer_reset_requests(by))
        await until_it_waits(second, db)
    await second
    mails = "SELECT count(*) FROM mails WHERE account_id = $1 AND kind = 'password_reset'"
    assert (await db.fetch(mails, user.account.id))[0][0] == 1
    await user.client.aclose()
