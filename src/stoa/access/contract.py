"""The public contract of access: scopes, stores, apps, installations, events and errors."""

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, ClassVar

import msgspec
from msgspec import Meta

from stoa.events.outbox import Event

SCOPES: dict[str, str] = {
    "products:read": "See products and their variants.",
    "products:write": "Create, change and delete products and their variants.",
    "inventory:read": "See stock levels and the ledger of their changes.",
    "inventory:write": "Set and adjust stock levels.",
    "orders:read": "See orders, their comments and their suspected duplicates.",
    "orders:write": "Create and change orders, set their status and comment on them.",
    "orders:import": "Store orders of another shop as they were, with their numbers, dates, payments and shipments.",
    "customers:read": "See customers with their addresses and metadata.",
    "customers:write": "Create and change customers, their addresses and metadata.",
    "customers:erase": "Permanently erase a customer's personal data.",
    "webhooks:read": "See this app's webhooks and their deliveries.",
    "webhooks:write": "Create, change, test and delete this app's webhooks.",
}


class StoreRow(msgspec.Struct):
    """A store as operators see it."""

    id: int
    handle: str
    name: str
    currency: str
    prices_include_tax: bool
    status: str
    timezone: str
    locale: str
    hosts: list[str]
    created_at: datetime
    erase_at: datetime | None  # when its erasure begins, if it is to be deleted
    shard: str  # the database that holds its rows; empty for the directory's own


class App(msgspec.Struct):
    """An app as operators see it: its requested scopes, the hints of its live secrets, and its stores."""

    id: int
    client_id: str
    name: str
    scopes: list[str]
    status: str
    secret_hints: list[str]
    stores: list[str]
    created_at: datetime


class Installation(msgspec.Struct):
    """An app on a store: the scopes that the store grants, and a custom rate limit if it has one."""

    store: str
    app_id: int
    client_id: str
    app_name: str
    scopes: list[str]
    rate_burst: int | None
    rate_refill: int | None
    installed_at: datetime
    updated_at: datetime


class RemovedInstallation(msgspec.Struct):
    """An app that a store uninstalled recently, with the scopes that its owner may grant again."""

    app_id: int
    app_name: str
    removed_at: datetime
    scopes: list[str]


class StoreDetails(msgspec.Struct, frozen=True):
    """A store as an app needs to know it: where its API is, its currency, its time zone and its language."""

    id: int
    handle: str
    name: str
    base_url: str
    currency: str
    timezone: str
    locale: str


class ListedInstallation(msgspec.Struct):
    """An installation in the app's own list. After the app is uninstalled, `scopes` is empty."""

    store: StoreDetails
    scopes: list[str]
    status: str
    installed_at: datetime
    updated_at: datetime


class AppSecret(msgspec.Struct):
    """A live client secret, identified by its last characters; `expires_at` is set once it is rotated out."""

    hint: str
    created_at: datetime
    expires_at: datetime | None


class AppKey(msgspec.Struct):
    """A public key with which an app authenticates; `kid` is the id that its assertions name."""

    kid: str
    algorithm: str
    jwk: str
    created_at: datetime


class NewSecret(msgspec.Struct):
    """A new client secret, shown only once; `previous_until` is when the previous one stops working."""

    app_id: int
    client_id: str
    client_secret: str
    previous_until: datetime | None = None


class IssuedToken(msgspec.Struct):
    """A new access token, shown only once; `store` is set if it is limited to that store."""

    access_token: str
    scope: str
    store: str | None
    expires_at: datetime


# --- events -------------------------------------------------------------------------------------------------


class InstalledApp(msgspec.Struct):
    """The data of an `app.` event: the app and the scopes that the store now grants it."""

    id: Annotated[int, Meta(description="The id of the app.")]
    name: Annotated[str, Meta(description="The name of the app.")]
    scopes: Annotated[
        list[str],
        Meta(description="The scopes that the store grants the app after the change; empty when it is uninstalled."),
    ]


class AppInstalled(Event):
    """The app was installed on this store. The app's own endpoint receives it whatever the scopes."""

    name = "app.installed"
    scope = "webhooks:read"
    resource_type = "app"
    resource = InstalledApp


class AppUninstalled(Event):
    """The app was uninstalled from this store."""

    name = "app.uninstalled"
    scope = "webhooks:read"
    resource_type = "app"
    resource = InstalledApp


class AppScopesChanged(Event):
    """The scopes that this store grants the app changed."""

    name = "app.scopes_changed"
    scope = "webhooks:read"
    resource_type = "app"
    resource = InstalledApp
    recorded = frozenset({"scopes"})


# --- errors of the token endpoints, with bodies as in RFC 6749 ----------------------------------------------


class OAuthError(Exception):
    """A refused token request; `error` is the code that programs read."""

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
    """The same body for an unknown client and a wrong secret, so that they cannot be distinguished."""

    status = 401
    error = "invalid_client"

    def __init__(self, description: str = "The client id or the client secret is incorrect.") -> None:
        super().__init__(description)


