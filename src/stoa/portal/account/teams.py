"""Team pages of apps and stores: members, invitations, leaving, and the transfer of ownership."""

from collections.abc import Awaitable
from typing import Annotated

import msgspec

from stoa.access.contract import AccessRefused, TooManyAttempts
from stoa.accounts import teams
from stoa.accounts.contract import ROLES, Right, Team
from stoa.accounts.rate_limit import limit_rate
from stoa.accounts.refusals import AlreadyMember, InvalidEmail, InvalidRole, TooManyInvitations
from stoa.portal.kit.forms import ConfirmedForm, Email, FormError, sentence, text
from stoa.portal.kit.links import invitation_made
from stoa.portal.kit.pages import ROOT, Pages, Redirect, View
from stoa.portal.kit.visit import Visit

pages = Pages()
DUTIES = {
    "owner": "everything, also the team and the deletion",
    "developer": "change the app, see secrets and payloads",
    "manager": "change the store, see customers",
    "viewer": "look, without personal data and secrets",
}
_ROLE_MESSAGE = "Select a role."
_APP, _STORE = "/apps/{app_id:int}/team", "/stores/{handle}/team"


class InvitationForm(msgspec.Struct):
    email: Email
    role: Annotated[str, text(_ROLE_MESSAGE, min_length=1, max_length=20)]


class RoleForm(msgspec.Struct):
    role: Annotated[str, text(_ROLE_MESSAGE, min_length=1, max_length=20)]


class MemberForm(ConfirmedForm, kw_only=True):
    member: Annotated[int, msgspec.Meta(ge=1, le=2**63 - 1, extra={"message": "Select a member."})]


@pages.page(_APP, nav="list_apps")
async def app_team(visit: Visit) -> View:
    return await _team_page(visit, "apps/team.html")


@pages.page(_STORE, nav="list_stores")
async def store_team(visit: Visit) -> View:
    return await _team_page(visit, "stores/team.html")


async def _team_page(visit: Visit, template: str) -> View:
    team, owner = _team(visit), visit.may(Right.OWN)
    members = await teams.members_of(visit.db, team)
    context = {
        "team": team,
        "members": members,
        "choices": [(each.account_id, f"{each.name[:60]} ({each.email[:60]})") for each in members],
        "invitations": await teams.invitations_to(visit.db, team) if owner else [],
        "offer": await teams.offer_of(visit.db, team),
        "sends": bool(visit.settings.smtp_url),
        "roles": [(role, f"{role.capitalize()}: {DUTIES[role]}") for role in ROLES[team.kind]],
    }
    return View(template, context)


@pages.form(f"{_APP}/invite", on=app_team, right=Right.OWN, name="app_invite")
@pages.form(f"{_STORE}/invite", on=store_team, right=Right.OWN, name="store_invite")
async def invite(visit: Visit, form: InvitationForm) -> View | Redirect:
    team, me = _team(visit), visit.me.account_id
    try:
        await limit_rate(visit.by, visit.db, me, "team-invitation")
        link = await teams.invite(visit.by, team, form.email, form.role, invited_by=me, by_email=True)
    except TooManyAttempts as refusal:
        message = "You have sent ten invitations in the last minute. Wait a minute, then try again."
        raise FormError({"": message}, status=429) from refusal
    except TooManyInvitations as refusal:
        raise FormError({"email": sentence(refusal)}, status=429) from refusal
    except (InvalidEmail, AlreadyMember) as refusal:
        raise FormError(email=sentence(refusal)) from refusal
    except InvalidRole as refusal:
        raise FormError(role=_ROLE_MESSAGE) from refusal
    return invitation_made(link, f"Invitation to {team.name}", _url(visit), "Team")


@pages.form(
    f"{_APP}/invitations/{{invitation_id:int}}/revoke", on=app_team, right=Right.OWN, name="app_revoke_invitation"
)
@pages.form(
    f"{_STORE}/invitations/{{invitation_id:int}}/revoke", on=store_team, right=Right.OWN, name="store_revoke_invitation"
)
async def revoke_invitation(visit: Visit) -> Redirect:
    return await _done(
        visit,
        teams.revoke_invitation(visit.by, _team(visit), visit.path_param("invitation_id")),
        "Invitation revoked. Its link no longer works.",
    )


