"""The kinds of notifications, and their types."""

from collections.abc import Mapping
from datetime import datetime

import msgspec

HOUR_S = 60 * 60


class Kind(msgspec.Struct, frozen=True):
    """A kind of notification as its preferences show it; `email` is the default."""

    label: str
    description: str
    email: bool = True


KINDS: Mapping[str, Kind] = {
    "webhook_failing": Kind("Webhook failing", "Deliveries to a webhook of your app fail; Stoa retries them."),
    "webhook_disabled": Kind("Webhook disabled", "Stoa no longer sends events to a webhook of your app."),
    "install_request": Kind("Install request", "An app asks to be installed on your store."),
    "app_suspended": Kind("App suspended", "An operator has suspended your app."),
    "secret_expires": Kind("Secret about to expire", "An old secret of your app stops working in the next hours."),
    "import_finished": Kind("Import finished", "An import into your store has ended.", email=False),
    "new_device": Kind("Sign-in from a new device", "Somebody has signed in to your account in another browser."),
}


class News(msgspec.Struct, frozen=True):
    """The text of a notification and the page to look at. The same kind about the same subject is not repeated for `quiet_s`."""

    kind: str
    subject: str
    title: str
    body: str
    path: str
    action: str
    quiet_s: int = HOUR_S


class Wanted(msgspec.Struct):
    """A person to notify, and how."""

    account_id: int
    email: str
    portal: bool
    by_email: bool


class Notification(msgspec.Struct):
    """A notification as its reader sees it."""

    id: int
    kind: str
    title: str
    body: str
    path: str
    action: str
    created_at: datetime
    read_at: datetime | None


class Preference(msgspec.Struct):
    """How a person wants to be notified of a kind."""

    kind: str
    portal: bool
    email: bool
