"""Sign-in and sign-out: error messages, cookies, rate limits, and session lifetime."""

import asyncio
from datetime import datetime

import msgspec
import pytest

from stoa.accounts.registration import disable_account, enable_account
from stoa.accounts.sessions import IDLE_TIMEOUT_S
from stoa.app import Application
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.support.people import PASSWORD, SAME_ORIGIN, User, Visitor, as_operator, browser, new_email

WRONG = "The email address or password is incorrect."
CONCURRENT = 60  # more than the queue for password checks holds


async def sign_in(visitor: Visitor, email: str, password: str = PASSWORD) -> None:
    await visitor.open("/portal/sign-in")
    await visitor.submit("/portal/sign-in", email=email, password=password)


async def test_the_correct_password_signs_in(visitor: Visitor, maria: User) -> None:
    await sign_in(visitor, f"  {maria.email.upper()} ")
    assert visitor.path == "/portal"
    assert "Welcome, Maria" in visitor.text


async def test_an_unknown_email_and_a_wrong_password_get_the_same_message(visitor: Visitor, maria: User) -> None:
    for email in (maria.email, new_email(), "no address at all"):
        await sign_in(visitor, email, "not the password of anybody")
        assert visitor.response.status_code == 422
        assert visitor.faults == {"": WRONG}
        assert "not the password" not in visitor.text
        assert email in visitor.text


async def test_sign_in_opens_a_new_session_whatever_cookie_the_browser_sends(
    visitor: Visitor, application: Application, maria: User
) -> None:
    await visitor.open("/portal/sign-in")
    planted = visitor.client.cookies["stoa_session"]
    await sign_in(visitor, maria.email)
    assert visitor.client.cookies["stoa_session"] != planted
    async with browser(application) as thief:
        thief.cookies.set("stoa_session", planted, domain="testserver.local")
        response = await thief.get("/portal/account")
        assert response.status_code == 303


async def test_a_session_cookie_is_invalid_after_sign_out(visitor: Visitor, maria: User) -> None:
    await sign_in(visitor, maria.email)
    session = visitor.client.cookies["stoa_session"]
    await visitor.submit("/portal/sign-out")
    assert visitor.path == "/portal/sign-in"
    assert visitor.notice == "You have signed out."
    visitor.client.cookies.clear()
    visitor.client.cookies.set("stoa_session", session, domain="testserver.local")
    await visitor.open("/portal/account")
    assert visitor.path == "/portal/sign-in"


async def test_a_signed_in_user_is_redirected_from_the_sign_in_page(maria: User) -> None:
    await maria.open("/portal/sign-in")
    assert maria.path == "/portal"


@pytest.mark.parametrize(
    ("target", "location"),
    [
        ("/portal/apps", "/portal/apps"),
        ("/docs/products/create_product", "/docs/products/create_product"),
        ("/docsevil", "/portal"),
        ("https://evil.example.com/", "/portal"),
        ("//evil.example.com/portal", "/portal"),
        ("/portal\\@evil.example.com", "/portal"),
        ("/portalevil", "/portal"),
        ("/portal/\r\nset-cookie: x", "/portal"),
    ],
)
async def test_next_redirects_only_within_the_portal_and_the_documentation(
    visitor: Visitor, maria: User, target: str, location: str
) -> None:
    await visitor.open("/portal/sign-in")
    data = {"_token": visitor.token, "email": maria.email, "password": PASSWORD, "next": target}
    response = await visitor.client.post("/portal/sign-in", data=data, headers=SAME_ORIGIN)
    assert response.status_code in (303, 422)
    if response.status_code == 303:
        assert response.headers["location"] == location


async def test_a_disabled_account_is_signed_out_and_cannot_sign_in(
    visitor: Visitor, maria: User, db: Database, settings: Settings
) -> None:
    by = as_operator(db, settings)
    await disable_account(by, maria.email, "Left the company.")
    await maria.open("/portal/account")
    assert maria.path == "/portal/sign-in"
    await sign_in(visitor, maria.email, "not the password of Maria")
    assert visitor.faults == {"": WRONG}, "only who knows the password learns that the account is disabled"
    await sign_in(visitor, maria.email)
    assert visitor.faults == {"": "Your account is disabled: Left the company. Ask an operator of this service."}, (
        "and why"
    )
    await enable_account(by, maria.email)
    await disable_account(by, maria.email)
    await sign_in(visitor, maria.email)
    assert visitor.faults == {"": "Your account is disabled. Ask an operator of this service."}
    await enable_account(by, maria.email)
    await sign_in(visitor, maria.email)
    assert visitor.path == "/portal"


# --- rate limits --------------------------------------------------------------------------------------------


async def test_guessing_a_password_is_limited_by_account_and_ip_address(
    application: Application, visitor: Visitor, maria: User
) -> None:
    for _ in range(10):
        await sign_in(visitor, maria.email, "a guess that is not right")
    assert visitor.response.status_code == 422
    await sign_in(visitor, maria.email, PASSWORD)
    assert visitor.response.status_code == 429
    assert int(visitor.response.headers["retry-after"]) > 0
    assert "Too many failed attempts" in visitor.faults[""]
    async with browser(application) as elsewhere:
        other = Visitor(elsewhere)
        await sign_in(other, maria.email)
        assert other.path == "/portal", "guessing from one IP address must not lock the account elsewhere"


