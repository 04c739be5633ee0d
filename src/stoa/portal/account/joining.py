"""The page of an invitation to a team: accept it while signed in, or by creating an account."""

from urllib.parse import quote

import msgspec

from stoa.access.contract import AccessRefused
from stoa.accounts import sessions, teams
from stoa.accounts.contract import InvitationToTeam
from stoa.accounts.devices import remember_device
from stoa.accounts.refusals import EmailTaken, LinkExpired, WeakPassword
from stoa.portal.account.authentication import NewPassword, PersonName
from stoa.portal.kit.error_pages import not_found
from stoa.portal.kit.forms import FormError, sentence
from stoa.portal.kit.pages import ROOT, SIGN_IN, Audience, Pages, Redirect, View
from stoa.portal.kit.visit import Visit

pages = Pages()


class NewAccountForm(msgspec.Struct):
    name: PersonName
    password: NewPassword


@pages.page("/join/{invitation}", audience=Audience.ANYONE)
async def join_page(visit: Visit) -> View:
    found = await teams.find_invitation(visit.by, visit.path_param("invitation"))
    if found is None:
        raise not_found()
    context = {
        "invitation": found,
        "signed_in": _signed_in(visit),
        "sign_in": _sign_in(visit),
        "may_sign_up": visit.settings.sign_up != "closed",
    }
    return View("authentication/join.html", context)


@pages.form("/join/{invitation}/accept", on=join_page)
async def accept_team_invitation(visit: Visit) -> Redirect:
    if not _signed_in(visit):
        return Redirect(_sign_in(visit))
    token, me = visit.path_param("invitation"), visit.me
    try:
        return _welcome(await teams.accept_invitation(visit.by, token, me.account_id, me.email))
    except LinkExpired:
        raise not_found() from None


@pages.form("/join/{invitation}/decline", on=join_page)
async def decline_team_invitation(visit: Visit) -> Redirect:
    try:
        await teams.decline_invitation(visit.by, visit.path_param("invitation"))
    except LinkExpired:
        raise not_found() from None
    return Redirect(ROOT if _signed_in(visit) else SIGN_IN, "Invitation declined. Its link no longer works.")


@pages.form("/join/{invitation}", on=join_page)
async def join_with_new_account(visit: Visit, form: NewAccountForm) -> Redirect:
    if visit.settings.sign_up == "closed" or _signed_in(visit):
        raise not_found()
    try:
        joined, account = await teams.join_with_new_account(
            visit.by, visit.path_param("invitation"), form.name, form.password
        )
    except LinkExpired:
        raise not_found() from None
    except WeakPassword as refusal:
        raise FormError(password=sentence(refusal)) from refusal
    except EmailTaken as refusal:
        raise FormError({"": sentence(refusal)}) from refusal
    except AccessRefused as refusal:
        raise FormError(name=sentence(refusal)) from refusal
    session = await sessions.open_session(
        visit.by, visit.db, account.id, complete=True, peer=visit.peer, agent=visit.agent
    )
    device = visit.device
    await remember_device(visit.by, visit.db, account.id, device)
    return msgspec.structs.replace(_welcome(joined), session=session.token, device=device)


def _welcome(joined: InvitationToTeam) -> Redirect:
    path = f"apps/{joined.team_id}" if joined.kind == "app" else f"stores/{joined.handle}"
    return Redirect(f"{ROOT}/{path}", f"Welcome to the team of {joined.team_name}. Your role: {joined.role}.")


def _signed_in(visit: Visit) -> bool:
    return visit.account is not None and visit.account.stage == "signed in"


def _sign_in(visit: Visit) -> str:
    return f"{SIGN_IN}?next={quote(f'{ROOT}/join/' + visit.path_param('invitation'))}"
