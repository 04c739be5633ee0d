"""The types of email: what is written into the outbox, and what the operator sees of it."""

from datetime import datetime
from typing import Literal

import msgspec

MailStatus = Literal["waiting", "sent", "failed"]
STATUSES: tuple[MailStatus, ...] = ("waiting", "sent", "failed")


class Recipient(msgspec.Struct, frozen=True):
    """Who gets a mail; a person without an account has no number."""

    account_id: int | None
    email: str


class Content(msgspec.Struct, frozen=True):
    """What a mail says, as plain text, and the page of the portal that it links to.

    With a nonce, the link ends with a one-time token, which is derived when the mail is sent and never stored.
    """

    kind: str
    subject: str
    body: str
    path: str = ""
    action: str = ""
    nonce: str = ""


class Mail(msgspec.Struct):
    """A mail as the operator sees it."""

    id: int
    message_id: str
    account_id: int | None
    recipient: str
    kind: str
    subject: str
    body: str
    path: str
    action: str
    has_token: bool
    status: str
    attempts: int
    error: str
    due_at: datetime
    created_at: datetime
    finished_at: datetime | None


class LeasedMail(msgspec.Struct):
    """A mail that this process may send until its lease ends."""

    id: int
    message_id: str
    recipient: str
    kind: str
    subject: str
    body: str
    path: str
    action: str
    nonce: str
    attempts: int
    created_at: datetime
    account_id: int | None


class MailBacklog(msgspec.Struct):
    """The mails that wait, the age of the oldest of them, and the mails that were given up in the last 24 hours."""

    waiting: int
    oldest_seconds: float
    given_up: int


class MailCounts(msgspec.Struct):
    """How many mails wait and failed, up to 1,000; `stuck` are those that failed three times or were not tried in time."""

    waiting: int
    failed: int
    stuck: int
