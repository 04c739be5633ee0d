"""The second factor: turned on with proof, asked for at sign-in, each code once, and a way out without the phone."""

import asyncio
import re

import pyotp
import pytest

from stoa.accounts import second_factor
from stoa.accounts.contract import WrongCode
from stoa.accounts.rules import matching_step
from stoa.accounts.second_factor import MOST_FAILURES
from stoa.accounts.sessions import find_session, sign_in
from stoa.app import Application
from stoa.db.pool import Database
from stoa.settings import Settings
from tests.portal.people import PASSWORD, Somebody, Visitor, as_operator, browser, new_peer

_CODE = re.compile(r"<li>([a-z0-9]{5}-[a-z0-9]{5})")


async def turn_on(person: Somebody) -> tuple[str, list[str]]:
    """Go through the page as a person does; answers the secret and the recovery codes."""
    await person.open("/portal/account/second-factor")
    secret, sealed = read_page(person)
    await person.send("/portal/account/second-factor", sealed=sealed, code=pyotp.TOTP(secret).now(), password=PASSWORD)
    assert person.seen.status_code == 200, person.text
    return secret, _CODE.findall(person.text)


def read_page(person: Somebody) -> tuple[str, str]:
    secret = re.search(r'id="totp-key">([A-Z2-7 ]+)<', person.text)
    sealed = re.search(r'name="sealed" value="(\w+)"', person.text)
    assert secret
    assert sealed
    return secret[1].replace(" ", ""), sealed[1]


async def halfway(visitor: Visitor, person: Somebody) -> None:
    await visitor.open("/portal/sign-in")
    await visitor.send("/portal/sign-in", email=person.email, password=PASSWORD, next="/portal/apps")
    assert visitor.path == "/portal/second-factor"


async def forget_steps(db: Database, person: Somebody) -> None:
    """As if the code at hand had not been used yet: the next one would be half a minute away."""
    await db.execute("UPDATE accounts SET totp_step = 0 WHERE id = $1", person.account.id)


async def test_it_is_turned_on_and_asked_for(maria: Somebody, visitor: Visitor, db: Database) -> None:
    secret, codes = await turn_on(maria)
    assert len(codes) == len(set(codes)) == 10
    await halfway(visitor, maria)
    await visitor.open("/portal/apps")
    assert visitor.path == "/portal/second-factor", "half a sign-in opens nothing"
    await visitor.send("/portal/second-factor", code="000000", next="/portal/apps")
    assert "not right" in visitor.faults["code"]
    await forget_steps(db, maria)
    before = visitor.client.cookies["stoa_session"]
    await visitor.send("/portal/second-factor", code=pyotp.TOTP(secret).now(), next="/portal/apps")
    assert visitor.path == "/portal/apps"
    assert visitor.client.cookies["stoa_session"] != before


async def test_a_code_works_once(maria: Somebody, visitor: Visitor, application: Application, db: Database) -> None:
    secret, _ = await turn_on(maria)
    await forget_steps(db, maria)
    await halfway(visitor, maria)
    code = pyotp.TOTP(secret).now()
    await visitor.send("/portal/second-factor", code=code)
    assert visitor.path == "/portal"
    async with browser(application) as client:
        watcher = Visitor(client)
        await halfway(watcher, maria)
        await watcher.send("/portal/second-factor", code=code)
        assert "used already" in watcher.faults["code"]


async def test_of_two_who_send_a_code_at_once_one_comes_in(maria: Somebody, db: Database, settings: Settings) -> None:
    secret, _ = await turn_on(maria)
    await forget_steps(db, maria)
    by = as_operator(db, settings)
    opened = [await sign_in(by, db, maria.email, PASSWORD, peer=new_peer(), agent="") for _ in range(4)]
    people = [await find_session(db, by.key, each.token) for each in opened]
    code = pyotp.TOTP(secret).now()
    tries = [
        second_factor.complete_sign_in(by, person, each.token, code, peer="", agent="")
        for person, each in zip(people, opened, strict=True)
        if person is not None
    ]
    ends = await asyncio.gather(*tries, return_exceptions=True)
    assert sum(isinstance(end, WrongCode) for end in ends) == 3


