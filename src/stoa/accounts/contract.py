"""Accounts as people and operators see them: who somebody is, what they own, and why a verb is refused."""

from datetime import datetime
from typing import Literal

import msgspec

from stoa.access.contract import AccessRefused

Role = Literal["owner", "viewer"]
Purpose = Literal["set-up", "invitation", "reset"]


class Account(msgspec.Struct):
    """A person who may sign in; an operator also sees the pages that run the service."""

    id: int
    email: str
    name: str
    operator: bool
    status: str
    second_factor: bool
    created_at: datetime


class SignedIn(msgspec.Struct):
    """Who is behind a session; at the stage `password` the second factor is still to come."""

    session_id: int
    stage: str
    stale: bool
    account_id: int
    email: str
    name: str
    operator: bool
    second_factor: bool


class Session(msgspec.Struct):
    """One browser that is signed in."""

    id: int
    address: str
    agent: str
    created_at: datetime
    seen_at: datetime


class Opened(msgspec.Struct):
    """A session that was just opened, with the secret that only the browser keeps."""

    token: str
    account_id: int
    complete: bool


class Link(msgspec.Struct):
    """An address that lets somebody in once."""

    purpose: str
    email: str
    operator: bool
    account_id: int | None
    expires_at: datetime


class NewLink(msgspec.Struct):
    """A link as it is handed over, shown this once."""

    email: str
    address: str
    expires_at: datetime


class OwnedApp(msgspec.Struct):
    """An app that an account may see; its owner may also change it."""

    id: int
    client_id: str
    name: str
    scopes: list[str]
    status: str
    role: str
    installations: int
    created_at: datetime


class OwnedStore(msgspec.Struct):
    """A store that an account may see; its owner may also change it."""

    id: int
    handle: str
    name: str
    currency: str
    status: str
    role: str
    development: bool
    installations: int
    requests: int
    created_at: datetime


class Listing(msgspec.Struct):
    """What an app tells merchants about itself: its homepage, and why it asks for each scope."""

    homepage: str = ""
    reasons: dict[str, str] = {}


class InstallationRequest(msgspec.Struct):
    """An app that would like to be let into a store."""

    store: str
    store_name: str
    app_id: int
    app_name: str
    app_status: str
    scopes: list[str]
    message: str
    status: str
    created_at: datetime
    decided_at: datetime | None


# --- refusals -----------------------------------------------------------------------------------------------


class WrongCredentials(AccessRefused):
    """One text for an unknown e-mail address, a wrong password and a disabled account."""

    def __init__(self) -> None:
        super().__init__("the e-mail address or the password is not right")


class WrongPassword(AccessRefused):
    def __init__(self) -> None:
        super().__init__("this is not your current password")


class WrongCode(AccessRefused):
    def __init__(self) -> None:
        super().__init__("this code is not right, or was used already; take the one that is shown now")


class FactorOn(AccessRefused):
    def __init__(self) -> None:
        super().__init__("your second factor is on already; turn it off first to set up another")


class FactorLocked(AccessRefused):
    def __init__(self) -> None:
        super().__init__("too many wrong codes; wait 15 minutes, then sign in again")


class SignInAgain(AccessRefused):
    def __init__(self) -> None:
        super().__init__("this took too long; sign in again")


class InvalidEmail(AccessRefused):
    def __init__(self) -> None:
        super().__init__("give an e-mail address, such as maria@example.com")


class InvalidPerson(AccessRefused):
    def __init__(self) -> None:
        super().__init__("a person's name has 1 to 100 printable characters; give another")


class EmailTaken(AccessRefused):
    def __init__(self) -> None:
        super().__init__("there is an account with this e-mail address already; sign in, or ask for a new password")


class WeakPassword(AccessRefused):
    pass


class NoSuchAccount(AccessRefused):
    def __init__(self, email: str) -> None:
        super().__init__(f'there is no account "{email}"; list the accounts to see them')


class LinkSpent(AccessRefused):
    def __init__(self) -> None:
        super().__init__("this address was used already or is too old; ask for a new one")


class NotOwned(AccessRefused):
    def __init__(self) -> None:
        super().__init__("the account does not own it; nothing was changed")


class TooManyStores(AccessRefused):
    def __init__(self, most: int, kind: str = "stores") -> None:
        super().__init__(f"an account may have {most} {kind}; use one of yours")


class TooManyApps(AccessRefused):
    def __init__(self, most: int) -> None:
        super().__init__(f"an account may have {most} apps; delete one that is no longer used")


class NoSuchRequest(AccessRefused):
    def __init__(self) -> None:
        super().__init__("this request was withdrawn or decided already; look again")


class AskedAlready(AccessRefused):
    def __init__(self) -> None:
        super().__init__("the store refused less than a day ago; talk to its owner, or ask again tomorrow")


class NothingToAsk(AccessRefused):
    def __init__(self) -> None:
        super().__init__("the store grants the app all of this already")
