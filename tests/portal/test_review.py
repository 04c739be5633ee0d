"""What a second pair of eyes tried: races between a sign-in and a new password, stolen sessions, floods, leaks."""

import asyncio
import itertools
import re

import msgspec
import pyotp
import pytest

from stoa.access import audit
from stoa.access.apps import change_app
from stoa.access.contract import NotInstalled
from stoa.access.grants import install, list_installations, uninstall
from stoa.access.operator import Operator
from stoa.accounts import ownership, second_factor
from stoa.accounts.asking import narrow, refuse_pestering
from stoa.accounts.contract import FactorOn, OwnedStore, TooManyStores, WeakPassword, WrongCredentials
from stoa.accounts.registration import change_password, reset
from stoa.accounts.rules import check_password
from stoa.accounts.sessions import sign_in
from stoa.app import Application
from stoa.db.pool import Database
from stoa.portal.guard import Notice, pack_notice
from stoa.settings import Settings, secret_key
from tests.portal.people import (
    FROM_HERE,
    PASSWORD,
    Somebody,
    Visitor,
    browser,
    new_email,
    new_peer,
    signed_in,
)

NEW_PASSWORD = "another walk in the porch"
APP = {"name": "Walker", "scopes": "products:read", "reasons[products:read]": "To list them."}
_SEALED = re.compile(r'name="sealed" value="(\w+)"')
_KEY = re.compile(r'id="totp-key">([A-Z2-7 ]+)<')


async def sessions_of(db: Database, person: Somebody) -> int:
    [[count]] = await db.fetch("SELECT count(*) FROM account_sessions WHERE account_id = $1", person.account.id)
    return count


# --- sessions and what proves a person ------------------------------------------------------------------------


async def test_a_new_password_ends_even_a_sign_in_that_is_under_way(
    maria: Somebody, db: Database, operator: Operator
) -> None:
    passwords = [PASSWORD, *(f"walk number {number} in the porch" for number in range(6))]
    for old, new in itertools.pairwise(passwords):
        entering = [sign_in(operator, db, maria.email, old, peer=new_peer(), agent="") for _ in range(3)]
        changing = change_password(operator, maria.account, new, kept=0)
        outcomes = await asyncio.gather(*entering, changing, return_exceptions=True)
        assert all(isinstance(each, WrongCredentials) for each in outcomes if isinstance(each, BaseException))
        assert await sessions_of(db, maria) == 0, "somebody came in with a password that was changed"


async def test_a_stolen_cookie_is_worthless_after_a_new_password(maria: Somebody, application: Application) -> None:
    stolen = maria.client.cookies["stoa_session"]
    await maria.open("/portal/account")
    await maria.send("/portal/account/password", current=PASSWORD, password=NEW_PASSWORD)
    assert "changed" in maria.notice
    assert maria.path == "/portal/account", "whoever changes it goes on"
    async with browser(application) as thief:
        thief.cookies.set("stoa_session", stolen, domain="testserver.local")
        assert (await thief.get("/portal/account")).status_code == 303


async def test_a_new_password_ends_the_address_that_would_set_another(
    maria: Somebody, visitor: Visitor, operator: Operator
) -> None:
    link = await reset(operator, maria.email)
    await maria.open("/portal/account")
    await maria.send("/portal/account/password", current=PASSWORD, password=NEW_PASSWORD)
    await visitor.open(link.address.partition("8080")[2] or "/" + link.address.split("/", 3)[3])
    assert visitor.seen.status_code == 404


async def set_up_factor(person: Somebody, password: str) -> str:
    await person.open("/portal/account/second-factor")
    key, sealed = _KEY.search(person.text), _SEALED.search(person.text)
    assert key
    assert sealed
    secret = key[1].replace(" ", "")
    fields = {"sealed": sealed[1], "code": pyotp.TOTP(secret).now(), "password": password}
    await person.send("/portal/account/second-factor", fields)
    return secret


