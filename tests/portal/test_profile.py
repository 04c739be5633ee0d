"""The account page: name, password and sessions."""

import asyncio

import pyotp
import pytest

from stoa.access.operator import Operator
from stoa.accounts import two_factor
from stoa.accounts.queries import GET_ACCOUNT, LOCK_ACCOUNT
from stoa.accounts.registration import create_reset_link, reset_password
from stoa.accounts.sessions import list_sessions, sign_in
from stoa.app import Application
from stoa.db.pool import Database
from tests.portal.test_two_factor import read_page
from tests.support.people import PASSWORD, User, Visitor, browser, new_peer, signed_in_browser
from tests.support.races import until_somebody_waits

NEW_PASSWORD = "another walk in the porch"


async def test_the_name_is_changed_and_escaped(maria: User) -> None:
    await maria.open("/portal/account")
    await maria.submit("/portal/account/name", name='<b onclick="x">Zoë</b>')
    assert maria.notice == "Name saved."
    assert "<b onclick" not in maria.response.text
    assert "Zoë" in maria.text


async def test_sessions_are_listed_and_ended(maria: User, application: Application, db: Database) -> None:
    phone = await signed_in_browser(application, db, maria.account)
    tablet = await signed_in_browser(application, db, maria.account)
    await maria.open("/portal/account")
    assert maria.text.count('/end"') >= 3
    await maria.submit(f"/portal/account/sessions/{phone.session_id}/end")
    assert maria.notice == "Session ended."
    await phone.open("/portal/account")
    assert phone.path == "/portal/sign-in"
    await tablet.open("/portal/account")
    assert tablet.path == "/portal/account"
    await maria.submit("/portal/account/sessions/end")
    await tablet.open("/portal/account")
    assert tablet.path == "/portal/sign-in"
    await maria.submit(f"/portal/account/sessions/{maria.session_id}/end")
    assert maria.path == "/portal/sign-in"


async def test_a_password_change_ends_all_other_sessions(maria: User, application: Application, db: Database) -> None:
    phone = await signed_in_browser(application, db, maria.account)
    await maria.open("/portal/account")
    await maria.submit("/portal/account/password", current="not this one", password=NEW_PASSWORD)
    assert maria.faults == {"current": "This is not your current password."}
    await maria.submit("/portal/account/password", current=PASSWORD, password=maria.email)
    assert "must not be your email address" in maria.faults["password"]
    await maria.submit("/portal/account/password", current=PASSWORD, password="short")
    assert "at least 12" in maria.faults["password"]
    await maria.submit("/portal/account/password", current=PASSWORD, password=NEW_PASSWORD)
    assert "changed" in maria.notice
    await phone.open("/portal/account")
    assert phone.path == "/portal/sign-in"
    await maria.open("/portal/account")
    assert maria.path == "/portal/account"


async def test_a_stolen_cookie_is_invalid_after_a_password_change(maria: User, application: Application) -> None:
    stolen = maria.client.cookies["stoa_session"]
    await maria.open("/portal/account")
    await maria.submit("/portal/account/password", current=PASSWORD, password=NEW_PASSWORD)
    assert "changed" in maria.notice
    assert maria.path == "/portal/account", "the user continues in a new session"
    async with browser(application) as thief:
        thief.cookies.set("stoa_session", stolen, domain="testserver.local")
        assert (await thief.get("/portal/account")).status_code == 303


async def test_a_password_change_invalidates_reset_links(maria: User, visitor: Visitor, operator: Operator) -> None:
    link = await create_reset_link(operator, maria.email)
    await maria.open("/portal/account")
    await maria.submit("/portal/account/password", current=PASSWORD, password=NEW_PASSWORD)
    await visitor.open(link.address[link.address.index("/portal") :])
    assert visitor.response.status_code == 404


@pytest.mark.parametrize("change", ["password", "two-factor", "two-factor/off"])
async def test_what_the_old_password_confirmed_is_refused_after_a_reset(
    maria: User, operator: Operator, db: Database, change: str
) -> None:
    """Somebody with her password and a session changes something while Maria resets the password."""
    page, fields = "/portal/account", {"password": PASSWORD}
    if change == "password":
        fields = {"current": PASSWORD, "password": "a thief in the painted porch"}
    elif change == "two-factor":
        page = "/portal/account/two-factor"
    else:
        secret = two_factor.new_secret()
        await two_factor.turn_on(operator, maria.account.id, secret, pyotp.TOTP(secret).now())
        maria = await signed_in_browser(maria.application, db, maria.account)
    await maria.open(page)
    if change == "two-factor":
        secret, sealed = read_page(maria)
        fields |= {"sealed": sealed, "code": pyotp.TOTP(secret).now()}
    link = await create_reset_link(operator, maria.email)
    async with operator.transaction() as joined:
        await LOCK_ACCOUNT.one(joined.db, maria.account.id)
        thief = asyncio.create_task(maria.submit(f"/portal/account/{change}", fields))
        await until_somebody_waits(db)
        await reset_password(joined, link.address.rpartition("/")[2], NEW_PASSWORD)
    await thief
    assert maria.faults == {"current" if change == "password" else "password": "This is not your current password."}
    assert await list_sessions(operator, maria.account.id) == [], "all sessions have ended"
    assert (await GET_ACCOUNT.one(db, maria.account.id)).two_factor is (change == "two-factor/off")
    assert (await sign_in(operator, db, maria.email, NEW_PASSWORD, peer=new_peer(), agent="")).token
