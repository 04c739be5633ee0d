"""Two-factor authentication: set-up, sign-in, recovery codes and locking."""

import re

import pyotp

from stoa.accounts.two_factor import MAX_FAILURES
from stoa.app import Application
from stoa.db.pool import Database
from tests.support.people import PASSWORD, User, Visitor, browser, signed_in_browser

_CODE = re.compile(r"<li>([a-z0-9]{5}-[a-z0-9]{5})")


async def submit_setup(user: User, password: str = PASSWORD) -> str:
    """Submit the setup form with a valid code; return the secret."""
    await user.open("/portal/account/two-factor")
    secret, encrypted = read_page(user)
    fields = {"sealed": encrypted, "code": pyotp.TOTP(secret).now(), "password": password}
    await user.submit("/portal/account/two-factor", fields)
    return secret


async def turn_on(user: User) -> tuple[str, list[str]]:
    """Turn two-factor authentication on; return the secret and the recovery codes."""
    secret = await submit_setup(user)
    assert user.response.status_code == 200, user.text
    return secret, _CODE.findall(user.text)


def read_page(user: User) -> tuple[str, str]:
    secret = re.search(r'id="totp-key">([A-Z2-7 ]+)<', user.text)
    encrypted = re.search(r'name="sealed" value="(\w+)"', user.text)
    assert secret
    assert encrypted
    return secret[1].replace(" ", ""), encrypted[1]


async def enter_password(visitor: Visitor, user: User) -> None:
    await visitor.open("/portal/sign-in")
    await visitor.submit("/portal/sign-in", email=user.email, password=PASSWORD, next="/portal/apps")
    assert visitor.path == "/portal/two-factor"


async def reset_last_step(db: Database, user: User) -> None:
    """Allow the current code again, so that a test need not wait for the next time step."""
    await db.execute("UPDATE accounts SET totp_step = 0 WHERE id = $1", user.account.id)


async def test_it_is_turned_on_and_required_at_sign_in(maria: User, visitor: Visitor, db: Database) -> None:
    secret, codes = await turn_on(maria)
    assert len(codes) == len(set(codes)) == 10
    await enter_password(visitor, maria)
    await visitor.open("/portal/apps")
    assert visitor.path == "/portal/two-factor", "an incomplete session opens no page"
    await visitor.submit("/portal/two-factor", code="000000", next="/portal/apps")
    assert "incorrect" in visitor.faults["code"]
    await reset_last_step(db, maria)
    before = visitor.client.cookies["stoa_session"]
    await visitor.submit("/portal/two-factor", code=pyotp.TOTP(secret).now(), next="/portal/apps")
    assert visitor.path == "/portal/apps"
    assert visitor.client.cookies["stoa_session"] != before


async def test_a_code_works_once(maria: User, visitor: Visitor, application: Application, db: Database) -> None:
    secret, _ = await turn_on(maria)
    await reset_last_step(db, maria)
    await enter_password(visitor, maria)
    code = pyotp.TOTP(secret).now()
    await visitor.submit("/portal/two-factor", code=code)
    assert visitor.path == "/portal"
    async with browser(application) as client:
        other = Visitor(client)
        await enter_password(other, maria)
        await other.submit("/portal/two-factor", code=code)
        assert "already used" in other.faults["code"]


async def test_a_recovery_code_works_once_in_any_spelling(maria: User, visitor: Visitor) -> None:
    _, codes = await turn_on(maria)
    await enter_password(visitor, maria)
    await visitor.submit("/portal/two-factor", code=f" {codes[0].upper().replace('-', ' ')} ")
    assert visitor.path == "/portal"
    await visitor.open("/portal/account")
    assert "9 recovery codes left" in visitor.text
    await visitor.submit("/portal/sign-out")
    await enter_password(visitor, maria)
    await visitor.submit("/portal/two-factor", code=codes[0])
    assert "code" in visitor.faults


