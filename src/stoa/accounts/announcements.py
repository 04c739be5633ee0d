"""Announcements: a text of an operator that every signed-in person sees for some time, until she dismisses it."""

from datetime import datetime, timedelta

from stoa.access.audit import SERVICE
from stoa.access.contract import AccessRefused
from stoa.access.operator import Operator
from stoa.accounts.contract import Announcement, CurrentAnnouncement
from stoa.accounts.queries import (
    ADD_ANNOUNCEMENT,
    ANNOUNCEMENTS,
    CURRENT_ANNOUNCEMENTS,
    DISMISS_ANNOUNCEMENT,
    END_ANNOUNCEMENT,
    LOCK_TEXT,
    SAME_ANNOUNCEMENT,
)
from stoa.accounts.rules import is_web_url
from stoa.db.query import Executor

LONGEST = timedelta(days=366)


class InvalidPeriod(AccessRefused):
    def __init__(self) -> None:
        super().__init__("an announcement must end after it starts, in the future, and within a year")


class InvalidLink(AccessRefused):
    def __init__(self) -> None:
        super().__init__("a link must start with https://, /docs or /portal")


def is_announced_url(url: str) -> bool:
    """Whether an announcement may lead there: to another site over TLS, or to a page of this service."""
    here = url in ("/docs", "/portal") or url.startswith(("/docs/", "/portal/", "/docs#"))
    return (url.startswith("https://") and is_web_url(url)) or (
        here and url.isascii() and url.isprintable() and " " not in url
    )


async def announcements(db: Executor) -> list[Announcement]:
    """The newest announcements, whether shown now, later or no more."""
    return await ANNOUNCEMENTS.all(db)


async def current_announcements(db: Executor, account_id: int) -> list[CurrentAnnouncement]:
    """What is announced now; `dismissed` if this person does not want to see it any more."""
    return await CURRENT_ANNOUNCEMENTS.all(db, account_id)


async def announce(
    by: Operator, text: str, starts_at: datetime, ends_at: datetime, now: datetime, *, url: str = "", label: str = ""
) -> int:
    """Announce a text between two times, with a link if `url` is given; the same announcement is made once."""
    if url and not is_announced_url(url):
        raise InvalidLink
    if not (now - LONGEST < starts_at < ends_at and now < ends_at < now + LONGEST):
        raise InvalidPeriod
    async with by.db.transaction() as db:
        await LOCK_TEXT.one(db, text)
        link = (url, label or url) if url else (None, None)
        same = await SAME_ANNOUNCEMENT.maybe(db, text, starts_at, ends_at, *link)
        if same is not None:
            return same
        number = await ADD_ANNOUNCEMENT.one(db, text, starts_at, ends_at, *link)
        detail = {"text": text, **({"link": url} if url else {})}
        await by.record(db, SERVICE, "announcement.created", f"announcement:{number}", **detail)
    return number


async def end_announcement(by: Operator, number: int) -> bool:
    """Stop showing an announcement; False if it is over."""
    async with by.db.transaction() as db:
        ended = await END_ANNOUNCEMENT.run(db, number) > 0
        if ended:
            await by.record(db, SERVICE, "announcement.ended", f"announcement:{number}")
    return ended


async def dismiss(by: Operator, account_id: int, number: int) -> None:
    """Do not show the announcement to this person any more."""
    await DISMISS_ANNOUNCEMENT.run(by.db, account_id, number)
