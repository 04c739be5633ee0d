"""How accounts come to be: the first set-up, sign-up in its three modes, invitations and new passwords."""

import asyncio
import os
from collections.abc import AsyncIterator

import msgspec
import pytest

from stoa.access import audit
from stoa.access.operator import Operator
from stoa.accounts.contract import EmailTaken, InvalidEmail, LinkSpent, WeakPassword
from stoa.accounts.registration import accept, create_account, first_set_up, invite, list_accounts, reset, say_set_up
from stoa.accounts.rules import check_password, normal_email
from stoa.app import Application
from stoa.db.migrate import migrate
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.portal.people import PASSWORD, Somebody, Visitor, as_operator, browser, new_email, signed_in
from tests.support.service import new_database


@pytest.fixture
async def open_visitor(settings: Settings) -> AsyncIterator[Visitor]:
    """A visitor of a service where anybody may sign up."""
    application = Application(msgspec.structs.replace(settings, sign_up="open"))
    async with browser(application) as client:
        yield Visitor(client)
    await application.close()


@pytest.fixture
async def fresh(settings: Settings, worker_id: str) -> Settings:
    """A service in which nobody has an account yet."""
    url = await new_database(f"set_up_{worker_id}_{os.getpid()}")
    await migrate(url)
    return msgspec.structs.replace(settings, database_url=url)


def path_of(address: str) -> str:
    return address[address.index("/portal") :]


async def test_anybody_signs_up_where_it_is_open(open_visitor: Visitor) -> None:
    await open_visitor.open("/portal/sign-up")
    await open_visitor.send("/portal/sign-up", name="Zoë", email=new_email(), password=PASSWORD)
    assert open_visitor.path == "/portal"
    assert open_visitor.notice == "Welcome, Zoë."


async def test_every_fault_of_a_sign_up_stands_beside_its_field(open_visitor: Visitor) -> None:
    await open_visitor.open("/portal/sign-up")
    await open_visitor.send("/portal/sign-up", name="", email="x", password="short")
    assert open_visitor.seen.status_code == 422
    assert set(open_visitor.faults) == {"name", "email", "password"}
    assert "short" not in open_visitor.text.replace("A short sentence", "")


async def test_an_address_has_one_account(open_visitor: Visitor, maria: Somebody) -> None:
    await open_visitor.open("/portal/sign-up")
    await open_visitor.send("/portal/sign-up", name="M", email=maria.email.upper(), password=PASSWORD)
    assert "already" in open_visitor.faults["email"]


async def test_one_address_makes_only_so_many_accounts(open_visitor: Visitor) -> None:
    statuses: list[int] = []
    for _ in range(11):
        open_visitor.client.cookies.clear()
        await open_visitor.open("/portal/sign-up")
        await open_visitor.send("/portal/sign-up", name="Many", email=new_email(), password=PASSWORD)
        statuses.append(open_visitor.seen.status_code)
    assert statuses == [200] * 10 + [429]


@pytest.mark.parametrize("mode", ["invite", "closed"])
async def test_nobody_signs_up_where_it_is_not_open(settings: Settings, mode: str) -> None:
    application = Application(msgspec.structs.replace(settings, sign_up=mode))
    async with browser(application) as client:
        visitor = Visitor(client)
        await visitor.open("/portal/sign-up")
        assert "By invitation" in visitor.text
        email = new_email()
        await visitor.send("/portal/sign-up", name="X", email=email, password=PASSWORD)
        assert visitor.seen.status_code == 403
        by = as_operator(application.database, settings)
        assert email not in {account.email for account in await list_accounts(by)}
    await application.close()


async def test_an_invitation_makes_one_account_for_the_one_invited(visitor: Visitor, operator: Operator) -> None:
    email = new_email()
    path = path_of((await invite(operator, email)).address)
    await visitor.open(path)
    assert email in visitor.text
    await visitor.send(path, name="Invited", password=PASSWORD, email="somebody.else@example.com")
    assert visitor.path == "/portal"
    accounts = {account.email: account for account in await list_accounts(operator)}
    assert accounts[email].operator is False
    assert "somebody.else@example.com" not in accounts
    await visitor.open(path)
    assert visitor.seen.status_code == 404


async def test_a_second_invitation_ends_the_first(operator: Operator) -> None:
    email = new_email()
    first, second = await invite(operator, email), await invite(operator, email)
    with pytest.raises(LinkSpent):
        await accept(operator, "invitation", first.address.rpartition("/")[2], email="", name="X", password=PASSWORD)
    await accept(operator, "invitation", second.address.rpartition("/")[2], email="", name="X", password=PASSWORD)
    with pytest.raises(EmailTaken):
        await invite(operator, email)


