"""The reasons for which an operation on accounts, teams and installations is refused."""

from collections.abc import Sequence
from datetime import UTC, datetime

from stoa.access.contract import AccessRefused


class WrongCredentials(AccessRefused):
    """The same message for an unknown email address and a wrong password."""

    def __init__(self) -> None:
        super().__init__("the email address or password is incorrect")


class AccountDisabled(AccessRefused):
    """Only somebody who knows the password learns that the account is disabled, and why."""

    def __init__(self, reason: str) -> None:
        why = f": {reason.rstrip('.')}" if reason else ""
        super().__init__(f"your account is disabled{why}. Ask an operator of this service")


class WrongPassword(AccessRefused):
    def __init__(self) -> None:
        super().__init__("this is not your current password")


class WrongCode(AccessRefused):
    def __init__(self) -> None:
        super().__init__("this code is incorrect or already used; enter the one that your authenticator app shows now")


class TwoFactorOn(AccessRefused):
    def __init__(self) -> None:
        super().__init__("two-factor authentication is already on; turn it off first to set it up again")


class TwoFactorLocked(AccessRefused):
    def __init__(self) -> None:
        super().__init__("too many incorrect codes; wait 15 minutes, then sign in again")


class SignInExpired(AccessRefused):
    def __init__(self) -> None:
        super().__init__("your sign-in has expired; sign in again")


class InvalidEmail(AccessRefused):
    def __init__(self) -> None:
        super().__init__("enter an email address, such as maria@example.com")


class InvalidPersonName(AccessRefused):
    def __init__(self) -> None:
        super().__init__("a name must have 1 to 100 printable characters")


class InvalidHomepage(AccessRefused):
    def __init__(self) -> None:
        super().__init__("the homepage must be a URL that starts with https://")


class InvalidReason(AccessRefused):
    def __init__(self) -> None:
        super().__init__("a reason must consist of printable characters")


class EmailTaken(AccessRefused):
    def __init__(self) -> None:
        super().__init__("an account with this email address already exists; sign in, or ask for a password reset")


class WeakPassword(AccessRefused):
    pass


class NoSuchAccount(AccessRefused):
    def __init__(self, email: str) -> None:
        super().__init__(f'there is no account "{email}"; run `stoa account list` to see all accounts')


class LinkExpired(AccessRefused):
    def __init__(self) -> None:
        super().__init__("this link has expired or was already used; ask for a new one")


class NotOwned(AccessRefused):
    def __init__(self) -> None:
        super().__init__("the account has no access to it; nothing was changed")


class NotAnOwner(AccessRefused):
    def __init__(self) -> None:
        super().__init__("only an owner can do this, and you are no longer one; nothing was changed")


class InvalidRole(AccessRefused):
    def __init__(self, role: str, roles: tuple[str, ...]) -> None:
        super().__init__(f'"{role[:40]}" is not a role here; use one of: {", ".join(roles)}')


class AlreadyMember(AccessRefused):
    def __init__(self) -> None:
        super().__init__("this person is already a member; change the role in the list of members")


class NoSuchMember(AccessRefused):
    def __init__(self) -> None:
        super().__init__("this person is no longer a member; reload the page")


class NoSuchInvitation(AccessRefused):
    def __init__(self) -> None:
        super().__init__("this invitation was already used, revoked or has expired; reload the page")


class WrongInvitee(AccessRefused):
    def __init__(self, email: str) -> None:
        super().__init__(f"this invitation is for {email}; sign in with that account")


class LastOwner(AccessRefused):
    def __init__(self) -> None:
        super().__init__("there must be an owner; make another member an owner first, or transfer the ownership")


class NoSuchOffer(AccessRefused):
    def __init__(self) -> None:
        super().__init__("this offer was withdrawn, declined or has expired; nothing was changed")


class TooManyMembers(AccessRefused):
    def __init__(self, limit: int) -> None:
        super().__init__(f"a team can have at most {limit} members and invitations; remove one first")


class TooManyInvitations(AccessRefused):
    def __init__(self, limit: int, until: datetime) -> None:
        super().__init__(
            f"this address has received {limit} invitations within a day; invite it again after "
            f"{until.astimezone(UTC):%d %B, %H:%M} UTC"
        )


class TooManyStores(AccessRefused):
    def __init__(self, limit: int, kind: str = "stores") -> None:
        super().__init__(f"an account can have at most {limit} {kind}; use one that you already have")


class TooManyApps(AccessRefused):
    def __init__(self, limit: int) -> None:
        super().__init__(f"an account can have at most {limit} apps; delete one that you no longer use")


class NoSuchRequest(AccessRefused):
    def __init__(self) -> None:
        super().__init__("this request was already decided or withdrawn; reload the page")


class RefusedRecently(AccessRefused):
    def __init__(self) -> None:
        super().__init__("the store refused less than a day ago; contact its owner, or ask again tomorrow")


class ReasonsMissing(AccessRefused):
    """Only development stores install an app that does not say what it needs a scope for."""

    def __init__(self, scopes: Sequence[str]) -> None:
        super().__init__(f"the app gives no reason for {', '.join(scopes)}; its developer must add one in its settings")


class AlreadyGranted(AccessRefused):
    def __init__(self) -> None:
        super().__init__("the store already grants the app all of these scopes")
