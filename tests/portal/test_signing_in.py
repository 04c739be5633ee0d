"""Signing in and out: what is told, what is not, and how long a session lives."""

import msgspec
import pytest

from stoa.accounts.registration import disable_account, enable_account
from stoa.accounts.sessions import IDLE_S
from stoa.app import Application
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.portal.people import FROM_HERE, PASSWORD, Somebody, Visitor, as_operator, browser, new_email, signed_in

WRONG = "The e-mail address or the password is not right."


async def enter(visitor: Visitor, email: str, password: str = PASSWORD) -> None:
    await visitor.open("/portal/sign-in")
    await visitor.send("/portal/sign-in", email=email, password=password)


async def test_the_right_password_lets_in(visitor: Visitor, maria: Somebody) -> None:
    await enter(visitor, f"  {maria.email.upper()} ")
    assert visitor.path == "/portal"
    assert "Good to see you, Maria" in visitor.text


async def test_an_unknown_person_and_a_wrong_password_are_told_the_same(visitor: Visitor, maria: Somebody) -> None:
    for email in (maria.email, new_email(), "no address at all"):
        await enter(visitor, email, "not the password of anybody")
        assert visitor.seen.status_code == 422
        assert visitor.faults == {"": WRONG}
        assert "not the password" not in visitor.text
        assert email in visitor.text


async def test_a_session_is_made_anew_whatever_the_browser_brought(
    visitor: Visitor, application: Application, maria: Somebody
) -> None:
    await visitor.open("/portal/sign-in")
    planted = visitor.client.cookies["stoa_session"]
    await enter(visitor, maria.email)
    assert visitor.client.cookies["stoa_session"] != planted
    async with browser(application) as thief:
        thief.cookies.set("stoa_session", planted, domain="testserver.local")
        answer = await thief.get("/portal/account")
        assert answer.status_code == 303


async def test_after_signing_out_the_old_cookie_is_worthless(visitor: Visitor, maria: Somebody) -> None:
    await enter(visitor, maria.email)
    session = visitor.client.cookies["stoa_session"]
    await visitor.send("/portal/sign-out")
    assert visitor.path == "/portal/sign-in"
    assert visitor.notice == "You are signed out."
    visitor.client.cookies.clear()
    visitor.client.cookies.set("stoa_session", session, domain="testserver.local")
    await visitor.open("/portal/account")
    assert visitor.path == "/portal/sign-in"


@pytest.mark.parametrize("column", ["seen_at", "expires_at"])
async def test_a_session_goes_cold_and_ends(maria: Somebody, db: Database, column: str) -> None:
    past = f"now() - interval '{IDLE_S + 1} seconds'"
    await db.execute(f"UPDATE account_sessions SET {column} = {past} WHERE id = $1", maria.session_id)
    await maria.open("/portal/account")
    assert maria.path == "/portal/sign-in"


async def test_using_a_session_keeps_it_warm(maria: Somebody, db: Database) -> None:
    nearly = f"now() - interval '{IDLE_S - 60} seconds'"
    await db.execute(f"UPDATE account_sessions SET seen_at = {nearly} WHERE id = $1", maria.session_id)
    await maria.open("/portal/account")
    [[fresh]] = await db.fetch(
        "SELECT seen_at > now() - interval '1 minute' FROM account_sessions WHERE id = $1", maria.session_id
    )
    assert fresh


async def test_a_form_of_an_ended_session_says_so(maria: Somebody, db: Database) -> None:
    await maria.open("/portal/account")
    await db.execute("DELETE FROM account_sessions WHERE id = $1", maria.session_id)
    await maria.send("/portal/account/name", name="Somebody Else")
    assert maria.path == "/portal/sign-in"
    assert "Your session has ended" in maria.notice


async def test_guessing_is_slowed_by_account_and_address(
    application: Application, visitor: Visitor, maria: Somebody
) -> None:
    for _ in range(10):
        await enter(visitor, maria.email, "a guess that is not right")
    assert visitor.seen.status_code == 422
    await enter(visitor, maria.email, PASSWORD)
    assert visitor.seen.status_code == 429
    assert int(visitor.seen.headers["retry-after"]) > 0
    assert "Too many failed tries" in visitor.faults[""]
    async with browser(application) as elsewhere:
        other = Visitor(elsewhere)
        await enter(other, maria.email)
        assert other.path == "/portal", "the guesser must not lock the owner out"


async def test_an_address_that_guesses_many_accounts_is_slowed(visitor: Visitor) -> None:
    await visitor.open("/portal/sign-in")
    for number in range(51):
        data = {"_token": visitor.token, "email": f"guess{number}@example.com", "password": "a guess"}
        answer = await visitor.client.post("/portal/sign-in", data=data, headers=FROM_HERE)
    assert answer.status_code == 429  # pyright: ignore[reportPossiblyUnboundVariable]


