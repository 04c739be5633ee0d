"""Announcements that operators write: everybody who is signed in sees them until they end or are dismissed."""

from datetime import UTC, datetime
from typing import Annotated

import msgspec

from stoa.accounts import announcements
from stoa.accounts.announcements import InvalidLink, InvalidPeriod
from stoa.portal.kit.forms import FormError, sentence, text
from stoa.portal.kit.pages import ROOT, Audience, Pages, Redirect, View
from stoa.portal.kit.visit import Visit

pages = Pages()
_OPERATOR_PAGE = f"{ROOT}/operators/announcements"
_TIME = "Enter a date and a time, such as 2026-12-24 18:00."


_Text = Annotated[str, text("Enter a text with 1 to 500 characters.", min_length=1, max_length=500, multiline=True)]
_Url = Annotated[str, text("Use at most 500 characters.", max_length=500)]
_Label = Annotated[str, text("Use at most 60 characters.", max_length=60)]
_Time = Annotated[str, text(_TIME, min_length=1, max_length=40)]


class AnnouncementForm(msgspec.Struct):
    text: _Text
    starts_at: _Time
    ends_at: _Time
    link_url: _Url = ""
    link_label: _Label = ""


@pages.page("/operators/announcements", audience=Audience.OPERATOR)
async def operator_announcements(visit: Visit) -> View:
    now = datetime.now(UTC)
    return View("operators/announcements.html", {"rows": await announcements.announcements(visit.db), "now": now})


@pages.form("/operators/announcements", on=operator_announcements)
async def create_announcement(visit: Visit, form: AnnouncementForm) -> Redirect:
    starts_at, ends_at = _time("starts_at", form.starts_at), _time("ends_at", form.ends_at)
    try:
        await announcements.announce(
            visit.by, form.text, starts_at, ends_at, datetime.now(UTC), url=form.link_url, label=form.link_label
        )
    except InvalidPeriod as refusal:
        raise FormError(ends_at=sentence(refusal)) from refusal
    except InvalidLink as refusal:
        raise FormError(link_url=sentence(refusal)) from refusal
    return Redirect(_OPERATOR_PAGE, "The announcement is saved.")


@pages.form("/operators/announcements/{announcement:int}/end", on=operator_announcements)
async def end_announcement(visit: Visit) -> Redirect:
    if not await announcements.end_announcement(visit.by, visit.path_param("announcement")):
        return Redirect(_OPERATOR_PAGE, "This announcement is already over.", "warn")
    return Redirect(_OPERATOR_PAGE, "The announcement is no longer shown.")


def _time(field: str, value: str) -> datetime:
    """A time in UTC, as a date and time field of a browser or a person writes it."""
    try:
        found = datetime.fromisoformat(value)
    except ValueError:
        raise FormError({field: _TIME}) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)
