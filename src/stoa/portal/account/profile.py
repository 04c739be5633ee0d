"""The account page: name, password, two-factor authentication, notifications and sessions."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Annotated

import msgspec
import segno
from markupsafe import Markup

from stoa.access.encryption import Undecryptable
from stoa.access.operator import Operator
from stoa.accounts import registration, sessions, two_factor, verification
from stoa.accounts.queries import GET_ACCOUNT
from stoa.accounts.refusals import TwoFactorOn, WeakPassword, WrongCode, WrongPassword
from stoa.notifications.contract import KINDS, Kind, Preference
from stoa.notifications.queries import PREFERENCES, SET_PREFERENCES
from stoa.portal.account.authentication import Code, NewPassword, Password, PersonName
from stoa.portal.kit.error_pages import not_found
from stoa.portal.kit.forms import FormError, sentence, text
from stoa.portal.kit.pages import ROOT, SIGN_IN, Pages, Redirect, View
from stoa.portal.kit.visit import Visit

pages = Pages()
ACCOUNT = f"{ROOT}/account"


class NameForm(msgspec.Struct):
    name: PersonName


class PasswordForm(msgspec.Struct):
    current: Password
    password: NewPassword


class ConfirmationForm(msgspec.Struct):
    password: Password


class SetupForm(msgspec.Struct):
    code: Code
    password: Password
    # The name in the form of the previous release, which may have rendered the page.
    sealed: Annotated[str, text("Start again.", min_length=1, max_length=500)]


_Kinds = Annotated[list[Annotated[str, text("Choose from the list.", max_length=40)]], msgspec.Meta(max_length=40)]


class PreferencesForm(msgspec.Struct):
    """The kinds of notifications that the person wants in the portal, and by email."""

    portal: _Kinds = []
    email: _Kinds = []


@pages.page("/account")
async def account_page(visit: Visit) -> View:
    me = visit.me
    live_sessions = await sessions.list_sessions(visit.by, me.account_id)
    codes_left = await two_factor.count_recovery_codes(visit.by, me.account_id) if me.two_factor else 0
    context = {
        "sessions": live_sessions,
        "codes_left": codes_left,
        "preferences": await _preferences(visit),
        "sends": bool(visit.settings.smtp_url),
        "verified": (await GET_ACCOUNT.one(visit.db, me.account_id)).verified,
    }
    return View("account/account.html", context)


async def _preferences(visit: Visit) -> list[tuple[Kind, Preference]]:
    chosen = {each.kind: each for each in await PREFERENCES.all(visit.db, visit.me.account_id)}
    return [(kind, chosen.get(name) or Preference(name, portal=True, email=kind.email)) for name, kind in KINDS.items()]


@pages.form("/account/notifications", on=account_page)
async def save_preferences(visit: Visit, form: PreferencesForm) -> Redirect:
    names = list(KINDS)
    portal, email = [name in form.portal for name in names], [name in form.email for name in names]
    await SET_PREFERENCES.run(visit.db, visit.me.account_id, names, portal, email)
    return Redirect(f"{ACCOUNT}#notifications", "Preferences saved.")


@pages.form("/account/name", on=account_page)
async def change_name(visit: Visit, form: NameForm) -> Redirect:
    await registration.rename_account(visit.by, visit.me.account_id, form.name)
    return Redirect(ACCOUNT, "Name saved.")


@pages.form("/account/address", on=account_page)
async def send_verification(visit: Visit) -> Redirect:
    if not visit.settings.smtp_url:
        raise FormError({"": "This service does not send email."}, status=403)
    async with visit.db.transaction() as db:
        await verification.request_verification(visit.by, db, visit.me.account_id, visit.me.email)
    # The same answer for a second click: the link of the first one is on its way.
    return Redirect(ACCOUNT, f"We have sent a link to {visit.me.email}. It works once, for 24 hours.")


@pages.page("/account/verify/{verification}", nav="account_page")
async def verify_page(visit: Visit) -> View:
    if not await verification.is_verification(visit.by, visit.me.account_id, visit.path_param("verification")):
        raise not_found()
    return View("account/verify.html")


@pages.form("/account/verify/{verification}", on=verify_page)
async def verify_address(visit: Visit) -> Redirect:
    if not await verification.verify(visit.by, visit.me.account_id, visit.path_param("verification")):
        raise not_found()
    return Redirect(ACCOUNT, "Your email address is verified.")


@pages.form("/account/password", on=account_page)
async def change_password(visit: Visit, form: PasswordForm) -> Redirect:
    me = visit.me
    account = await GET_ACCOUNT.one(visit.db, me.account_id)
    try:
        confirmed = await sessions.confirm_password(visit.by, visit.db, me.account_id, form.current, peer=visit.peer)
        session = await registration.change_own_password(
            visit.by, account, form.password, confirmed=confirmed, peer=visit.peer, agent=visit.agent
        )
    except WrongPassword as refusal:
        raise FormError(current=sentence(refusal)) from refusal
    except WeakPassword as refusal:
        raise FormError(password=sentence(refusal)) from refusal
    return Redirect(ACCOUNT, "Password changed. All other sessions have ended.", session=session.token)


@asynccontextmanager
async def _confirmed(visit: Visit, password: str) -> AsyncGenerator[Operator]:
    """A transaction for a change that the person confirms by the password, which stays the same until it ends."""
    me = visit.me.account_id
    try:
        confirmed = await sessions.confirm_password(visit.by, visit.db, me, password, peer=visit.peer)
        async with visit.by.transaction() as by, by.db.transaction() as db:
            await sessions.check_confirmed(db, me, confirmed)
            yield by
    except WrongPassword as refusal:
        raise FormError(password=sentence(refusal)) from refusal


@pages.form("/account/sessions/{session_id:int}/end", on=account_page)
async def end_session(visit: Visit) -> Redirect:
    session_id: int = visit.path_param("session_id")
    if not await sessions.end_session(visit.by, visit.me.account_id, session_id):
        raise not_found()
    if session_id == visit.me.session_id:
        return Redirect(SIGN_IN, "You have signed out.", session="")
    return Redirect(ACCOUNT, "Session ended.")


@pages.form("/account/sessions/end", on=account_page)
async def end_other_sessions(visit: Visit) -> Redirect:
    await sessions.end_other_sessions(visit.by, visit.me.account_id, visit.me.session_id)
    return Redirect(ACCOUNT, "All other sessions have ended.")


@pages.form("/sign-out", on=account_page)
async def sign_out(visit: Visit) -> Redirect:
    await sessions.sign_out(visit.by, visit.session)
    return Redirect(SIGN_IN, "You have signed out.", session="")


@pages.page("/account/two-factor", nav="account_page")
async def two_factor_set_up(visit: Visit) -> View | Redirect:
    me = visit.me
    if me.two_factor:
        return Redirect(ACCOUNT)
    secret = two_factor.new_secret()
    if visit.submitted is not None:  # the code was mistyped: keep the secret that the phone has scanned
        try:
            secret = two_factor.decrypt_setup_secret(visit.by, me.account_id, visit.submitted.values["sealed"][-1])
        except (Undecryptable, ValueError, KeyError):
            visit.submitted = None
    qr_code = segno.make(two_factor.provisioning_uri(secret, me.email), error="m", micro=False)
    svg = qr_code.svg_inline(scale=5, border=2, dark="#14181b", light="#ffffff", omitsize=True)
    context = {
        "qr_code": Markup(svg),  # noqa: S704 - SVG from the library, for our own URI
        "secret": " ".join(secret[start : start + 4] for start in range(0, len(secret), 4)),
        "sealed": two_factor.encrypt_setup_secret(visit.by, me.account_id, secret),
    }
    return View("account/two_factor.html", context, secret=True)


@pages.form("/account/two-factor", on=two_factor_set_up)
async def turn_on_two_factor(visit: Visit, form: SetupForm) -> View | Redirect:
    me = visit.me
    if me.two_factor:
        return Redirect(ACCOUNT, "Two-factor authentication is already on.", "")
    try:
        async with _confirmed(visit, form.password) as by, by.db.transaction() as db:
            secret = two_factor.decrypt_setup_secret(by, me.account_id, form.sealed)
            codes = await two_factor.turn_on(by, me.account_id, secret, form.code)
            session = await sessions.open_session(
                by, db, me.account_id, complete=True, peer=visit.peer, agent=visit.agent
            )
    except (Undecryptable, ValueError) as error:
        raise FormError({"": "This page has expired. Scan the new QR code."}) from error
    except WrongCode as refusal:
        raise FormError(code=sentence(refusal)) from refusal
    except TwoFactorOn as refusal:
        return Redirect(ACCOUNT, sentence(refusal), "")
    visit.session = visit.new_session = session.token
    return View("account/recovery_codes.html", {"codes": codes, "first": True}, secret=True)


@pages.form("/account/two-factor/off", on=account_page)
async def turn_off_two_factor(visit: Visit, form: ConfirmationForm) -> Redirect:
    async with _confirmed(visit, form.password) as by:
        await two_factor.turn_off(by, visit.me.account_id)
    return Redirect(ACCOUNT, "Two-factor authentication is off.")


@pages.form("/account/two-factor/codes", on=account_page)
async def renew_recovery_codes(visit: Visit, form: ConfirmationForm) -> View | Redirect:
    async with _confirmed(visit, form.password) as by:
        if not visit.me.two_factor:
            return Redirect(ACCOUNT)
        codes = await two_factor.renew_recovery_codes(by, visit.me.account_id)
    return View("account/recovery_codes.html", {"codes": codes, "first": False}, secret=True)