async def test_a_borrowed_browser_cannot_lock_its_owner_out(maria: Somebody) -> None:
    await set_up_factor(maria, "not the password")
    assert maria.faults == {"password": "This is not your current password."}
    await maria.open("/portal/account")
    assert "Set it up" in maria.text


async def test_with_the_second_factor_every_older_session_ends_and_ones_own_is_renewed(
    maria: Somebody, application: Application, db: Database
) -> None:
    phone = await signed_in(application, db, maria.account)
    stolen = maria.client.cookies["stoa_session"]
    await set_up_factor(maria, PASSWORD)
    assert "Your recovery codes" in maria.text
    await maria.open("/portal/account")
    assert maria.path == "/portal/account"
    await phone.open("/portal/account")
    assert phone.path == "/portal/sign-in"
    async with browser(application) as thief:
        thief.cookies.set("stoa_session", stolen, domain="testserver.local")
        assert (await thief.get("/portal/account")).status_code == 303


async def test_of_two_who_turn_it_on_at_once_one_succeeds(maria: Somebody, operator: Operator) -> None:
    secrets = [second_factor.new_secret() for _ in range(4)]
    turning = [second_factor.turn_on(operator, maria.account.id, each, pyotp.TOTP(each).now()) for each in secrets]
    outcomes = await asyncio.gather(*turning, return_exceptions=True)
    assert sum(isinstance(each, list) for each in outcomes) == 1
    assert sum(isinstance(each, FactorOn) for each in outcomes) == 3


async def test_who_still_owes_the_second_factor_may_begin_again(maria: Somebody, visitor: Visitor) -> None:
    await set_up_factor(maria, PASSWORD)
    await visitor.open("/portal/sign-in")
    wanted = "/portal/apps?from=a&to=b"
    await visitor.send("/portal/sign-in", email=maria.email, password=PASSWORD, next=wanted)
    assert visitor.path == "/portal/second-factor"
    assert f'name="next" value="{wanted}"' in visitor.text
    assert 'href="/portal/sign-in"' in visitor.text


# --- guessing and floods --------------------------------------------------------------------------------------


async def test_sign_up_does_not_tell_at_leisure_who_is_here(settings: Settings, maria: Somebody) -> None:
    application = Application(msgspec.structs.replace(settings, sign_up="open"))
    async with browser(application) as client:
        visitor = Visitor(client)
        for _ in range(10):
            await visitor.open("/portal/sign-up")
            await visitor.send("/portal/sign-up", name="X", email=maria.email, password=PASSWORD)
            assert "email" in visitor.faults
        await visitor.send("/portal/sign-up", name="X", email=new_email(), password=PASSWORD)
        assert visitor.seen.status_code == 429
    await application.close()


async def test_asking_again_and_again_does_not_fill_a_strangers_log(
    maria: Somebody, zeno: Somebody, db: Database, operator: Operator
) -> None:
    store = await ownership.open_store(operator, maria.account.id, f"quiet-{maria.account.id}", "Quiet", "EUR")
    made = await ownership.register_app(operator, zeno.account.id, "Loud", "", {"products:read": "x"}, new_email())
    page = f"/portal/apps/{made.app_id}/stores"
    before = await audit.head(db, store.id)
    for _ in range(3):
        await zeno.open(page)
        await zeno.send(f"/portal/apps/{made.app_id}/requests", handle=store.handle, message="Please?")
        assert zeno.path == page
    assert (await audit.head(db, store.id)).position == before.position + 1
    for _ in range(12):
        await zeno.send(f"/portal/apps/{made.app_id}/requests/{store.handle}/withdraw")
        await zeno.send(f"/portal/apps/{made.app_id}/requests", handle=store.handle, message="Please?")
    assert zeno.seen.status_code == 429
    assert zeno.faults[""].startswith("You have asked ten times in a minute.")
    assert (await audit.head(db, store.id)).position < before.position + 25


