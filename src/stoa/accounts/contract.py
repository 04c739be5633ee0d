"""Account types that the portal and the command line share."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from enum import IntEnum
from typing import Literal

import msgspec

Role = Literal["owner", "developer", "manager", "viewer"]
Kind = Literal["app", "store"]
Purpose = Literal["set-up", "invitation", "reset"]


class Right(IntEnum):
    """What a role allows on an app or a store; a higher right includes the lower ones."""

    VIEW = 1
    CHANGE = 2
    OWN = 3


RIGHTS: Mapping[str, Right] = {
    "viewer": Right.VIEW,
    "developer": Right.CHANGE,
    "manager": Right.CHANGE,
    "owner": Right.OWN,
}
# The roles of each kind of team, the strongest first.
ROLES: Mapping[Kind, tuple[Role, ...]] = {
    "app": ("owner", "developer", "viewer"),
    "store": ("owner", "manager", "viewer"),
}


class Account(msgspec.Struct):
    """A person who can sign in; an operator also sees the pages that manage the service."""

    id: int
    email: str
    name: str
    operator: bool
    status: str
    two_factor: bool
    created_at: datetime
    verified: bool  # the email address
    disabled_reason: str | None = None


class SessionAccount(msgspec.Struct):
    """The account behind a session; at stage `password`, the code of two-factor authentication is still missing."""

    session_id: int
    stage: str
    stale: bool
    account_id: int
    email: str
    name: str
    operator: bool
    two_factor: bool


class Session(msgspec.Struct):
    """A signed-in browser."""

    id: int
    address: str
    agent: str
    created_at: datetime
    seen_at: datetime


class NewSession(msgspec.Struct):
    """A new session with its token, which only the browser stores; `complete` is false while a code is missing."""

    token: str
    complete: bool


class Link(msgspec.Struct):
    """A single-use link: first set-up, invitation or password reset."""

    purpose: str
    email: str
    operator: bool
    account_id: int | None
    two_factor: bool  # whether a reset also turns two-factor authentication off


class NewLink(msgspec.Struct):
    """A new link; its address is shown only once. It is empty if an email carries the link: only its recipient sees it."""

    email: str
    address: str
    expires_at: datetime


class AccountInvitation(msgspec.Struct):
    """A pending invitation to create an account, as operators see it; `mail` is the status of the email that carries it."""

    reference: str
    email: str
    operator: bool
    created_at: datetime
    expires_at: datetime
    mail: str | None


class OwnedApp(msgspec.Struct):
    """An app that an account can see; its role says what else it may do."""

    id: int
    client_id: str
    name: str
    scopes: list[str]
    status: str
    role: str
    installations: int
    created_at: datetime


class OwnedStore(msgspec.Struct):
    """A store that an account can see; its role says what else it may do."""

    id: int
    handle: str
    name: str
    currency: str
    prices_include_tax: bool
    timezone: str
    status: str
    role: str
    development: bool
    installations: int
    requests: int
    created_at: datetime
    erase_at: datetime | None
    shard: str


class Developer(msgspec.Struct):
    """A person who owns an app, as merchants see them before they install it: name, contact, and since when they are here."""

    name: str
    email: str
    since: datetime
    verified: bool  # the email address


class Team(msgspec.Struct, frozen=True):
    """The people who have a role on an app or a store."""

    kind: Kind
    id: int
    name: str


class Member(msgspec.Struct):
    """An account with a role in a team."""

    account_id: int
    name: str
    email: str
    role: str
    status: str
    joined_at: datetime


class Invitation(msgspec.Struct):
    """A pending invitation to a team, as the team sees it; an operator made one without `invited_by`.

    `mail` is the status of the email that carries it; None if somebody passed the link on.
    """

    id: int
    email: str
    role: str
    invited_by: str | None
    created_at: datetime
    expires_at: datetime
    mail: str | None


class InvitationToTeam(msgspec.Struct):
    """A pending invitation, as the invited person sees it; `account_exists` if somebody has signed up with its address."""

    id: int
    kind: str
    team_id: int
    team_name: str
    handle: str
    email: str
    role: str
    invited_by: str | None
    account_exists: bool


class OwnershipOffer(msgspec.Struct):
    """An offer of the ownership that awaits the receiver's confirmation."""

    from_account: int
    from_name: str
    to_account: int
    to_name: str
    expires_at: datetime


class OfferedOwnership(msgspec.Struct):
    """An offer, as the receiver's overview lists it."""

    kind: str
    app_id: int
    handle: str
    name: str
    from_name: str


class Listing(msgspec.Struct):
    """What an app shows to merchants: its homepage, and a reason for each scope."""

    homepage: str = ""
    reasons: dict[str, str] = {}

    def without_reason(self, scopes: Sequence[str]) -> list[str]:
        """The scopes whose reason was left empty; an app that an operator created has no reasons at all."""
        return [scope for scope in scopes if self.reasons.get(scope) == ""]


class InstallRequest(msgspec.Struct):
    """A request of an app to be installed on a store."""

    store: str
    store_name: str
    app_id: int
    app_name: str
    scopes: list[str]
    message: str
    status: str
    created_at: datetime


class Announcement(msgspec.Struct):
    """A text that everybody who is signed in sees between two times, with a link if `link_url` is set."""

    id: int
    text: str
    starts_at: datetime
    ends_at: datetime
    link_url: str | None
    link_label: str | None


class CurrentAnnouncement(msgspec.Struct):
    """An announcement that is shown now, for one person."""

    id: int
    text: str
    starts_at: datetime
    dismissed: bool
    link_url: str | None
    link_label: str | None