async def test_invitations_rest_while_accounts_are_closed(settings: Settings, operator: Operator) -> None:
    path = path_of((await invite(operator, new_email())).address)
    application = Application(msgspec.structs.replace(settings, sign_up="closed"))
    async with browser(application) as client:
        assert (await client.get(path)).status_code == 404
    await application.close()


async def test_of_many_who_use_an_address_at_once_one_succeeds(operator: Operator) -> None:
    token = (await invite(operator, new_email())).address.rpartition("/")[2]
    tries = [accept(operator, "invitation", token, email="", name="X", password=PASSWORD) for _ in range(6)]
    ends = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(isinstance(end, LinkSpent | EmailTaken) for end in ends) == 5


async def test_a_link_is_kept_only_as_its_hash_and_ends(operator: Operator, db: Database, visitor: Visitor) -> None:
    made = await invite(operator, new_email())
    token = made.address.rpartition("/")[2]
    rows = await db.fetch("SELECT token_hash FROM account_links WHERE email = $1", made.email)
    assert len(rows) == 1
    assert token.encode() not in rows[0][0]
    await db.execute("UPDATE account_links SET expires_at = now() WHERE email = $1", made.email)
    await visitor.open(path_of(made.address))
    assert visitor.seen.status_code == 404


async def test_a_new_password_by_address_ends_all_sessions(
    visitor: Visitor, maria: Somebody, operator: Operator, application: Application, db: Database
) -> None:
    path = path_of((await reset(operator, maria.email)).address)
    await visitor.open(path)
    await visitor.send(path, password="too short")
    assert "password" in visitor.faults
    await visitor.send(path, password="a new walk in the porch")
    assert visitor.path == "/portal/sign-in"
    await maria.open("/portal/account")
    assert maria.path == "/portal/sign-in"
    await visitor.send("/portal/sign-in", email=maria.email, password="a new walk in the porch")
    assert visitor.path == "/portal"
    await visitor.open(path)
    assert visitor.seen.status_code == 404
    again = await signed_in(application, db, maria.account)
    await again.open("/portal/account")
    assert again.path == "/portal/account"


async def test_an_address_for_one_thing_is_none_for_another(
    visitor: Visitor, maria: Somebody, operator: Operator
) -> None:
    token = (await reset(operator, maria.email)).address.rpartition("/")[2]
    for purpose in ("set-up", "invitation"):
        await visitor.open(f"/portal/{purpose}/{token}")
        assert visitor.seen.status_code == 404


async def test_the_first_start_offers_one_set_up(fresh: Settings) -> None:
    application = Application(fresh)
    said = await say_set_up(fresh)
    older = path_of(said.split()[-1])
    path = path_of((await say_set_up(fresh)).split()[-1])
    async with browser(application) as client:
        visitor = Visitor(client)
        await visitor.open(older)
        assert visitor.seen.status_code == 404, "a new start ends the address of the last"
        await visitor.open(path)
        await visitor.send(path, name="First", email="first@example.com", password=PASSWORD)
        assert visitor.path == "/portal"
        by = as_operator(application.database, fresh)
        [account] = await list_accounts(by)
        assert account.operator
        await visitor.open(path)
        assert visitor.seen.status_code == 404
        assert await say_set_up(fresh) == ""
        assert await first_set_up(by) is None
        actions = [entry.action for entry in await audit.newest(application.database, audit.SERVICE, 10)]
        assert actions == ["account.created"]
    await application.close()


async def test_the_set_up_is_over_once_an_account_exists_by_another_way(fresh: Settings) -> None:
    database = Database(fresh.database_url, size=2)
    by = as_operator(database, fresh)
    made = await first_set_up(by)
    assert made is not None
    await create_account(by, "cli@example.com", "By command", PASSWORD)
    token = made.address.rpartition("/")[2]
    with pytest.raises(LinkSpent):
        await accept(by, "set-up", token, email="late@example.com", name="Late", password=PASSWORD)
    await database.close()


@pytest.mark.parametrize("password", ["short", "x" * 257, "maria@example.com", "MARIA@example.com", "a" * 20])
def test_a_password_that_anybody_would_try_is_refused(password: str) -> None:
    with pytest.raises(WeakPassword):
        check_password(password, "maria@example.com")


@pytest.mark.parametrize("password", ["correct horse battery", "🏛" * 6 + "stoastoa", "            a"])
def test_any_other_long_password_will_do(password: str) -> None:
    check_password(password, "maria@example.com")


@pytest.mark.parametrize(
    "email",
    ["", "maria", "maria@", "@example.com", "a b@example.com", "a@b@c", "a@ex..ample", "a\x00b@example.com", "x" * 300],
)
def test_what_is_no_address_is_refused(email: str) -> None:
    with pytest.raises(InvalidEmail):
        normal_email(email)