async def test_many_who_ask_do_not_keep_each_other_from_it(zeno: Somebody, db: Database, operator: Operator) -> None:
    for other in range(10**9, 10**9 + 12):
        for _ in range(9):
            await refuse_pestering(operator, db, other)
    store = await ownership.open_store(operator, zeno.account.id, f"asked-{zeno.account.id}", "Quiet", "EUR")
    made = await ownership.register_app(operator, zeno.account.id, "Calm", "", {"products:read": "x"}, new_email())
    for message in ("One", "Two", "Three"):
        await zeno.open(f"/portal/apps/{made.app_id}/stores")
        await zeno.send(f"/portal/apps/{made.app_id}/requests", handle=store.handle, message=message)
        assert zeno.notice


async def test_one_person_cannot_take_every_handle(maria: Somebody, operator: Operator, db: Database) -> None:
    await db.execute(
        """WITH made AS (INSERT INTO stores (handle, name, currency)
                         SELECT 'squat-' || $1::bigint || '-' || n, 'Squat', 'EUR' FROM generate_series(1, 100) n
                         RETURNING id)
           INSERT INTO account_stores (account_id, store_id, role) SELECT $1, id, 'owner' FROM made""",
        maria.account.id,
    )
    with pytest.raises(TooManyStores):
        await ownership.open_store(operator, maria.account.id, f"one-more-{maria.account.id}", "X", "EUR")


@pytest.mark.parametrize(
    "password", ["123456789012", "passwordpassword", "Password1234", "qwertyuiop12", "abcdefghijkl", "abcabcabcabcabc"]
)
def test_a_password_from_every_list_is_refused(password: str) -> None:
    with pytest.raises(WeakPassword):
        check_password(password, "maria@example.com")


# --- what stores grant ----------------------------------------------------------------------------------------


async def installed(operator: Operator, owner: Somebody) -> tuple[OwnedStore, int, str]:
    me = owner.account.id
    store = await ownership.open_store(operator, me, f"grants-{me}", "Grants", "EUR")
    reasons = {"products:read": "a", "orders:read": "b", "customers:read": "c"}
    made = await ownership.register_app(operator, me, "Walker", "", reasons, new_email())
    await install(operator, made.client_id, store.handle)
    owned = await ownership.owned_store(operator.db, me, store.handle)
    assert owned is not None
    return owned, made.app_id, made.client_id


async def test_what_an_app_no_longer_asks_for_can_still_be_left_to_it(maria: Somebody, operator: Operator) -> None:
    store, app_id, client_id = await installed(operator, maria)
    await change_app(operator, client_id, "Walker", ["products:read"])
    left = await narrow(operator, store, app_id, ["products:read", "orders:read"])
    assert left.scopes == ["products:read", "orders:read"]


async def test_narrowing_never_brings_back_an_app_that_was_uninstalled(maria: Somebody, operator: Operator) -> None:
    store, app_id, client_id = await installed(operator, maria)
    for _ in range(8):
        await install(operator, client_id, store.handle)
        outcomes = await asyncio.gather(
            narrow(operator, store, app_id, ["products:read"]),
            uninstall(operator, client_id, store.handle),
            narrow(operator, store, app_id, ["products:read"]),
            return_exceptions=True,
        )
        assert all(isinstance(each, NotInstalled) for each in outcomes if isinstance(each, BaseException)), outcomes
        assert await list_installations(operator, store.handle) == []
        await change_app(operator, client_id, "Walker", ["products:read", "orders:read", "customers:read"])


# --- what pages give away -------------------------------------------------------------------------------------


async def test_a_notice_is_for_the_session_it_was_said_to(maria: Somebody, zeno: Somebody, settings: Settings) -> None:
    await zeno.open("/portal/account")
    data = {"_token": zeno.visitor.token, "name": "Zeno"}
    answer = await zeno.client.post("/portal/account/name", data=data, headers=FROM_HERE)
    said = re.search(r"stoa_notice=([^;]+)", answer.headers["set-cookie"])
    assert said
    cookies = {"cookie": f"stoa_session={maria.client.cookies['stoa_session']}; stoa_notice={said[1]}"}
    assert "Your name is changed" not in (await maria.client.get("/portal/account", headers=cookies)).text
    mine = pack_notice(secret_key(settings), maria.client.cookies["stoa_session"], Notice("For me."))
    cookies = {"cookie": f"stoa_session={maria.client.cookies['stoa_session']}; stoa_notice={mine}"}
    assert "For me." in (await maria.client.get("/portal/account", headers=cookies)).text


