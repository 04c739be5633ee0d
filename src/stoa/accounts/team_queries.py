"""SQL for the teams of apps and stores: members, invitations and offers of the ownership."""

from datetime import datetime

import msgspec

from stoa.accounts.contract import Invitation, InvitationToTeam, Kind, Member, OfferedOwnership, OwnershipOffer
from stoa.accounts.queries import ROLE_ON_APP, ROLE_ON_STORE
from stoa.db.query import Command, Query

_TEAM = "it finds the people of a team, by the team"
_PERSON = "it finds what a person was offered, by the person"
_CHORE = "maintenance covers all teams"


class LockedMember(msgspec.Struct):
    account_id: int
    role: str


class AddedInvitation(msgspec.Struct):
    id: int
    expires_at: datetime


class OfferedTransfer(msgspec.Struct):
    id: int
    from_account: int


def _members(table: str, column: str, role: str) -> Query[Member]:
    return Query(
        Member,
        f"""SELECT a.id AS account_id, a.name, a.email, {role} AS role, a.status, o.created_at AS joined_at
              FROM {table} o JOIN accounts a ON a.id = o.account_id
             WHERE o.{column} = $1 ORDER BY o.created_at, a.id LIMIT 200""",
        unbound=_TEAM,
    )


# The lock serializes all changes of a team, so that two owners cannot leave at the same time.
def _lock_members(table: str, column: str, role: str) -> Query[LockedMember]:
    return Query(
        LockedMember,
        f"SELECT o.account_id, {role} AS role FROM {table} o WHERE o.{column} = $1 ORDER BY o.account_id FOR UPDATE",
        unbound=_TEAM,
    )


def _invitations(column: str) -> Query[Invitation]:
    return Query(
        Invitation,
        f"""SELECT i.id, i.email, i.role, a.name AS invited_by, i.created_at, i.expires_at, m.status AS mail
              FROM team_invitations i LEFT JOIN accounts a ON a.id = i.invited_by LEFT JOIN mails m ON m.id = i.mail_id
             WHERE i.{column} = $1 AND i.expires_at > now() ORDER BY i.id DESC LIMIT 200""",
        unbound=_TEAM,
    )


def _offer(column: str) -> Query[OwnershipOffer]:
    return Query(
        OwnershipOffer,
        f"""SELECT o.from_account, f.name AS from_name, o.to_account, t.name AS to_name, o.expires_at
              FROM ownership_offers o JOIN accounts f ON f.id = o.from_account JOIN accounts t ON t.id = o.to_account
             WHERE o.{column} = $1 AND o.expires_at > now()""",
        unbound=_TEAM,
    )


_OF_APP, _OF_STORE = ("account_apps", "app_id", ROLE_ON_APP), ("account_stores", "store_id", ROLE_ON_STORE)
MEMBERS_OF_APP, MEMBERS_OF_STORE = _members(*_OF_APP), _members(*_OF_STORE)
LOCK_MEMBERS_OF_APP, LOCK_MEMBERS_OF_STORE = _lock_members(*_OF_APP), _lock_members(*_OF_STORE)
INVITATIONS_TO_APP, INVITATIONS_TO_STORE = _invitations("app_id"), _invitations("store_id")
OFFER_OF_APP, OFFER_OF_STORE = _offer("app_id"), _offer("store_id")
MEMBERS: dict[Kind, Query[Member]] = {"app": MEMBERS_OF_APP, "store": MEMBERS_OF_STORE}
LOCK_MEMBERS: dict[Kind, Query[LockedMember]] = {"app": LOCK_MEMBERS_OF_APP, "store": LOCK_MEMBERS_OF_STORE}
INVITATIONS: dict[Kind, Query[Invitation]] = {"app": INVITATIONS_TO_APP, "store": INVITATIONS_TO_STORE}
OFFER: dict[Kind, Query[OwnershipOffer]] = {"app": OFFER_OF_APP, "store": OFFER_OF_STORE}

# In the statements below, $1 is the number of an app and $2 that of a store; one of them is null.
_OF_TEAM = "(app_id = $1::bigint OR store_id = $2::bigint)"

