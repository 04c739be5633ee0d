"""A person's own page: name, password, second factor, and the browsers that are signed in."""

from typing import Annotated

import msgspec
import segno
from markupsafe import Markup

from stoa.access.sealing import Unsealable
from stoa.accounts import registration, second_factor, sessions
from stoa.accounts.contract import FactorOn, WeakPassword, WrongCode, WrongPassword
from stoa.accounts.queries import GET_ACCOUNT
from stoa.portal.answering import SIGN_IN, not_found, sentence
from stoa.portal.entry import Code, NewPassword, Password, Person
from stoa.portal.forms import Wrong, text
from stoa.portal.pages import ROOT, Pages, Redirect, View
from stoa.portal.visit import Visit

pages = Pages()
ACCOUNT = f"{ROOT}/account"


class Name(msgspec.Struct):
    name: Person


class PasswordChange(msgspec.Struct):
    current: Password
    password: NewPassword


class Confirmation(msgspec.Struct):
    password: Password


class FirstCode(msgspec.Struct):
    code: Code
    password: Password
    sealed: Annotated[str, text("Begin again.", least=1, most=500)]


@pages.page("/account")
async def account_page(visit: Visit) -> View:
    me = visit.me
    open_sessions = await sessions.list_sessions(visit.by, me.account_id)
    left = await second_factor.codes_left(visit.by, me.account_id) if me.second_factor else 0
    return View("account/account.html", {"sessions": open_sessions, "codes_left": left})


@pages.form("/account/name", on=account_page)
async def change_name(visit: Visit, form: Name) -> Redirect:
    await registration.rename(visit.by, visit.me.account_id, form.name)
    return Redirect(ACCOUNT, "Your name is changed.")


@pages.form("/account/password", on=account_page)
async def change_password(visit: Visit, form: PasswordChange) -> Redirect:
    me = visit.me
    await _confirm(visit, form.current, "current")
    account = await GET_ACCOUNT.one(visit.db, me.account_id)
    try:
        opened = await registration.change_own_password(
            visit.by, account, form.password, peer=visit.peer, agent=visit.agent
        )
    except WeakPassword as refusal:
        raise Wrong(password=sentence(refusal)) from refusal
    return Redirect(ACCOUNT, "Your password is changed, and every other session has ended.", session=opened.token)


async def _confirm(visit: Visit, password: str, field: str) -> None:
    try:
        await sessions.confirm_password(visit.by, visit.db, visit.me.account_id, password, peer=visit.peer)
    except WrongPassword as refusal:
        raise Wrong({field: sentence(refusal)}) from refusal


@pages.form("/account/sessions/{session_id:int}/end", on=account_page)
async def end_session(visit: Visit) -> Redirect:
    session_id: int = visit.place("session_id")
    if not await sessions.end_session(visit.by, visit.me.account_id, session_id):
        raise not_found()
    if session_id == visit.me.session_id:
        return Redirect(SIGN_IN, "You are signed out.", session="")
    return Redirect(ACCOUNT, "That session has ended.")


@pages.form("/account/sessions/end", on=account_page)
async def end_other_sessions(visit: Visit) -> Redirect:
    await sessions.end_other_sessions(visit.by, visit.me.account_id, visit.me.session_id)
    return Redirect(ACCOUNT, "Every other session has ended.")


@pages.form("/sign-out", on=account_page)
async def sign_out(visit: Visit) -> Redirect:
    await sessions.sign_out(visit.by, visit.session)
    return Redirect(SIGN_IN, "You are signed out.", session="")


@pages.page("/account/second-factor", under="account_page")
async def second_factor_set_up(visit: Visit) -> View | Redirect:
    me = visit.me
    if me.second_factor:
        return Redirect(ACCOUNT)
    secret = second_factor.new_secret()
    if visit.filled is not None:  # the code was mistyped: the phone has the old secret already
        try:
            secret = second_factor.uncarried(visit.by, me.account_id, visit.filled.values["sealed"][-1])
        except (Unsealable, ValueError, KeyError):
            visit.filled = None
    code = segno.make(second_factor.address_for_app(secret, me.email), error="m", micro=False)
    drawing = code.svg_inline(scale=5, border=2, dark="#14181b", light="#ffffff", omitsize=True)
    context = {
        "drawing": Markup(drawing),  # noqa: S704 - drawn by the library, from our own address
        "secret": " ".join(secret[at : at + 4] for at in range(0, len(secret), 4)),
        "sealed": second_factor.carried(visit.by, me.account_id, secret),
    }
    return View("account/second_factor.html", context, secret=True)


@pages.form("/account/second-factor", on=second_factor_set_up)
async def turn_on_second_factor(visit: Visit, form: FirstCode) -> View | Redirect:
    me = visit.me
    if me.second_factor:
        return Redirect(ACCOUNT, "Your second factor is on already.", "")
    await _confirm(visit, form.password, "password")
    try:
        secret = second_factor.uncarried(visit.by, me.account_id, form.sealed)
        codes = await second_factor.turn_on(visit.by, me.account_id, secret, form.code)
    except (Unsealable, ValueError) as error:
        raise Wrong({"": "This page is too old. Scan the new code."}) from error
    except WrongCode as refusal:
        raise Wrong(code=sentence(refusal)) from refusal
    except FactorOn as refusal:
        return Redirect(ACCOUNT, sentence(refusal), "")
    opened = await sessions.open_session(
        visit.by, visit.db, me.account_id, complete=True, peer=visit.peer, agent=visit.agent
    )
    visit.session = visit.new_session = opened.token
    return View("account/recovery_codes.html", {"codes": codes, "fresh": True}, secret=True)


@pages.form("/account/second-factor/off", on=account_page)
async def turn_off_second_factor(visit: Visit, form: Confirmation) -> Redirect:
    await _confirm(visit, form.password, "password")
    await second_factor.turn_off(visit.by, visit.me.account_id)
    return Redirect(ACCOUNT, "Your second factor is off.")


@pages.form("/account/second-factor/codes", on=account_page)
async def renew_recovery_codes(visit: Visit, form: Confirmation) -> View | Redirect:
    await _confirm(visit, form.password, "password")
    if not visit.me.second_factor:
        return Redirect(ACCOUNT)
    codes = await second_factor.renew_codes(visit.by, visit.me.account_id)
    return View("account/recovery_codes.html", {"codes": codes, "fresh": False}, secret=True)