@pages.form(f"{_APP}/members/{{member_id:int}}", on=app_team, right=Right.OWN, name="app_change_role")
@pages.form(f"{_STORE}/members/{{member_id:int}}", on=store_team, right=Right.OWN, name="store_change_role")
async def change_role(visit: Visit, form: RoleForm) -> Redirect:
    change = teams.change_role(visit.by, _team(visit), visit.path_param("member_id"), form.role)
    return await _done(visit, change, "Role changed.")


@pages.form(f"{_APP}/remove", on=app_team, right=Right.OWN, name="app_remove_member")
@pages.form(f"{_STORE}/remove", on=store_team, right=Right.OWN, name="store_remove_member")
async def remove_member(visit: Visit, form: MemberForm) -> Redirect:
    if form.member == visit.me.account_id:
        raise FormError(member="To end your own membership, leave the team below.")
    removed = teams.remove_member(visit.by, _team(visit), form.member)
    return await _done(visit, removed, "Member removed.")


@pages.form(f"{_APP}/leave", on=app_team, right=Right.VIEW, name="app_leave")
@pages.form(f"{_STORE}/leave", on=store_team, right=Right.VIEW, name="store_leave")
async def leave(visit: Visit, form: ConfirmedForm) -> Redirect:
    team = _team(visit)
    left = teams.remove_member(visit.by, team, visit.me.account_id, left=True)
    return await _done(visit, left, f"You left the team of {team.name}.", to=f"{ROOT}/{team.kind}s")


@pages.form(f"{_APP}/offer", on=app_team, right=Right.OWN, name="app_offer_ownership")
@pages.form(f"{_STORE}/offer", on=store_team, right=Right.OWN, name="store_offer_ownership")
async def offer_ownership(visit: Visit, form: MemberForm) -> Redirect:
    offer = teams.offer_ownership(visit.by, _team(visit), visit.me.account_id, form.member)
    return await _done(visit, offer, "Ownership offered. The member finds it on the overview, and must confirm it.")


@pages.form(f"{_APP}/offer/withdraw", on=app_team, right=Right.OWN, name="app_withdraw_offer")
@pages.form(f"{_STORE}/offer/withdraw", on=store_team, right=Right.OWN, name="store_withdraw_offer")
async def withdraw_offer(visit: Visit) -> Redirect:
    return await _done(visit, teams.withdraw_offer(visit.by, _team(visit)), "Offer withdrawn.")


@pages.form(f"{_APP}/offer/accept", on=app_team, right=Right.VIEW, name="app_accept_ownership")
@pages.form(f"{_STORE}/offer/accept", on=store_team, right=Right.VIEW, name="store_accept_ownership")
async def accept_ownership(visit: Visit) -> Redirect:
    team = _team(visit)
    accepted = teams.accept_ownership(visit.by, team, visit.me.account_id)
    return await _done(visit, accepted, f"You own {team.name} now.")


@pages.form(f"{_APP}/offer/decline", on=app_team, right=Right.VIEW, name="app_decline_ownership")
@pages.form(f"{_STORE}/offer/decline", on=store_team, right=Right.VIEW, name="store_decline_ownership")
async def decline_ownership(visit: Visit) -> Redirect:
    return await _done(visit, teams.decline_ownership(visit.by, _team(visit), visit.me.account_id), "Offer declined.")


async def _done(visit: Visit, change: Awaitable[None], notice: str, to: str = "") -> Redirect:
    """Make a change; the team page shows why it was refused, for example because the page was stale."""
    try:
        await change
    except AccessRefused as refusal:
        return Redirect(_url(visit), sentence(refusal), "warn")
    return Redirect(to or _url(visit), notice)


def _team(visit: Visit) -> Team:
    if hasattr(visit, "app"):
        return Team("app", visit.app.id, visit.app.name)
    return Team("store", visit.store.id, visit.store.name)


def _url(visit: Visit) -> str:
    return f"{ROOT}/apps/{visit.app.id}/team" if hasattr(visit, "app") else f"{ROOT}/stores/{visit.store.handle}/team"
