"""Teams of apps and stores: members with roles, invitations, and the transfer of ownership.

Each change is one transaction that locks the members of the team and records who made it in the audit log of the store, or
under the app in the audit log of the service.
"""

from collections.abc import Sequence
from typing import cast

from stoa.access.audit import SERVICE
from stoa.access.credentials import keyed_hash, keyed_hashes
from stoa.access.operator import Operator, find_app, known_store
from stoa.accounts import passwords
from stoa.accounts.contract import (
    ROLES,
    Account,
    Invitation,
    InvitationToTeam,
    Kind,
    Member,
    NewLink,
    OfferedOwnership,
    OwnershipOffer,
    Team,
)
from stoa.accounts.invitation_mail import QUIET_MINUTES, carry, team_invitation
from stoa.accounts.ownership import (
    DEVELOPMENT,
    LIVE,
    MAX_APPS,
    MAX_DEVELOPMENT_STORES,
    MAX_STORES,
    check_role,
    end_promises,
    lock_role,
)
from stoa.accounts.queries import (
    COUNT_APPS,
    COUNT_STORES,
    LOCK_ACCOUNT,
    REMOVE_APP_ROLE,
    REMOVE_STORE_ROLE,
    SET_APP_ROLE,
    SET_STORE_ROLE,
)
from stoa.accounts.refusals import (
    AlreadyMember,
    EmailTaken,
    LastOwner,
    LinkExpired,
    NoSuchInvitation,
    NoSuchMember,
    NoSuchOffer,
    NotAnOwner,
    TooManyApps,
    TooManyMembers,
    TooManyStores,
    WrongInvitee,
)
from stoa.accounts.registration import insert_account
from stoa.accounts.rules import check_password, check_person_name, normalize_email
from stoa.accounts.team_queries import (
    ADD_INVITATION,
    ADD_OFFER,
    COUNT_INVITATIONS,
    DELETE_OFFER,
    FIND_INVITATION,
    INVITATIONS,
    LOCK_MEMBERS,
    LOCK_OFFER,
    MAILED_INVITATION,
    MEMBERS,
    OFFER,
    OFFERS_TO_ACCOUNT,
    REPLACE_INVITATION,
    REVOKE_INVITATION,
    REVOKE_INVITATIONS_OF,
    USE_INVITATION,
    LockedMember,
)
from stoa.accounts.verification import verified_by_mail
from stoa.db.errors import PostgresError, violates
from stoa.db.query import Executor
from stoa.mail.outbox import discard
from stoa.settings import service_url

INVITATION_HOURS, OFFER_HOURS = 7 * 24, 7 * 24
MAX_MEMBERS = 100
PATH = "join"  # of invitations, below /portal


async def find_team(db: Executor, *, store: str = "", app: str = "") -> Team:
    """Return the team of a store by its handle, or of an app by its client ID or number."""
    if store:
        row = await known_store(db, store)
        return Team("store", row.id, row.name)
    found = await find_app(db, app)
    return Team("app", found.id, found.name)


async def members_of(db: Executor, team: Team) -> list[Member]:
    return await MEMBERS[team.kind].all(db, team.id)


async def invitations_to(db: Executor, team: Team) -> list[Invitation]:
    return await INVITATIONS[team.kind].all(db, team.id)


async def offer_of(db: Executor, team: Team) -> OwnershipOffer | None:
    return await OFFER[team.kind].maybe(db, team.id)


async def offers_to(db: Executor, account_id: int) -> list[OfferedOwnership]:
    return await OFFERS_TO_ACCOUNT.all(db, account_id)


# --- invitations -------------------------------------------------------------------------------------------


async def invite(
    by: Operator, team: Team, email: str, role: str, *, invited_by: int | None = None, by_email: bool = False
) -> NewLink:
    """Create the link with which the person with this address joins the team; an earlier link of theirs ends.

    With `by_email`, an email carries the link if the service sends email.
    """
    email, role = normalize_email(email), check_role(team.kind, role)
    async with by.db.transaction() as db:
        locked = await _lock_for_owner(by, db, team)
        if any(member.email == email for member in await members_of(db, team)):
            raise AlreadyMember
        mailed = await MAILED_INVITATION.maybe(db, *_ids(team), email, role, QUIET_MINUTES) if by_email else None
        if mailed is not None:
            return NewLink(email, "", mailed)
        await discard(db, await REPLACE_INVITATION.all(db, *_ids(team), email))
        if len(locked) + await COUNT_INVITATIONS.one(db, *_ids(team)) >= MAX_MEMBERS:
            raise TooManyMembers(MAX_MEMBERS)
        carried = await carry(by, db, email, await team_invitation(db, team, role, invited_by), by_email=by_email)
        link = (keyed_hash(by.key, carried.token), invited_by, INVITATION_HOURS, carried.mail_id)
        added = await ADD_INVITATION.one(db, *_ids(team), email, role, *link)
        await _record(by, db, team, "team.invited", f"invitation:{added.id}", role=role)
    address = f"{service_url(by.settings)}/portal/{PATH}/{carried.token}" if carried.mail_id is None else ""
    return NewLink(email, address, added.expires_at)


