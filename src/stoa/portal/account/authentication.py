"""Pages for guests: sign-in, sign-up, first set-up, invitations and password resets."""

from typing import Annotated
from urllib.parse import quote

import msgspec

from stoa.accounts import registration, reset_requests, sessions, two_factor
from stoa.accounts.contract import Account, Link, Purpose
from stoa.accounts.devices import remember_device
from stoa.accounts.refusals import (
    AccountDisabled,
    EmailTaken,
    InvalidEmail,
    SignInExpired,
    TwoFactorLocked,
    WeakPassword,
    WrongCode,
    WrongCredentials,
)
from stoa.portal.kit.error_pages import not_found
from stoa.portal.kit.forms import EMAIL_MESSAGE, Email, FormError, sentence, text
from stoa.portal.kit.pages import ROOT, SIGN_IN, TWO_FACTOR, Audience, Pages, Redirect, View, return_path
from stoa.portal.kit.visit import MAX_URL_LENGTH, Visit

pages = Pages()

PersonName = Annotated[str, text("Enter a name with 1 to 100 characters.", min_length=1, max_length=100, name=True)]
Password = Annotated[str, text("Enter your password.", min_length=1, max_length=1024, secret=True)]
NewPassword = Annotated[
    str, text("Use at least 12 characters. A short sentence works well.", min_length=12, max_length=256, secret=True)
]
Code = Annotated[str, text("Enter the 6-digit code, or a recovery code.", min_length=6, max_length=20, secret=True)]


class SignInForm(msgspec.Struct):
    email: Email
    password: Password
    next: str = ""


class SignUpForm(msgspec.Struct):
    name: PersonName
    email: Email
    password: NewPassword
    next: str = ""


class AcceptForm(msgspec.Struct):
    """The form of a set-up link or an invitation; an invitation already names the email address."""

    name: PersonName
    password: NewPassword
    email: Annotated[str, text(EMAIL_MESSAGE, max_length=254)] = ""


class ForgotPasswordForm(msgspec.Struct):
    email: Email


class NewPasswordForm(msgspec.Struct):
    password: NewPassword


class TwoFactorForm(msgspec.Struct):
    code: Code
    next: str = ""


@pages.page("/sign-in", audience=Audience.GUEST)
async def sign_in_page(visit: Visit) -> View:
    context = {"next": _next(visit), "sign_up": visit.settings.sign_up, "sends": bool(visit.settings.smtp_url)}
    return View("authentication/sign_in.html", context)


@pages.form("/sign-in", on=sign_in_page)
async def sign_in(visit: Visit, form: SignInForm) -> Redirect:
    device = visit.device
    try:
        session = await sessions.sign_in(
            visit.by, visit.db, form.email, form.password, peer=visit.peer, agent=visit.agent, device=device
        )
    except (WrongCredentials, AccountDisabled) as refusal:
        raise FormError({"": sentence(refusal)}) from refusal
    target = return_path(form.next)
    if not session.complete:
        target = TWO_FACTOR if target == ROOT else f"{TWO_FACTOR}?next={quote(target)}"
    return Redirect(target, session=session.token, device=device)


@pages.page("/two-factor", audience=Audience.TWO_FACTOR_PENDING)
async def two_factor_page(visit: Visit) -> View:
    return View("authentication/two_factor.html", {"next": _next(visit)})


@pages.form("/two-factor", on=two_factor_page)
async def check_two_factor(visit: Visit, form: TwoFactorForm) -> Redirect:
    device = visit.device
    try:
        session = await two_factor.complete_sign_in(
            visit.by, visit.me, visit.session, form.code, peer=visit.peer, agent=visit.agent, device=device
        )
    except WrongCode as refusal:
        raise FormError(code=sentence(refusal)) from refusal
    except (TwoFactorLocked, SignInExpired) as refusal:
        await sessions.sign_out(visit.by, visit.session)
        return Redirect(SIGN_IN, sentence(refusal), "warn", session="")
    return Redirect(return_path(form.next), session=session.token, device=device)


@pages.page("/sign-up", audience=Audience.GUEST)
async def sign_up_page(visit: Visit) -> View:
    return View("authentication/sign_up.html", {"next": _next(visit), "mode": visit.settings.sign_up})


