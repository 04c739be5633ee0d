"""Announcements that a person has not dismissed."""

from typing import Annotated

import msgspec

from stoa.accounts import announcements
from stoa.portal.kit.forms import text
from stoa.portal.kit.pages import Pages, Redirect, View, return_path
from stoa.portal.kit.visit import MAX_URL_LENGTH, Visit

pages = Pages()


class DismissForm(msgspec.Struct):
    next: Annotated[str, text("Reload the page.", max_length=MAX_URL_LENGTH)] = ""


@pages.page("/announcements", nav="dashboard")
async def announcements_page(visit: Visit) -> View:
    return View("announcements.html", {"rows": visit.announcements})


@pages.form("/announcements/{announcement:int}/dismiss", on=announcements_page)
async def dismiss_announcement(visit: Visit, form: DismissForm) -> Redirect:
    await announcements.dismiss(visit.by, visit.me.account_id, visit.path_param("announcement"))
    return Redirect(return_path(form.next))