async def test_guessing_codes_locks_the_two_factor(
    maria: User, visitor: Visitor, application: Application, db: Database
) -> None:
    secret, _ = await turn_on(maria)
    await reset_last_step(db, maria)
    await enter_password(visitor, maria)
    for _ in range(MAX_FAILURES):
        await visitor.submit("/portal/two-factor", code="123456")
    await visitor.submit("/portal/two-factor", code=pyotp.TOTP(secret).now())
    assert visitor.path == "/portal/sign-in"
    assert "15 minutes" in visitor.notice
    async with browser(application) as client:
        other = Visitor(client)
        await enter_password(other, maria)
        await other.submit("/portal/two-factor", code=pyotp.TOTP(secret).now())
        assert other.path == "/portal/sign-in", "the lock applies to all IP addresses"
    await db.execute("UPDATE accounts SET factor_locked_until = now() WHERE id = $1", maria.account.id)
    await enter_password(visitor, maria)
    await visitor.submit("/portal/two-factor", code=pyotp.TOTP(secret).now())
    assert visitor.path == "/portal"


async def test_a_mistyped_first_code_keeps_the_scanned_key(maria: User) -> None:
    await maria.open("/portal/account/two-factor")
    secret, encrypted = read_page(maria)
    await maria.submit("/portal/account/two-factor", sealed=encrypted, code="000000", password=PASSWORD)
    assert maria.response.status_code == 422
    assert read_page(maria)[0] == secret


async def test_a_key_encrypted_for_another_account_is_refused(maria: User, zeno: User) -> None:
    await maria.open("/portal/account/two-factor")
    secret, encrypted = read_page(maria)
    await zeno.open("/portal/account/two-factor")
    await zeno.submit("/portal/account/two-factor", sealed=encrypted, code=pyotp.TOTP(secret).now(), password=PASSWORD)
    assert zeno.response.status_code == 422


async def test_the_password_is_required_to_turn_it_off_and_to_renew_codes(maria: User) -> None:
    _, codes = await turn_on(maria)
    await maria.open("/portal/account")
    await maria.submit("/portal/account/two-factor/codes", password="not the password")
    assert maria.faults == {"password": "This is not your current password."}
    await maria.submit("/portal/account/two-factor/codes", password=PASSWORD)
    renewed = _CODE.findall(maria.text)
    assert len(renewed) == 10
    assert not set(renewed) & set(codes)
    await maria.open("/portal/account")
    await maria.submit("/portal/account/two-factor/off", password="not the password")
    assert maria.response.status_code == 422
    await maria.submit("/portal/account/two-factor/off", password=PASSWORD)
    assert maria.notice == "Two-factor authentication is off."


async def test_set_up_requires_the_password(maria: User) -> None:
    await submit_setup(maria, "not the password")
    assert maria.faults == {"password": "This is not your current password."}
    await maria.open("/portal/account")
    assert "Set up" in maria.text


async def test_turning_it_on_ends_other_sessions_and_renews_the_current_one(
    maria: User, application: Application, db: Database
) -> None:
    phone = await signed_in_browser(application, db, maria.account)
    stolen = maria.client.cookies["stoa_session"]
    await submit_setup(maria)
    assert "Recovery codes" in maria.text
    await maria.open("/portal/account")
    assert maria.path == "/portal/account"
    await phone.open("/portal/account")
    assert phone.path == "/portal/sign-in"
    async with browser(application) as thief:
        thief.cookies.set("stoa_session", stolen, domain="testserver.local")
        assert (await thief.get("/portal/account")).status_code == 303


async def test_a_pending_sign_in_keeps_its_target_and_can_start_again(maria: User, visitor: Visitor) -> None:
    await submit_setup(maria)
    await visitor.open("/portal/sign-in")
    target = "/portal/apps?from=a&to=b"
    await visitor.submit("/portal/sign-in", email=maria.email, password=PASSWORD, next=target)
    assert visitor.path == "/portal/two-factor"
    assert f'name="next" value="{target}"' in visitor.text
    assert 'href="/portal/sign-in"' in visitor.text
