"""The notifications of a person: the list behind the bell."""

from typing import Annotated

import msgspec

from stoa.notifications import queries
from stoa.notifications.contract import KINDS
from stoa.portal.kit.error_pages import not_found
from stoa.portal.kit.list_view import PAGE_SIZE, before
from stoa.portal.kit.pages import ROOT, Pages, Redirect, View, return_path
from stoa.portal.kit.visit import Visit

pages = Pages()
NOTIFICATIONS = f"{ROOT}/notifications"


class ReadAllForm(msgspec.Struct):
    """The newest notification on the page."""

    newest: Annotated[int, msgspec.Meta(ge=0, lt=2**62, extra={"message": "Reload the page."})]


@pages.page("/notifications")
async def notifications_page(visit: Visit) -> View:
    rows = await queries.PAGE.all(visit.db, visit.me.account_id, before(visit), PAGE_SIZE + 1)
    context = {
        "rows": rows[:PAGE_SIZE],
        "next": rows[PAGE_SIZE - 1].id if rows[PAGE_SIZE:] else 0,
        "kinds": KINDS,
        "days": queries.RETENTION_DAYS,
    }
    return View("notifications/list.html", context)


@pages.form("/notifications/{notification:int}/open", on=notifications_page)
async def open_notification(visit: Visit) -> Redirect:
    """Mark a notification as read and go to the page that it is about."""
    path = await queries.READ.maybe(visit.db, visit.me.account_id, visit.path_param("notification"))
    if path is None:
        raise not_found()
    return Redirect(return_path(path))


@pages.form("/notifications/{notification:int}/read", on=notifications_page)
async def read_notification(visit: Visit) -> Redirect:
    if await queries.READ.maybe(visit.db, visit.me.account_id, visit.path_param("notification")) is None:
        raise not_found()
    return Redirect(NOTIFICATIONS)


@pages.form("/notifications/read", on=notifications_page)
async def read_all_notifications(visit: Visit, form: ReadAllForm) -> Redirect:
    await queries.READ_ALL.run(visit.db, visit.me.account_id, form.newest)
    return Redirect(NOTIFICATIONS, "All notifications are marked as read.")