@pages.form("/sign-up", on=sign_up_page)
async def sign_up(visit: Visit, form: SignUpForm) -> Redirect:
    if visit.settings.sign_up != "open":
        raise FormError({"": "You need an invitation to sign up. Ask an operator of this service."}, status=403)
    try:
        account = await registration.sign_up(visit.by, visit.db, form.email, form.name, form.password, peer=visit.peer)
    except (EmailTaken, InvalidEmail) as refusal:
        raise FormError(email=sentence(refusal)) from refusal
    except WeakPassword as refusal:
        raise FormError(password=sentence(refusal)) from refusal
    return await _open_session(visit, account, f"Welcome, {account.name}.", target=return_path(form.next))


def _next(visit: Visit) -> str:
    """The page that the visitor asked for before signing in or up, such as an install link."""
    return return_path(visit.query("next", most=MAX_URL_LENGTH))


async def _open_session(visit: Visit, account: Account, notice: str, target: str = ROOT) -> Redirect:
    session = await sessions.open_session(
        visit.by, visit.db, account.id, complete=True, peer=visit.peer, agent=visit.agent
    )
    device = visit.device
    await remember_device(visit.by, visit.db, account.id, device)
    return Redirect(target, notice, session=session.token, device=device)


async def _valid_link(visit: Visit, purpose: Purpose) -> Link:
    link = await registration.find_link(visit.by, purpose, visit.path_param("token"))
    if link is None:
        raise not_found()
    return link


@pages.page("/set-up/{token}", audience=Audience.ANYONE)
async def set_up_page(visit: Visit) -> View:
    await _valid_link(visit, "set-up")
    return View("authentication/set_up.html")


@pages.form("/set-up/{token}", on=set_up_page)
async def set_up(visit: Visit, form: AcceptForm) -> Redirect:
    return await _accept(visit, "set-up", form, "Your service is set up.")


@pages.page("/invitation/{token}", audience=Audience.ANYONE)
async def invitation_page(visit: Visit) -> View:
    if visit.settings.sign_up == "closed":
        raise not_found()
    return View("authentication/invitation.html", {"link": await _valid_link(visit, "invitation")})


@pages.form("/invitation/{token}", on=invitation_page)
async def accept_invitation(visit: Visit, form: AcceptForm) -> Redirect:
    if visit.settings.sign_up == "closed":
        raise not_found()
    return await _accept(visit, "invitation", form, f"Welcome, {form.name}.")


async def _accept(visit: Visit, purpose: Purpose, form: AcceptForm, notice: str) -> Redirect:
    try:
        account = await registration.accept_link(
            visit.by, purpose, visit.path_param("token"), email=form.email, name=form.name, password=form.password
        )
    except (EmailTaken, InvalidEmail) as refusal:
        raise FormError(email=sentence(refusal)) from refusal
    except WeakPassword as refusal:
        raise FormError(password=sentence(refusal)) from refusal
    return await _open_session(visit, account, notice)


@pages.page("/forgot-password", audience=Audience.GUEST)
async def forgot_password_page(visit: Visit) -> View:
    return View("authentication/forgot_password.html", {"sends": bool(visit.settings.smtp_url)})


@pages.form("/forgot-password", on=forgot_password_page)
async def ask_for_reset(visit: Visit, form: ForgotPasswordForm) -> Redirect:
    """The answer is the same for every address."""
    if not visit.settings.smtp_url:
        raise FormError({"": "This service does not send email. Ask an operator for a reset link."}, status=403)
    try:
        await reset_requests.request_reset(visit.by, visit.db, form.email, peer=visit.peer)
    except InvalidEmail as refusal:
        raise FormError(email=sentence(refusal)) from refusal
    message = "If this address has an account, we have sent it an email with a link. The link works once, for one hour."
    return Redirect(SIGN_IN, message, "")


@pages.page("/new-password/{token}", audience=Audience.ANYONE)
async def new_password_page(visit: Visit) -> View:
    return View("authentication/new_password.html", {"link": await _valid_link(visit, "reset")})


@pages.form("/new-password/{token}", on=new_password_page)
async def reset_password(visit: Visit, form: NewPasswordForm) -> Redirect:
    try:
        await registration.reset_password(visit.by, visit.path_param("token"), form.password)
    except WeakPassword as refusal:
        raise FormError(password=sentence(refusal)) from refusal
    return Redirect(SIGN_IN, "Your password is changed. Sign in with the new one.", session="")
