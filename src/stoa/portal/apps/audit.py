"""The audit log of an app."""

from stoa.access import audit
from stoa.portal.kit.audit_log import APP, PAGE_SIZE, shown_entries
from stoa.portal.kit.list_view import before
from stoa.portal.kit.pages import Pages, View
from stoa.portal.kit.visit import Visit

pages = Pages()


@pages.page("/apps/{app_id:int}/audit", nav="list_apps")
async def app_audit(visit: Visit) -> View:
    """The entries about an app; they are part of the chain of the service, which only operators see in full."""
    where = audit.Conditions("", "", f"{APP}{visit.app.id}", None, None)
    found = await audit.found(visit.db, audit.SERVICE, where, before(visit), PAGE_SIZE + 1)
    context = {
        "entries": await shown_entries(visit, found[:PAGE_SIZE]),
        "older": f"?before={found[PAGE_SIZE - 1].position}" if found[PAGE_SIZE:] else "",
    }
    return View("apps/audit.html", context)