async def revoke_invitation(by: Operator, team: Team, invitation_id: int) -> None:
    async with by.db.transaction() as db:
        await _lock_for_owner(by, db, team)
        if not await _end(db, await REVOKE_INVITATION.all(db, *_ids(team), invitation_id)):
            raise NoSuchInvitation
        await _record(by, db, team, "team.invitation_revoked", f"invitation:{invitation_id}")


async def find_invitation(by: Operator, token: str) -> InvitationToTeam | None:
    """Return the pending invitation with this token; None if it was used, revoked or has expired."""
    return await FIND_INVITATION.maybe(by.db, keyed_hashes(by.key, token))


async def accept_invitation(by: Operator, token: str, account_id: int, email: str) -> InvitationToTeam:
    """Let the account join the team; only an account with the address of the invitation can."""
    async with by.db.transaction() as db:
        invitation, mails = await _use_invitation(by, db, token)
        if invitation.email != email:
            raise WrongInvitee(invitation.email)
        await verified_by_mail(db, account_id, mails)
        await _join(by, db, invitation, account_id)
    return invitation


async def join_with_new_account(by: Operator, token: str, name: str, password: str) -> tuple[InvitationToTeam, Account]:
    """Create an account with the address of the invitation, and let it join the team."""
    found = await find_invitation(by, token)
    if found is None:
        raise LinkExpired
    name = check_person_name(name)
    check_password(password, found.email)
    password_hash = await passwords.hash_password(password)
    try:
        async with by.db.transaction() as db:
            invitation, mails = await _use_invitation(by, db, token)
            account = await insert_account(by, db, invitation.email, name, password_hash, operator=False)
            await verified_by_mail(db, account.id, mails)
            as_account = Operator(by.db, by.settings, actor=f"account:{account.id}", request_id=by.request_id)
            await _join(as_account, db, invitation, account.id)
            return invitation, account
    except PostgresError as error:
        if violates(error, "accounts_email_key"):
            raise EmailTaken from error
        raise


async def decline_invitation(by: Operator, token: str) -> InvitationToTeam:
    async with by.db.transaction() as db:
        invitation, _ = await _use_invitation(by, db, token)
        await _record(by, db, _team(invitation), "team.declined", f"invitation:{invitation.id}")
    return invitation


async def _use_invitation(by: Operator, db: Executor, token: str) -> tuple[InvitationToTeam, list[int]]:
    """Use up an invitation; returns it with the email that carried it, or 0."""
    invitation = await FIND_INVITATION.maybe(db, keyed_hashes(by.key, token))
    if invitation is None:
        raise LinkExpired
    # The team first, as every change of it: the removal of the person who invited may be ending the invitation.
    await LOCK_MEMBERS[_team(invitation).kind].all(db, invitation.team_id)
    mails = await USE_INVITATION.all(db, invitation.id)
    if not await _end(db, mails):
        raise LinkExpired
    return invitation, mails


async def _end(db: Executor, mails: Sequence[int]) -> bool:
    """Discard the unsent emails of invitations that ended, one number for each; returns whether any ended."""
    await discard(db, mails)
    return bool(mails)


async def _join(by: Operator, db: Executor, invitation: InvitationToTeam, account_id: int) -> None:
    team = _team(invitation)
    locked = await LOCK_MEMBERS[team.kind].all(db, team.id)
    if any(member.account_id == account_id for member in locked):
        raise AlreadyMember
    await _set_role(db, team, account_id, invitation.role)
    if invitation.role == "owner":
        await _check_limits(db, team, account_id)
    await _record(by, db, team, "team.joined", f"account:{account_id}", role=invitation.role)


# --- members -----------------------------------------------------------------------------------------------


async def change_role(by: Operator, team: Team, account_id: int, role: str) -> None:
    """Give a member another role; the last owner keeps theirs."""
    role = check_role(team.kind, role)
    async with by.db.transaction() as db:
        await _lock_for_owner(by, db, team)
        before = await _lock_member(db, team, account_id)
        if before == role:
            return
        if before == "owner":
            await end_promises(db, *_ids(team), account_id)
        await _set_role(db, team, account_id, role)
        await _check_owner_remains(db, team)
        if role == "owner":
            await _check_limits(db, team, account_id)
        await _record(by, db, team, "team.role_changed", f"account:{account_id}", before=before, role=role)


async def remove_member(by: Operator, team: Team, account_id: int, *, left: bool = False) -> None:
    """End a membership, and the invitations that the member made; the last owner cannot leave."""
    async with by.db.transaction() as db:
        if not left:
            await _lock_for_owner(by, db, team)
        role = await _lock_member(db, team, account_id)
        await end_promises(db, *_ids(team), account_id)
        await (REMOVE_APP_ROLE if team.kind == "app" else REMOVE_STORE_ROLE).run(db, account_id, team.id)
        if role == "owner":
            await _check_owner_remains(db, team)
        await _record(by, db, team, "team.left" if left else "team.removed", f"account:{account_id}", role=role)