class UnauthorizedClient(OAuthError):
    error = "unauthorized_client"


class UnsupportedGrantType(OAuthError):
    error = "unsupported_grant_type"


class InvalidScope(OAuthError):
    error = "invalid_scope"


class InvalidTarget(OAuthError):
    """RFC 8707: the resource is not a store of this service."""

    error = "invalid_target"


class TooManyAttempts(OAuthError):
    status = 429
    error = "slow_down"

    def __init__(self, retry_in_s: int) -> None:
        super().__init__(
            "Too many failed attempts to authenticate. Retry after the number of seconds in `Retry-After`.",
            retry_in_s=retry_in_s,
        )


class TemporarilyUnavailable(OAuthError):
    status = 503
    error = "temporarily_unavailable"

    def __init__(self, away: Sequence[str] = ()) -> None:
        """`away` names the shards that do not answer, if the others do."""
        what = f"A part of the stores ({', '.join(away)}) is" if away else "The service is"
        super().__init__(
            f"{what} temporarily unavailable. Retry after the number of seconds in `Retry-After`.", retry_in_s=1
        )


# --- errors of operations -----------------------------------------------------------------------------------


class AccessRefused(Exception):
    """A refused operation; the message says what to do instead."""


class StoreInShard(AccessRefused):
    def __init__(self, handle: str, shard: str) -> None:
        super().__init__(
            f'the store "{handle}" is in the shard {shard}, where this is not possible; move it to the directory first'
        )


class NoShardForStores(AccessRefused):
    def __init__(self, name: str, choices: Sequence[str]) -> None:
        super().__init__(f'there is no shard "{name}" that takes stores; choose one of {", ".join(choices)}')


class NoSuchStore(AccessRefused):
    def __init__(self, handle: str) -> None:
        super().__init__(f'there is no store "{handle}"; list the stores to see their handles')


class NoSuchApp(AccessRefused):
    def __init__(self, app: str) -> None:
        super().__init__(f'there is no app "{app}"; list the apps to see their client ids')


class NoSuchToken(AccessRefused):
    def __init__(self) -> None:
        super().__init__("the token is unknown or no longer live; check that you copied all of it")


class InvalidHandle(AccessRefused):
    def __init__(self, handle: str) -> None:
        super().__init__(f'"{handle}" is not a valid handle; use 1 to 63 characters of a-z, 0-9 and inner hyphens')


class HandleTaken(AccessRefused):
    def __init__(self, handle: str) -> None:
        super().__init__(f'the handle "{handle}" is taken; choose another')


class InvalidHost(AccessRefused):
    def __init__(self, host: str, reason: str) -> None:
        super().__init__(f'"{host}" is not a valid custom host: {reason}')


class HostTaken(AccessRefused):
    def __init__(self, hosts: str) -> None:
        super().__init__(f"{hosts}: at least one of these hosts belongs to another store; leave it out")


class UnknownCurrency(AccessRefused):
    def __init__(self, currency: str) -> None:
        super().__init__(f'"{currency}" is not a known currency; use an ISO 4217 code, such as EUR')


class InvalidTimezone(AccessRefused):
    def __init__(self, timezone: str) -> None:
        super().__init__(f'"{timezone}" is not a time zone; use an IANA name, such as Europe/Berlin')


class InvalidLocale(AccessRefused):
    def __init__(self, locale: str) -> None:
        super().__init__(f'"{locale}" is not a locale; use a language with an optional region, such as de-DE')


class InvalidName(AccessRefused):
    def __init__(self) -> None:
        super().__init__("the name must have 1 to 255 printable characters")


class MisleadingName(AccessRefused):
    """The name could pass for another one."""

    def __init__(self, fault: str) -> None:
        super().__init__(f"the name {fault}")


class UnknownScope(AccessRefused):
    def __init__(self, scope: str) -> None:
        super().__init__(f'"{scope}" is not a scope; choose from {", ".join(SCOPES)}')


class ScopeNotCovered(AccessRefused):
    def __init__(self, scopes: str, covered: str) -> None:
        super().__init__(f"{scopes} cannot be granted here; choose from {covered}")


class ErasureBegun(AccessRefused):
    def __init__(self) -> None:
        super().__init__("the store is being erased; this cannot be stopped")


class NotInstalled(AccessRefused):
    def __init__(self, app: str, store: str) -> None:
        super().__init__(f'the app "{app}" is not installed on "{store}"; install it there first')


class AppDeleted(AccessRefused):
    def __init__(self) -> None:
        super().__init__("the app was deleted permanently; register a new one")


class InvalidRate(AccessRefused):
    def __init__(self) -> None:
        super().__init__("the burst and the refill of a rate limit must be whole numbers of at least 1")


class InvalidGrace(AccessRefused):
    def __init__(self) -> None:
        super().__init__("the grace period of the old secret must be 0 to 168 hours")


class RotationActive(AccessRefused):
    def __init__(self) -> None:
        super().__init__(
            "two secrets are live already; wait until the older one expires, end it now (force), or rotate without a grace period"
        )
