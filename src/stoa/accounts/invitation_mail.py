"""Invitations by email: their texts, and the token of their link, which only the recipient of the email learns."""

import secrets

import msgspec

from stoa.access.operator import Operator
from stoa.accounts.contract import Team
from stoa.accounts.queries import ACCOUNT_BY_EMAIL, GET_ACCOUNT, LOCK_TEXT, NEXT_INVITATION_AT
from stoa.accounts.refusals import TooManyInvitations
from stoa.db.query import Executor
from stoa.mail.contract import Content, Recipient
from stoa.mail.message import new_nonce, one_time_token
from stoa.mail.outbox import post
from stoa.notifications.news import shortened

QUIET_MINUTES = 10  # the same invitation is not emailed again so soon
MAX_A_DAY = 5  # to one address, of all teams
KINDS = ("team_invitation", "account_invitation")
_IGNORE = "If you did not expect this, ignore it: nothing happens unless you accept."


class Carried(msgspec.Struct):
    """The token of a new invitation, and the email that carries it; without one, the link is passed on by hand."""

    token: str
    mail_id: int | None


async def carry(by: Operator, db: Executor, email: str, content: Content, *, by_email: bool) -> Carried:
    """Create the token of an invitation and, if wanted and possible, the email with its link, in the caller's transaction.

    An address that got many invitations today is refused: another one would only annoy, and a link that belongs into an
    email is never shown to the person who invites.
    """
    if not by_email or not by.settings.smtp_url:
        return Carried(secrets.token_urlsafe(32), None)
    await LOCK_TEXT.one(db, email)  # of several teams at once, the later ones see the emails of the first
    until = await NEXT_INVITATION_AT.maybe(db, email, list(KINDS), MAX_A_DAY)
    if until is not None:
        raise TooManyInvitations(MAX_A_DAY, until)
    account = await ACCOUNT_BY_EMAIL.maybe(db, email)
    nonce = new_nonce(by.key)
    recipient = Recipient(account.id if account else None, email)
    [mail_id] = await post(db, msgspec.structs.replace(content, nonce=nonce), [recipient])
    return Carried(one_time_token(by.key, nonce), mail_id)


async def team_invitation(db: Executor, team: Team, role: str, invited_by: int | None) -> Content:
    person = await GET_ACCOUNT.maybe(db, invited_by) if invited_by is not None else None
    name, inviter = shortened(team.name), shortened(person.name) if person else "An operator"
    body = (
        f"{inviter} invites you to the team of the {team.kind} {name}, with the role {role}.\n\n"
        "The link works once, within seven days, and only for an account with this email address; you can create one on its "
        f"page.\n\n{_IGNORE}"
    )
    return Content(KINDS[0], f"Invitation to the team of {name}", body, "/portal/join/", "See the invitation")


def account_invitation(*, operator: bool) -> Content:
    rights = " As an operator, you manage every store, app and account of the service." if operator else ""
    body = (
        f"An operator invites you to create an account.{rights}\n\n"
        f"The link works once, within seven days, and creates an account with this email address.\n\n{_IGNORE}"
    )
    return Content(KINDS[1], "Invitation to create an account", body, "/portal/invitation/", "Create your account")
