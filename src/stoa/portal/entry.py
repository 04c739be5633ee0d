"""The way in and out: sign-in, sign-up, the first set-up, invitations, a new password, and the theme."""

from typing import Annotated
from urllib.parse import quote

import msgspec

from stoa.accounts import registration, second_factor, sessions
from stoa.accounts.contract import (
    Account,
    EmailTaken,
    FactorLocked,
    InvalidEmail,
    Link,
    Purpose,
    SignInAgain,
    WeakPassword,
    WrongCode,
    WrongCredentials,
)
from stoa.portal.answering import SECOND_FACTOR, SIGN_IN, not_found, sentence
from stoa.portal.forms import Wrong, text
from stoa.portal.guard import THEMES, local_path
from stoa.portal.pages import ROOT, Pages, Redirect, View, Who
from stoa.portal.visit import Visit

pages = Pages()

Email = Annotated[str, text("Give an e-mail address, such as maria@example.com.", least=3, most=254)]
Person = Annotated[str, text("Give a name of 1 to 100 characters.", least=1, most=100)]
Password = Annotated[str, text("Type your password.", least=1, most=1024, secret=True)]
NewPassword = Annotated[
    str, text("Choose at least 12 characters. A short sentence is a good one.", least=12, most=256, secret=True)
]
Code = Annotated[str, text("Type the six digits, or a recovery code.", least=6, most=20, secret=True)]


class SignIn(msgspec.Struct):
    email: Email
    password: Password
    next: str = ""


class SignUp(msgspec.Struct):
    name: Person
    email: Email
    password: NewPassword


class Accepted(msgspec.Struct):
    name: Person
    password: NewPassword
    email: Annotated[str, text("Give an e-mail address, such as maria@example.com.", most=254)] = ""


class ChosenPassword(msgspec.Struct):
    password: NewPassword


class SecondFactor(msgspec.Struct):
    code: Code
    next: str = ""


class Theme(msgspec.Struct):
    theme: str = ""
    next: str = ""


@pages.page("/sign-in", who=Who.GUEST)
async def sign_in_page(visit: Visit) -> View:
    context = {"next": local_path(visit.query("next")), "sign_up": visit.settings.sign_up}
    return View("entry/sign_in.html", context)


@pages.form("/sign-in", on=sign_in_page)
async def sign_in(visit: Visit, form: SignIn) -> Redirect:
    try:
        opened = await sessions.sign_in(
            visit.by, visit.db, form.email, form.password, peer=visit.peer, agent=visit.agent
        )
    except WrongCredentials as refusal:
        raise Wrong({"": sentence(refusal)}) from refusal
    onward = local_path(form.next)
    if opened.complete:
        return Redirect(onward, session=opened.token)
    return Redirect(SECOND_FACTOR if onward == ROOT else f"{SECOND_FACTOR}?next={quote(onward)}", session=opened.token)


@pages.page("/second-factor", who=Who.HALFWAY)
async def second_factor_page(visit: Visit) -> View:
    return View("entry/second_factor.html", {"next": local_path(visit.query("next"))})


@pages.form("/second-factor", on=second_factor_page)
async def give_second_factor(visit: Visit, form: SecondFactor) -> Redirect:
    try:
        opened = await second_factor.complete_sign_in(
            visit.by, visit.me, visit.session, form.code, peer=visit.peer, agent=visit.agent
        )
    except WrongCode as refusal:
        raise Wrong(code=sentence(refusal)) from refusal
    except (FactorLocked, SignInAgain) as refusal:
        await sessions.sign_out(visit.by, visit.session)
        return Redirect(SIGN_IN, sentence(refusal), "warn", session="")
    return Redirect(local_path(form.next), session=opened.token)


@pages.page("/sign-up", who=Who.GUEST)
async def sign_up_page(visit: Visit) -> View:
    return View("entry/sign_up.html", {"mode": visit.settings.sign_up})


@pages.form("/sign-up", on=sign_up_page)
async def sign_up(visit: Visit, form: SignUp) -> Redirect:
    if visit.settings.sign_up != "open":
        raise Wrong({"": "This service is by invitation. Ask whoever runs it for one."}, status=403)
    try:
        account = await registration.sign_up(visit.by, visit.db, form.email, form.name, form.password, peer=visit.peer)
    except (EmailTaken, InvalidEmail) as refusal:
        raise Wrong(email=sentence(refusal)) from refusal
    except WeakPassword as refusal:
        raise Wrong(password=sentence(refusal)) from refusal
    return await _let_in(visit, account, f"Welcome, {account.name}.")


async def _let_in(visit: Visit, account: Account, words: str) -> Redirect:
    opened = await sessions.open_session(
        visit.by, visit.db, account.id, complete=True, peer=visit.peer, agent=visit.agent
    )
    return Redirect(ROOT, words, session=opened.token)


async def _promised(visit: Visit, purpose: Purpose) -> Link:
    link = await registration.find_link(visit.by, purpose, visit.place("token"))
    if link is None:
        raise not_found()
    return link


@pages.page("/set-up/{token}", who=Who.ANYONE)
async def set_up_page(visit: Visit) -> View:
    await _promised(visit, "set-up")
    return View("entry/set_up.html")


@pages.form("/set-up/{token}", on=set_up_page)
async def set_up(visit: Visit, form: Accepted) -> Redirect:
    return await _accept(visit, "set-up", form, "This service is yours now.")


@pages.page("/invitation/{token}", who=Who.ANYONE)
async def invitation_page(visit: Visit) -> View:
    if visit.settings.sign_up == "closed":
        raise not_found()
    return View("entry/invitation.html", {"link": await _promised(visit, "invitation")})


@pages.form("/invitation/{token}", on=invitation_page)
async def accept_invitation(visit: Visit, form: Accepted) -> Redirect:
    if visit.settings.sign_up == "closed":
        raise not_found()
    return await _accept(visit, "invitation", form, f"Welcome, {form.name}.")


async def _accept(visit: Visit, purpose: Purpose, form: Accepted, words: str) -> Redirect:
    try:
        account = await registration.accept(
            visit.by, purpose, visit.place("token"), email=form.email, name=form.name, password=form.password
        )
    except (EmailTaken, InvalidEmail) as refusal:
        raise Wrong(email=sentence(refusal)) from refusal
    except WeakPassword as refusal:
        raise Wrong(password=sentence(refusal)) from refusal
    return await _let_in(visit, account, words)


@pages.page("/new-password/{token}", who=Who.ANYONE)
async def new_password_page(visit: Visit) -> View:
    return View("entry/new_password.html", {"link": await _promised(visit, "reset")})


@pages.form("/new-password/{token}", on=new_password_page)
async def choose_password(visit: Visit, form: ChosenPassword) -> Redirect:
    try:
        await registration.choose_password(visit.by, visit.place("token"), form.password)
    except WeakPassword as refusal:
        raise Wrong(password=sentence(refusal)) from refusal
    return Redirect(SIGN_IN, "Your new password is set. Sign in with it.", session="")


@pages.page("/theme", who=Who.ANYONE)
async def theme_page(visit: Visit) -> Redirect:
    return Redirect(ROOT)


@pages.form("/theme", on=theme_page)
async def choose_theme(visit: Visit, form: Theme) -> Redirect:
    theme = form.theme if form.theme in THEMES else THEMES[0]
    return Redirect(local_path(form.next), theme=theme)
