"""The contents of `stoa.app.toml`: everything that a developer decides about an app, except its secrets."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from stoa.access.app_keys import MOST_KEYS
from stoa.rest.checks import worded
from stoa.rest.metadata_types import MOST_DEFINITIONS, Definition
from stoa.rest.problems import Refusal
from stoa.webhooks.api.contract import Url
from stoa.webhooks.app_callbacks import MAX_RETURN_URLS, MAX_URL_LENGTH
from stoa.webhooks.app_subscriptions import MAX_DECLARED, AppSubscription

FILE_NAME = "stoa.app.toml"
MOST_BYTES = 32 * 1024

Name = Annotated[str, Meta(min_length=1, max_length=80)]
Reason = Annotated[
    str, Meta(min_length=1, max_length=200), worded("must be one line that says what the app needs the scope for")
]
ClientId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9_]{1,64}$"), worded("must be the client id of the app")]


class AppFile(msgspec.Struct, forbid_unknown_fields=True):
    """An app as its file describes it, completely: what the file leaves out, the app does not have."""

    name: Name
    scopes: Annotated[dict[str, Reason], Meta(max_length=50)]
    client_id: ClientId | None = None  # refuses a push with the token of another app
    homepage: Annotated[str, Meta(max_length=500)] = ""
    endpoint: Url | None = None
    return_urls: Annotated[list[Annotated[str, Meta(max_length=MAX_URL_LENGTH)]], Meta(max_length=MAX_RETURN_URLS)] = []
    subscriptions: Annotated[list[AppSubscription], Meta(max_length=MAX_DECLARED)] = []
    keys: Annotated[list[Annotated[dict[str, str], Meta(max_length=20)]], Meta(max_length=MOST_KEYS)] = []
    metadata: Annotated[list[Definition], Meta(max_length=MOST_DEFINITIONS)] = []


class Change(msgspec.Struct, omit_defaults=True):
    """One difference between an app and a file. `consent` says who must agree, or what is lost; it needs a confirmation."""

    key: str
    action: Literal["add", "change", "remove"]
    before: Any = None
    after: Any = None
    consent: str = ""


class Pushed(msgspec.Struct):
    """The difference, and whether it was applied. `signing_secret` is set only when it is new."""

    client_id: str
    applied: bool
    changes: list[Change]
    signing_secret: str | None = None


class ConfirmationRequired(Refusal):
    """The file changes what merchants must approve again, or removes what cannot be restored. Read `changes`, then send the
    request again with `confirm=true`."""

    status, code, title = 409, "confirmation_required", "The change must be confirmed"


class AppFileChanged(Refusal):
    """The app is not as `If-Match` says: somebody changed it meanwhile. Compare your file with it again, then retry."""

    status, code, title = 412, "app_file_changed", "The app has changed"