async def _lock_for_owner(by: Operator, db: Executor, team: Team) -> list[LockedMember]:
    """Lock the team, and refuse a person who stopped being an owner since the request began."""
    locked = await LOCK_MEMBERS[team.kind].all(db, team.id)
    me = by.account_id  # None for an operator of the service
    if me is not None and not any(each.account_id == me and each.role == "owner" for each in locked):
        raise NotAnOwner
    return locked


async def _lock_member(db: Executor, team: Team, account_id: int) -> str:
    """Lock the team, and return the role of a member."""
    role = await lock_role(db, team.kind, team.id, account_id)
    if not role:
        raise NoSuchMember
    return role


async def _check_owner_remains(db: Executor, team: Team) -> None:
    """Refuse a change after which nobody with an active account owns the app or store."""
    if not any(each.role == "owner" and each.status == "active" for each in await members_of(db, team)):
        raise LastOwner


# --- transfer of ownership ---------------------------------------------------------------------------------


async def offer_ownership(by: Operator, team: Team, from_account: int, to_account: int) -> None:
    """Offer the ownership to another member, in place of an earlier offer; nothing changes until they confirm."""
    async with by.db.transaction() as db:
        await _lock_for_owner(by, db, team)
        role = await _lock_member(db, team, to_account)
        if role == "owner":
            raise AlreadyMember
        await DELETE_OFFER.run(db, *_ids(team))
        await ADD_OFFER.run(db, *_ids(team), from_account, to_account, OFFER_HOURS)
        await _record(by, db, team, "team.ownership_offered", f"account:{to_account}")


async def withdraw_offer(by: Operator, team: Team) -> None:
    async with by.db.transaction() as db:
        await _lock_for_owner(by, db, team)
        if not await DELETE_OFFER.run(db, *_ids(team)):
            raise NoSuchOffer
        await _record(by, db, team, "team.ownership_withdrawn", f"{team.kind}:{team.id}")


async def decline_ownership(by: Operator, team: Team, account_id: int) -> None:
    async with by.db.transaction() as db:
        if await LOCK_OFFER.maybe(db, *_ids(team), account_id) is None:
            raise NoSuchOffer
        await DELETE_OFFER.run(db, *_ids(team))
        await _record(by, db, team, "team.ownership_declined", f"account:{account_id}")


async def accept_ownership(by: Operator, team: Team, account_id: int) -> None:
    """Make the receiver of an offer an owner, and the member who made it a developer or manager."""
    async with by.db.transaction() as db:
        await _lock_member(db, team, account_id)
        offer = await LOCK_OFFER.maybe(db, *_ids(team), account_id)
        if offer is None or await _lock_member(db, team, offer.from_account) != "owner":
            raise NoSuchOffer
        await DELETE_OFFER.run(db, *_ids(team))
        former = ROLES[team.kind][1]
        await _set_role(db, team, account_id, "owner")
        await _set_role(db, team, offer.from_account, former)
        await _end(db, await REVOKE_INVITATIONS_OF.all(db, *_ids(team), offer.from_account))
        await _check_limits(db, team, account_id)
        detail = {"former_owner": f"account:{offer.from_account}", "former_owner_role": former}
        await _record(by, db, team, "team.ownership_transferred", f"account:{account_id}", **detail)


async def _check_limits(db: Executor, team: Team, account_id: int) -> None:
    """Refuse an ownership beyond the number of apps and stores that one account can have, also of two at the same time."""
    await LOCK_ACCOUNT.one(db, account_id)
    if team.kind == "app":
        if await COUNT_APPS.one(db, account_id) > MAX_APPS:
            raise TooManyApps(MAX_APPS)
        return
    if await COUNT_STORES.one(db, account_id, LIVE) > MAX_STORES:
        raise TooManyStores(MAX_STORES)
    if await COUNT_STORES.one(db, account_id, DEVELOPMENT) > MAX_DEVELOPMENT_STORES:
        raise TooManyStores(MAX_DEVELOPMENT_STORES, "development stores")


# --- shared ------------------------------------------------------------------------------------------------


def _team(invitation: InvitationToTeam) -> Team:
    return Team(cast("Kind", invitation.kind), invitation.team_id, invitation.team_name)


def _ids(team: Team) -> tuple[int | None, int | None]:
    """The number of the app and that of the store, as the statements take them."""
    return (team.id, None) if team.kind == "app" else (None, team.id)


async def _set_role(db: Executor, team: Team, account_id: int, role: str) -> None:
    if team.kind == "app":
        await SET_APP_ROLE.run(db, account_id, team.id, role)
    else:
        await SET_STORE_ROLE.run(db, account_id, team.id, role, LIVE)


async def _record(by: Operator, db: Executor, team: Team, action: str, subject: str, **detail: str) -> None:
    """Write an audit entry for the team: in the log of the store, or in that of the service under the app."""
    if team.kind == "store":
        await by.record_global(db, team.id, action, subject, **detail)
    else:
        await by.record(db, SERVICE, action, f"app:{team.id}", member=subject, **detail)