async def test_a_disabled_account_is_out_at_once_and_told_nothing(
    visitor: Visitor, maria: Somebody, db: Database, settings: Settings
) -> None:
    by = as_operator(db, settings)
    await disable_account(by, maria.email)
    await maria.open("/portal/account")
    assert maria.path == "/portal/sign-in"
    await enter(visitor, maria.email)
    assert visitor.faults == {"": WRONG}
    await enable_account(by, maria.email)
    await enter(visitor, maria.email)
    assert visitor.path == "/portal"


@pytest.mark.parametrize(
    ("asked", "led"),
    [
        ("/portal/apps", "/portal/apps"),
        ("https://evil.example.com/", "/portal"),
        ("//evil.example.com/portal", "/portal"),
        ("/portal\\@evil.example.com", "/portal"),
        ("/portalevil", "/portal"),
        ("/portal/\r\nset-cookie: x", "/portal"),
    ],
)
async def test_after_signing_in_one_stays_in_the_house(visitor: Visitor, maria: Somebody, asked: str, led: str) -> None:
    await visitor.open("/portal/sign-in")
    data = {"_token": visitor.token, "email": maria.email, "password": PASSWORD, "next": asked}
    answer = await visitor.client.post("/portal/sign-in", data=data, headers=FROM_HERE)
    assert answer.status_code in (303, 422)
    if answer.status_code == 303:
        assert answer.headers["location"] == led


async def test_somebody_who_is_signed_in_needs_no_sign_in_page(maria: Somebody) -> None:
    await maria.open("/portal/sign-in")
    assert maria.path == "/portal"


async def test_the_cookie_is_hidden_from_script_and_from_other_sites(visitor: Visitor) -> None:
    answer = await visitor.client.get("/portal/sign-in")
    cookie = answer.headers["set-cookie"].lower()
    assert cookie.startswith("stoa_session=")
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "domain" not in cookie
    assert "max-age" not in cookie


async def test_over_tls_the_cookie_belongs_to_this_host_alone(settings: Settings, maria: Somebody) -> None:
    application = Application(msgspec.structs.replace(settings, public_url="https://portal.example.com"))
    async with browser(application) as client:
        answer = await client.get("/portal/sign-in")
        cookie = answer.headers["set-cookie"]
        assert cookie.startswith("__Host-stoa_session=")
        assert "secure" in cookie.lower()
        assert "Path=/" in cookie
        assert "strict-transport-security" in answer.headers
        plain = await client.get(
            "/portal/account", headers={"cookie": f"stoa_session={maria.client.cookies['stoa_session']}"}
        )
        assert plain.status_code == 303, "a cookie without the prefix may have been planted"
    await application.close()


async def test_who_signs_in_in_the_clear_is_warned(application: Application) -> None:
    async with browser(application) as client:
        assert "not encrypted" not in (await client.get("/portal/sign-in")).text
        exposed = await client.get("/portal/sign-in", headers={"host": "shop.example.com"})
        assert "not encrypted" in exposed.text


async def test_sessions_are_listed_and_ended(maria: Somebody, application: Application, db: Database) -> None:
    phone = await signed_in(application, db, maria.account)
    tablet = await signed_in(application, db, maria.account)
    await maria.open("/portal/account")
    assert maria.text.count('/end"') >= 3
    await maria.send(f"/portal/account/sessions/{phone.session_id}/end")
    assert maria.notice == "That session has ended."
    await phone.open("/portal/account")
    assert phone.path == "/portal/sign-in"
    await tablet.open("/portal/account")
    assert tablet.path == "/portal/account"
    await maria.send("/portal/account/sessions/end")
    await tablet.open("/portal/account")
    assert tablet.path == "/portal/sign-in"
    await maria.send(f"/portal/account/sessions/{maria.session_id}/end")
    assert maria.path == "/portal/sign-in"


async def test_a_new_password_ends_every_other_session(maria: Somebody, application: Application, db: Database) -> None:
    phone = await signed_in(application, db, maria.account)
    await maria.open("/portal/account")
    await maria.send("/portal/account/password", current="not this one", password="another walk in the porch")
    assert maria.faults == {"current": "This is not your current password."}
    await maria.send("/portal/account/password", current=PASSWORD, password=maria.email)
    assert "must not be your e-mail address" in maria.faults["password"]
    await maria.send("/portal/account/password", current=PASSWORD, password="short")
    assert "at least 12" in maria.faults["password"]
    await maria.send("/portal/account/password", current=PASSWORD, password="another walk in the porch")
    assert "changed" in maria.notice
    await phone.open("/portal/account")
    assert phone.path == "/portal/sign-in"
    await maria.open("/portal/account")
    assert maria.path == "/portal/account"


async def test_a_name_is_changed_and_shown_harmlessly(maria: Somebody) -> None:
    await maria.open("/portal/account")
    await maria.send("/portal/account/name", name='<b onclick="x">Zoë</b>')
    assert maria.notice == "Your name is changed."
    assert "<b onclick" not in maria.seen.text
    assert "Zoë" in maria.text
