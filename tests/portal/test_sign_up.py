"""Sign-up in its three modes, first set-up, invitations and password resets."""

import re
from collections.abc import AsyncIterator

import msgspec
import pytest

from stoa.access import audit
from stoa.access.operator import Operator
from stoa.accounts.registration import create_reset_link, create_setup_link, invite, list_accounts, setup_message
from stoa.app import Application
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.support.people import PASSWORD, User, Visitor, as_operator, browser, new_email, signed_in_browser


@pytest.fixture
async def open_visitor(settings: Settings) -> AsyncIterator[Visitor]:
    """A guest of a service in which anyone can sign up."""
    application = Application(msgspec.structs.replace(settings, sign_up="open"))
    async with browser(application) as client:
        yield Visitor(client)
    await application.close()


def path_of(address: str) -> str:
    return address[address.index("/portal") :]


async def test_anyone_can_sign_up_in_open_mode(open_visitor: Visitor) -> None:
    await open_visitor.open("/portal/sign-up")
    await open_visitor.submit("/portal/sign-up", name="Zoë", email=new_email(), password=PASSWORD)
    assert open_visitor.path == "/portal"
    assert open_visitor.notice == "Welcome, Zoë."


async def test_a_new_person_continues_to_the_install_link_that_led_to_the_sign_up(open_visitor: Visitor) -> None:
    link = "/portal/install/nobody?scope=products:read&return_to=https://app.example/done&state=a%2Fb"
    await open_visitor.open(link)
    assert open_visitor.path == "/portal/sign-in"
    await open_visitor.open(re.findall(r'href="(/portal/sign-up[^"]*)"', open_visitor.text)[0])
    for password in ("short", PASSWORD):
        target = re.findall(r'name="next" value="([^"]*)"', open_visitor.text)[0]
        await open_visitor.submit("/portal/sign-up", name="Zoë", email=new_email(), password=password, next=target)
    assert str(open_visitor.response.url).endswith(link)


async def test_a_sign_up_leads_to_no_page_outside_the_portal(open_visitor: Visitor) -> None:
    elsewhere = "https://elsewhere.example/portal"
    await open_visitor.open(f"/portal/sign-up?next={elsewhere}")
    assert elsewhere not in open_visitor.text
    await open_visitor.submit("/portal/sign-up", name="Zoë", email=new_email(), password=PASSWORD, next=elsewhere)
    assert open_visitor.path == "/portal"


async def test_every_fault_of_a_sign_up_is_shown_beside_its_field(open_visitor: Visitor) -> None:
    await open_visitor.open("/portal/sign-up")
    await open_visitor.submit("/portal/sign-up", name="", email="x", password="short")
    assert open_visitor.response.status_code == 422
    assert set(open_visitor.faults) == {"name", "email", "password"}
    assert "short" not in open_visitor.text.replace("A short sentence", "")


async def test_an_email_address_has_one_account(open_visitor: Visitor, maria: User) -> None:
    await open_visitor.open("/portal/sign-up")
    await open_visitor.submit("/portal/sign-up", name="M", email=maria.email.upper(), password=PASSWORD)
    assert "already" in open_visitor.faults["email"]


async def test_a_name_that_could_pass_for_another_is_refused(open_visitor: Visitor) -> None:
    await open_visitor.open("/portal/sign-up")
    await open_visitor.submit("/portal/sign-up", name="M\u0430ria", email=new_email(), password=PASSWORD)
    fault = 'The name mixes Cyrillic and Latin letters in "M\u0430ria"; write each word in one alphabet.'
    assert open_visitor.faults == {"name": fault}


async def test_sign_ups_are_limited_by_ip_address(open_visitor: Visitor) -> None:
    statuses: list[int] = []
    for _ in range(11):
        open_visitor.client.cookies.clear()
        await open_visitor.open("/portal/sign-up")
        await open_visitor.submit("/portal/sign-up", name="Many", email=new_email(), password=PASSWORD)
        statuses.append(open_visitor.response.status_code)
    assert statuses == [200] * 10 + [429]


async def test_enumerating_accounts_by_sign_up_is_rate_limited(settings: Settings, maria: User) -> None:
    application = Application(msgspec.structs.replace(settings, sign_up="open"))
    async with browser(application) as client:
        visitor = Visitor(client)
        for _ in range(10):
            await visitor.open("/portal/sign-up")
            await visitor.submit("/portal/sign-up", name="X", email=maria.email, password=PASSWORD)
            assert "email" in visitor.faults
        await visitor.submit("/portal/sign-up", name="X", email=new_email(), password=PASSWORD)
        assert visitor.response.status_code == 429
    await application.close()