async def test_the_theme_is_changed_where_a_form_was_shown_again(maria: Somebody) -> None:
    await maria.open("/portal/account")
    await maria.send("/portal/account/password", current="wrong", password=NEW_PASSWORD)
    onward = re.search(r'action="/portal/theme".*?name="next" value="([^"]+)"', maria.text, re.DOTALL)
    assert onward
    await maria.send("/portal/theme", theme="dark", next=onward[1])
    assert maria.path == "/portal/account"


async def test_a_page_that_shows_a_secret_has_no_button_that_loses_it(maria: Somebody) -> None:
    await maria.open("/portal/register-app")
    await maria.send("/portal/register-app", APP)
    assert "stoa_cs_" in maria.text
    assert 'action="/portal/theme"' not in maria.text


@pytest.mark.parametrize("host", ["[", "[::1", "a b", "x:abc", '"><script>', ""])
@pytest.mark.parametrize(
    "path", ["/docs", "/problems/not_found", "/nothing", "/.well-known/oauth-authorization-server"]
)
async def test_a_hostile_host_is_never_our_fault(application: Application, path: str, host: str) -> None:
    async with browser(application) as client:
        answer = await client.get(path, headers={"host": host})
        assert answer.status_code < 500
        assert "<script>" not in answer.text or "json" in answer.headers["content-type"]


@pytest.mark.parametrize("origin", ["https://portal.example.com", "https://PORTAL.example.com"])
async def test_forms_work_behind_a_proxy_that_says_another_host(
    settings: Settings, maria: Somebody, origin: str
) -> None:
    application = Application(msgspec.structs.replace(settings, public_url="https://portal.example.com"))
    async with browser(application) as client:
        await client.get("/portal/sign-in")
        headers = {"origin": origin, "sec-fetch-site": "same-origin"}
        answer = await client.post("/portal/sign-in", data={"_token": "x"}, headers=headers)
        assert "expired" in answer.text, "it came as far as its token"
        answer = await client.post("/portal/sign-in", data={"_token": "x"}, headers={"origin": "https://x.example.com"})
        assert "another site" in answer.text
    await application.close()


async def test_a_development_store_of_ones_own_follows_what_the_app_asks_for(maria: Somebody, db: Database) -> None:
    await maria.open("/portal/register-app")
    await maria.send("/portal/register-app", {**APP, "development_store": "on"})
    [[app_id]] = await db.fetch("SELECT app_id FROM account_apps WHERE account_id = $1", maria.account.id)
    more = {"scopes": ["products:read", "webhooks:write"], "reasons[webhooks:write]": "To hear of changes."}
    await maria.open(f"/portal/apps/{app_id}/settings")
    await maria.send(f"/portal/apps/{app_id}/settings", {**APP, **more})
    assert maria.notice == "Saved."
    [[scopes]] = await db.fetch("SELECT scopes FROM installations WHERE app_id = $1", app_id)
    assert scopes == ["products:read", "webhooks:write"]


async def test_another_persons_store_does_not_follow(
    maria: Somebody, zeno: Somebody, db: Database, operator: Operator
) -> None:
    store = await ownership.open_development_store(operator, maria.account.id, "Not Zeno's", "EUR")
    made = await ownership.register_app(operator, zeno.account.id, "Walker", "", {"products:read": "x"}, new_email())
    await install(operator, made.client_id, store.handle)
    fields = {"name": "Walker", "scopes": "customers:read", "reasons[customers:read]": "To see people."}
    await zeno.open(f"/portal/apps/{made.app_id}/settings")
    await zeno.send(f"/portal/apps/{made.app_id}/settings", fields)
    assert zeno.notice == "Saved."
    [[scopes]] = await db.fetch("SELECT scopes FROM installations WHERE app_id = $1", made.app_id)
    assert scopes == ["products:read"]