async def test_guessing_many_accounts_is_limited_by_ip_address(visitor: Visitor) -> None:
    await visitor.open("/portal/sign-in")
    for number in range(51):
        data = {"_token": visitor.token, "email": f"guess{number}@example.com", "password": "a guess"}
        response = await visitor.client.post("/portal/sign-in", data=data, headers=SAME_ORIGIN)
    assert response.status_code == 429  # pyright: ignore[reportPossiblyUnboundVariable]


async def test_a_full_password_queue_is_reported_in_the_form(application: Application) -> None:
    clients = [browser(application) for _ in range(CONCURRENT)]
    visitors = [Visitor(client) for client in clients]
    for visitor in visitors:
        await visitor.open("/portal/sign-in")
    form = {"email": "crowd@example.com", "password": "not the right one"}
    responses = await asyncio.gather(*(visitor.submit("/portal/sign-in", form) for visitor in visitors))
    refused = [visitor for visitor, response in zip(visitors, responses, strict=True) if response.status_code == 503]
    assert refused, "the queue was never full"
    assert refused[0].faults[""].startswith("Too many people are signing in.")
    assert "database" not in refused[0].text
    assert 'value="crowd@example.com"' in refused[0].text
    assert refused[0].response.headers["retry-after"] == "2"
    for client in clients:
        await client.aclose()


# --- session lifetime ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("column", ["seen_at", "expires_at"])
async def test_a_session_ends_when_it_is_idle_or_expired(maria: User, db: Database, column: str) -> None:
    past = f"now() - interval '{IDLE_TIMEOUT_S + 1} seconds'"
    await db.execute(f"UPDATE account_sessions SET {column} = {past} WHERE id = $1", maria.session_id)
    await maria.open("/portal/account")
    assert maria.path == "/portal/sign-in"


async def test_a_request_resets_the_idle_timeout(maria: User, db: Database) -> None:
    almost_idle = f"now() - interval '{IDLE_TIMEOUT_S - 60} seconds'"
    await db.execute(f"UPDATE account_sessions SET seen_at = {almost_idle} WHERE id = $1", maria.session_id)
    await maria.open("/portal/account")
    [[touched]] = await db.fetch(
        "SELECT seen_at > now() - interval '1 minute' FROM account_sessions WHERE id = $1", maria.session_id
    )
    assert touched


async def last_seen(db: Database, user: User) -> datetime:
    [[seen_at]] = await db.fetch("SELECT seen_at FROM account_sessions WHERE id = $1", user.session_id)
    return seen_at


@pytest.mark.parametrize("headers", [{"x-unattended": "1"}, {"accept": "text/event-stream"}])
async def test_an_automatic_request_does_not_reset_the_idle_timeout(
    db: Database, maria: User, headers: dict[str, str]
) -> None:
    await db.execute(
        "UPDATE account_sessions SET seen_at = now() - interval '50 minutes' WHERE id = $1", maria.session_id
    )
    before = await last_seen(db, maria)
    assert (await maria.client.get("/portal/account", headers=headers)).status_code == 200
    assert await last_seen(db, maria) == before
    await maria.open("/portal/account")
    assert await last_seen(db, maria) > before


async def test_a_form_of_an_ended_session_redirects_to_sign_in(maria: User, db: Database) -> None:
    await maria.open("/portal/account")
    await db.execute("DELETE FROM account_sessions WHERE id = $1", maria.session_id)
    await maria.submit("/portal/account/name", name="Too late")
    assert maria.path == "/portal/sign-in"
    assert "Your session has ended" in maria.notice


# --- cookies ------------------------------------------------------------------------------------------------


async def test_the_session_cookie_is_http_only_and_same_site(visitor: Visitor) -> None:
    response = await visitor.client.get("/portal/sign-in")
    cookie = response.headers["set-cookie"].lower()
    assert cookie.startswith("stoa_session=")
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "domain" not in cookie
    assert "max-age" not in cookie


async def test_over_tls_the_session_cookie_has_the_host_prefix(settings: Settings, maria: User) -> None:
    application = Application(msgspec.structs.replace(settings, public_url="https://portal.example.com"))
    async with browser(application) as client:
        response = await client.get("/portal/sign-in")
        cookie = response.headers["set-cookie"]
        assert cookie.startswith("__Host-stoa_session=")
        assert "secure" in cookie.lower()
        assert "Path=/" in cookie
        assert "strict-transport-security" in response.headers
        plain = await client.get(
            "/portal/account", headers={"cookie": f"stoa_session={maria.client.cookies['stoa_session']}"}
        )
        assert plain.status_code == 303, "a cookie without the prefix may come from another host"
    await application.close()


async def test_sign_in_without_tls_shows_a_warning(application: Application) -> None:
    async with browser(application) as client:
        assert "not encrypted" not in (await client.get("/portal/sign-in")).text
        unencrypted = await client.get("/portal/sign-in", headers={"host": "shop.example.com"})
        assert "not encrypted" in unencrypted.text


async def test_a_form_after_the_session_has_ended_leads_back_to_its_page(maria: User, db: Database) -> None:
    await maria.open("/portal/register-app")
    await db.execute("DELETE FROM account_sessions WHERE account_id = $1", maria.account.id)
    await maria.submit("/portal/register-app?from=link&x=1", name="Walker")
    assert maria.path == "/portal/sign-in"
    assert maria.response.url.params["next"] == "/portal/register-app?from=link&x=1"
    assert "Nothing was changed" in maria.notice