@pytest.mark.parametrize("mode", ["invite", "closed"])
async def test_nobody_can_sign_up_in_other_modes(settings: Settings, mode: str) -> None:
    application = Application(msgspec.structs.replace(settings, sign_up=mode))
    async with browser(application) as client:
        visitor = Visitor(client)
        await visitor.open("/portal/sign-up")
        assert "Invitation required" in visitor.text
        email = new_email()
        await visitor.submit("/portal/sign-up", name="X", email=email, password=PASSWORD)
        assert visitor.response.status_code == 403
        by = as_operator(application.database, settings)
        assert email not in {account.email for account in await list_accounts(by)}
    await application.close()


# --- links --------------------------------------------------------------------------------------------------


async def test_an_invitation_creates_one_account_for_the_invited_email(visitor: Visitor, operator: Operator) -> None:
    email = new_email()
    path = path_of((await invite(operator, email)).address)
    await visitor.open(path)
    assert email in visitor.text
    await visitor.submit(path, name="Invited", password=PASSWORD, email="other@example.com")
    assert visitor.path == "/portal"
    accounts = {account.email: account for account in await list_accounts(operator)}
    assert accounts[email].operator is False
    assert "other@example.com" not in accounts
    await visitor.open(path)
    assert visitor.response.status_code == 404


async def test_invitations_do_not_work_in_closed_mode(settings: Settings, operator: Operator) -> None:
    path = path_of((await invite(operator, new_email())).address)
    application = Application(msgspec.structs.replace(settings, sign_up="closed"))
    async with browser(application) as client:
        assert (await client.get(path)).status_code == 404
    await application.close()


async def test_a_link_is_stored_as_a_hash_and_expires(operator: Operator, db: Database, visitor: Visitor) -> None:
    link = await invite(operator, new_email())
    token = link.address.rpartition("/")[2]
    rows = await db.fetch("SELECT token_hash FROM account_links WHERE email = $1", link.email)
    assert len(rows) == 1
    assert token.encode() not in rows[0][0]
    await db.execute("UPDATE account_links SET expires_at = now() WHERE email = $1", link.email)
    await visitor.open(path_of(link.address))
    assert visitor.response.status_code == 404


async def test_a_password_reset_ends_all_sessions(
    visitor: Visitor, maria: User, operator: Operator, application: Application, db: Database
) -> None:
    path = path_of((await create_reset_link(operator, maria.email)).address)
    await visitor.open(path)
    await visitor.submit(path, password="too short")
    assert "password" in visitor.faults
    await visitor.submit(path, password="a new walk in the porch")
    assert visitor.path == "/portal/sign-in"
    await maria.open("/portal/account")
    assert maria.path == "/portal/sign-in"
    await visitor.submit("/portal/sign-in", email=maria.email, password="a new walk in the porch")
    assert visitor.path == "/portal"
    await visitor.open(path)
    assert visitor.response.status_code == 404
    again = await signed_in_browser(application, db, maria.account)
    await again.open("/portal/account")
    assert again.path == "/portal/account"


async def test_a_link_works_only_for_its_purpose(visitor: Visitor, maria: User, operator: Operator) -> None:
    token = (await create_reset_link(operator, maria.email)).address.rpartition("/")[2]
    for purpose in ("set-up", "invitation"):
        await visitor.open(f"/portal/{purpose}/{token}")
        assert visitor.response.status_code == 404


async def new_setup_path(by: Operator) -> str:
    link = await create_setup_link(by)
    assert link is not None
    return path_of(link.address)


async def test_a_start_without_accounts_says_how_to_create_one_and_logs_no_link(without_accounts: Settings) -> None:
    message = await setup_message(without_accounts)
    assert "`stoa account set-up`" in message
    assert "/portal" not in message
    application = Application(without_accounts)
    [[links]] = await application.database.fetch("SELECT count(*) FROM account_links")
    await application.close()
    assert links == 0


async def test_a_setup_link_creates_the_first_account(without_accounts: Settings) -> None:
    application = Application(without_accounts)
    by = as_operator(application.database, without_accounts)
    old_path, path = await new_setup_path(by), await new_setup_path(by)
    async with browser(application) as client:
        visitor = Visitor(client)
        await visitor.open(old_path)
        assert visitor.response.status_code == 404, "a new link ends the one before"
        await visitor.open(path)
        await visitor.submit(path, name="First", email="first@example.com", password=PASSWORD)
        assert visitor.path == "/portal"
        [account] = await list_accounts(by)
        assert account.operator
        await visitor.open(path)
        assert visitor.response.status_code == 404
        assert await setup_message(without_accounts) == ""
        assert await create_setup_link(by) is None
        actions = [entry.action for entry in await audit.newest(application.database, audit.SERVICE, 10)]
        assert actions == ["account.created"]
    await application.close()