COUNT_INVITATIONS = Query(
    int, f"SELECT count(*) FROM team_invitations WHERE {_OF_TEAM} AND expires_at > now()", unbound=_TEAM
)
# An invitation that was emailed a moment ago: a form that is submitted twice must not send it twice.
MAILED_INVITATION = Query(
    datetime,
    """SELECT i.expires_at FROM team_invitations i JOIN mails m ON m.id = i.mail_id
        WHERE (i.app_id = $1::bigint OR i.store_id = $2::bigint) AND i.email = $3 AND i.role = $4 AND i.expires_at > now()
          AND m.status <> 'failed' AND m.created_at > now() - make_interval(mins => $5)""",
    unbound=_TEAM,
)
ADD_INVITATION = Query(
    AddedInvitation,
    """INSERT INTO team_invitations (app_id, store_id, email, role, token_hash, invited_by, expires_at, mail_id)
       VALUES ($1, $2, $3, $4, $5, $6, now() + make_interval(hours => $7), $8) RETURNING id, expires_at""",
    unbound=_TEAM,
)


# Statements that end invitations return the emails that carry them, or 0.
def _end(condition: str, reason: str) -> Query[int]:
    return Query(int, f"DELETE FROM team_invitations WHERE {condition} RETURNING coalesce(mail_id, 0)", unbound=reason)


REPLACE_INVITATION = _end(f"{_OF_TEAM} AND email = $3", _TEAM)
REVOKE_INVITATION = _end(f"{_OF_TEAM} AND id = $3", _TEAM)
REVOKE_INVITATIONS_OF = _end(f"{_OF_TEAM} AND invited_by = $3", _TEAM)
FIND_INVITATION = Query(
    InvitationToTeam,
    """SELECT i.id, CASE WHEN i.app_id IS NULL THEN 'store' ELSE 'app' END AS kind,
              coalesce(i.app_id, i.store_id) AS team_id, coalesce(p.name, s.name) AS team_name,
              coalesce(s.handle, '') AS handle, i.email, i.role, a.name AS invited_by,
              EXISTS (SELECT FROM accounts e WHERE e.email = i.email) AS account_exists
         FROM team_invitations i LEFT JOIN apps p ON p.id = i.app_id LEFT JOIN stores s ON s.id = i.store_id
              LEFT JOIN accounts a ON a.id = i.invited_by
        WHERE i.token_hash = ANY ($1::bytea[]) AND i.expires_at > now() AND p.status IS DISTINCT FROM 'deleted'""",
    unbound=_PERSON,
)
USE_INVITATION = _end("id = $1 AND expires_at > now()", _PERSON)

ADD_OFFER = Command(
    """INSERT INTO ownership_offers (app_id, store_id, from_account, to_account, expires_at)
       VALUES ($1, $2, $3, $4, now() + make_interval(hours => $5))""",
    unbound=_TEAM,
)
DELETE_OFFER = Command(f"DELETE FROM ownership_offers WHERE {_OF_TEAM}", unbound=_TEAM)
DELETE_OFFERS_OF = Command(
    f"DELETE FROM ownership_offers WHERE {_OF_TEAM} AND $3 IN (from_account, to_account)", unbound=_TEAM
)
LOCK_OFFER = Query(
    OfferedTransfer,
    f"""SELECT id, from_account FROM ownership_offers
         WHERE {_OF_TEAM} AND to_account = $3 AND expires_at > now() FOR UPDATE""",
    unbound=_TEAM,
)
OFFERS_TO_ACCOUNT = Query(
    OfferedOwnership,
    """SELECT CASE WHEN o.app_id IS NULL THEN 'store' ELSE 'app' END AS kind, coalesce(o.app_id, 0) AS app_id,
              coalesce(s.handle, '') AS handle, coalesce(p.name, s.name) AS name, a.name AS from_name
         FROM ownership_offers o JOIN accounts a ON a.id = o.from_account
              LEFT JOIN apps p ON p.id = o.app_id LEFT JOIN stores s ON s.id = o.store_id
        WHERE o.to_account = $1 AND o.expires_at > now() AND p.status IS DISTINCT FROM 'deleted'
        ORDER BY o.id LIMIT 20""",
    unbound=_PERSON,
)

# --- maintenance ------------------------------------------------------------------------------------------

FORGET_OLD_INVITATIONS = Command(
    """DELETE FROM team_invitations WHERE id IN (
           SELECT id FROM team_invitations WHERE expires_at < now() LIMIT 1000)""",
    unbound=_CHORE,
)
FORGET_OLD_OFFERS = Command(
    "DELETE FROM ownership_offers WHERE id IN (SELECT id FROM ownership_offers WHERE expires_at < now() LIMIT 1000)",
    unbound=_CHORE,
)
