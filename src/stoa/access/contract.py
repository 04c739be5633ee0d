"""Access as callers and operators see it: scopes, stores, apps and installations, events, and refusals."""

from datetime import datetime
from typing import ClassVar

import msgspec

from stoa.events.outbox import Event

SCOPES: dict[str, str] = {
    "products:read": "See products and their variants.",
    "products:write": "Create, change and delete products and their variants.",
    "inventory:read": "See stock levels and the ledger of their changes.",
    "inventory:write": "Set and adjust stock levels.",
    "orders:read": "See orders, their comments and their duplicates.",
    "orders:write": "Create and change orders, move their status and comment on them.",
    "customers:read": "See customers with their addresses and metadata.",
    "customers:write": "Create and change customers, their addresses and metadata.",
    "customers:erase": "Erase a customer's personal data for good.",
    "webhooks:read": "See this app's webhooks and their deliveries.",
    "webhooks:write": "Create, change, test and delete this app's webhooks.",
}


class StoreRow(msgspec.Struct):
    """A store as operators see it."""

    id: int
    handle: str
    name: str
    currency: str
    status: str
    hosts: list[str]
    created_at: datetime


class App(msgspec.Struct):
    """An app as operators see it: what it asks for, the ends of its live secrets, where it is installed."""

    id: int
    client_id: str
    name: str
    scopes: list[str]
    status: str
    secret_hints: list[str]
    stores: list[str]
    created_at: datetime


class Installation(msgspec.Struct):
    """An app on a store: what the store grants it, and its own rate limit where it has one."""

    store: str
    app_id: int
    client_id: str
    app_name: str
    scopes: list[str]
    rate_burst: int | None
    rate_refill: int | None
    installed_at: datetime
    updated_at: datetime


class AppSecret(msgspec.Struct):
    """A live client secret by its end; `expires_at` is set on one that was rotated out."""

    hint: str
    created_at: datetime
    expires_at: datetime | None


class NewSecret(msgspec.Struct):
    """A client secret, shown this once; `previous_until` is when the one before stops working."""

    app_id: int
    client_id: str
    client_secret: str
    previous_until: datetime | None = None


class IssuedToken(msgspec.Struct):
    """An access token, shown this once; `store` is set when it serves that store alone."""

    access_token: str
    scope: str
    store: str | None
    expires_at: datetime


# --- events -------------------------------------------------------------------------------------------------


class InstalledApp(msgspec.Struct):
    """What an `app.` event carries: the app and the scopes that the store now grants it."""

    id: int
    name: str
    scopes: list[str]


class AppInstalled(Event):
    """The app was installed on this store."""

    name = "app.installed"
    scope = "webhooks:read"
    resource_type = "app"
    resource = InstalledApp


class AppUninstalled(Event):
    """The app was removed from this store."""

    name = "app.uninstalled"
    scope = "webhooks:read"
    resource_type = "app"
    resource = InstalledApp


class AppScopesChanged(Event):
    """The store now grants the app other scopes."""

    name = "app.scopes_changed"
    scope = "webhooks:read"
    resource_type = "app"
    resource = InstalledApp


# --- refusals of the token endpoints, with the bodies of RFC 6749 -------------------------------------------


class OAuthError(Exception):
    """A token request that is not carried out; `error` is the word that programs read."""

    status: ClassVar[int] = 400
    error: ClassVar[str] = ""

    def __init__(self, description: str, *, status: int | None = None, retry_in_s: int = 0) -> None:
        super().__init__(description)
        self.description = description
        self.http_status = status or self.status
        self.retry_in_s = retry_in_s

    def body(self) -> bytes:
        return msgspec.json.encode({"error": self.error, "error_description": self.description})


class InvalidRequest(OAuthError):
    error = "invalid_request"


class InvalidClient(OAuthError):
    """One body for an unknown client and a wrong secret, so that neither can be told from the other."""

    status = 401
    error = "invalid_client"

    def __init__(self) -> None:
        super().__init__("The client id or the client secret is not right.")


class UnauthorizedClient(OAuthError):
    error = "unauthorized_client"


class UnsupportedGrantType(OAuthError):
    error = "unsupported_grant_type"


class InvalidScope(OAuthError):
    error = "invalid_scope"


class InvalidTarget(OAuthError):
    """RFC 8707: the resource is not a store of ours."""

    error = "invalid_target"


class TooManyTries(OAuthError):
    status = 429
    error = "slow_down"

    def __init__(self, retry_in_s: int) -> None:
        super().__init__("Too many failed tries to authenticate; wait, then try again.", retry_in_s=retry_in_s)


class TemporarilyUnavailable(OAuthError):
    status = 503
    error = "temporarily_unavailable"

    def __init__(self) -> None:
        super().__init__("The service cannot answer just now; try again shortly.", retry_in_s=1)


# --- refusals of operators' verbs ---------------------------------------------------------------------------


class AccessRefused(Exception):
    """A verb that is not carried out; the message says what to do instead."""


class NoSuchStore(AccessRefused):
    def __init__(self, handle: str) -> None:
        super().__init__(f'there is no store "{handle}"; list the stores to see their handles')


class NoSuchApp(AccessRefused):
    def __init__(self, app: str) -> None:
        super().__init__(f'there is no app "{app}"; list the apps to see their client ids')


class NoSuchToken(AccessRefused):
    def __init__(self) -> None:
        super().__init__("there is no such live token; check that it was copied whole")


class InvalidHandle(AccessRefused):
    def __init__(self, handle: str) -> None:
        super().__init__(f'"{handle}" cannot be a handle; use 1 to 63 of a-z, 0-9 and inner hyphens')


class HandleTaken(AccessRefused):
    def __init__(self, handle: str) -> None:
        super().__init__(f'the handle "{handle}" is taken; choose another')


class InvalidHost(AccessRefused):
    def __init__(self, host: str, why: str) -> None:
        super().__init__(f'"{host}" cannot be a custom host: {why}')


class HostTaken(AccessRefused):
    def __init__(self, hosts: str) -> None:
        super().__init__(f"{hosts}: a host belongs to one store, and one of these is taken; leave it out")


class UnknownCurrency(AccessRefused):
    def __init__(self, currency: str) -> None:
        super().__init__(f'"{currency}" is no currency in use; give its ISO 4217 code, such as EUR')


class InvalidName(AccessRefused):
    def __init__(self) -> None:
        super().__init__("a name has 1 to 255 printable characters; give another")


class UnknownScope(AccessRefused):
    def __init__(self, scope: str) -> None:
        super().__init__(f'"{scope}" is no scope; choose from {", ".join(SCOPES)}')


class ScopeNotCovered(AccessRefused):
    def __init__(self, scopes: str, covered: str) -> None:
        super().__init__(f"{scopes} is more than may be given here; choose from {covered}")


class NotInstalled(AccessRefused):
    def __init__(self, app: str, store: str) -> None:
        super().__init__(f'the app "{app}" is not installed on "{store}"; install it there first')


class AppDeleted(AccessRefused):
    def __init__(self) -> None:
        super().__init__("the app was deleted, and stays so; register another")


class InvalidRate(AccessRefused):
    def __init__(self) -> None:
        super().__init__("a rate limit needs a burst and a refill of at least 1; give whole numbers")


class InvalidGrace(AccessRefused):
    def __init__(self) -> None:
        super().__init__("the old secret may live on for 0 to 168 hours; choose a number between")


class RotationActive(AccessRefused):
    def __init__(self) -> None:
        super().__init__(
            "two secrets are live already; wait until the older one ends, force its end now, or rotate without grace"
        )