async def test_a_recovery_code_works_once_however_it_is_typed(maria: Somebody, visitor: Visitor) -> None:
    _, codes = await turn_on(maria)
    await halfway(visitor, maria)
    await visitor.send("/portal/second-factor", code=f" {codes[0].upper().replace('-', ' ')} ")
    assert visitor.path == "/portal"
    await visitor.open("/portal/account")
    assert "9 recovery codes left" in visitor.text
    await visitor.send("/portal/sign-out")
    await halfway(visitor, maria)
    await visitor.send("/portal/second-factor", code=codes[0])
    assert "code" in visitor.faults


async def test_codes_and_secret_are_not_kept_in_the_clear(maria: Somebody, db: Database) -> None:
    secret, codes = await turn_on(maria)
    [[stored]] = await db.fetch("SELECT totp_secret FROM accounts WHERE id = $1", maria.account.id)
    assert secret.encode() not in stored
    hashes = await db.fetch("SELECT code_hash FROM account_recovery_codes WHERE account_id = $1", maria.account.id)
    assert len(hashes) == 10
    assert not any(code.replace("-", "").encode() in row[0] for code in codes for row in hashes)


async def test_guessing_codes_locks_the_door_for_a_while(
    maria: Somebody, visitor: Visitor, application: Application, db: Database
) -> None:
    secret, _ = await turn_on(maria)
    await forget_steps(db, maria)
    await halfway(visitor, maria)
    for _ in range(MOST_FAILURES):
        await visitor.send("/portal/second-factor", code="123456")
    await visitor.send("/portal/second-factor", code=pyotp.TOTP(secret).now())
    assert visitor.path == "/portal/sign-in"
    assert "15 minutes" in visitor.notice
    async with browser(application) as client:
        other = Visitor(client)
        await halfway(other, maria)
        await other.send("/portal/second-factor", code=pyotp.TOTP(secret).now())
        assert other.path == "/portal/sign-in", "it is locked wherever one comes from"
    await db.execute("UPDATE accounts SET factor_locked_until = now() WHERE id = $1", maria.account.id)
    await halfway(visitor, maria)
    await visitor.send("/portal/second-factor", code=pyotp.TOTP(secret).now())
    assert visitor.path == "/portal"


async def test_a_mistyped_first_code_keeps_the_key_that_was_scanned(maria: Somebody) -> None:
    await maria.open("/portal/account/second-factor")
    secret, sealed = read_page(maria)
    await maria.send("/portal/account/second-factor", sealed=sealed, code="000000", password=PASSWORD)
    assert maria.seen.status_code == 422
    assert read_page(maria)[0] == secret


async def test_a_key_sealed_for_another_is_refused(maria: Somebody, zeno: Somebody) -> None:
    await maria.open("/portal/account/second-factor")
    secret, sealed = read_page(maria)
    await zeno.open("/portal/account/second-factor")
    await zeno.send("/portal/account/second-factor", sealed=sealed, code=pyotp.TOTP(secret).now(), password=PASSWORD)
    assert zeno.seen.status_code == 422


async def test_it_is_turned_off_and_codes_renewed_with_the_password_alone(maria: Somebody) -> None:
    _, codes = await turn_on(maria)
    await maria.open("/portal/account")
    await maria.send("/portal/account/second-factor/codes", password="not the password")
    assert maria.faults == {"password": "This is not your current password."}
    await maria.send("/portal/account/second-factor/codes", password=PASSWORD)
    renewed = _CODE.findall(maria.text)
    assert len(renewed) == 10
    assert not set(renewed) & set(codes)
    await maria.open("/portal/account")
    await maria.send("/portal/account/second-factor/off", password="not the password")
    assert maria.seen.status_code == 422
    await maria.send("/portal/account/second-factor/off", password=PASSWORD)
    assert maria.notice == "Your second factor is off."


@pytest.mark.parametrize(("seconds", "found"), [(-30, True), (0, True), (30, True), (-95, False), (95, False)])
def test_clocks_may_differ_by_half_a_minute(seconds: int, found: bool) -> None:
    secret, now = "JBSWY3DPEHPK3PXP", 1_700_000_025
    code = pyotp.TOTP(secret).at(now + seconds)
    assert (matching_step(secret, code, now) is not None) == found
