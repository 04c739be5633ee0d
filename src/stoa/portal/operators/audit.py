"""The audit logs for operators: that of the service, of one store, or all of them in the order of time."""

from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from stoa.access import audit
from stoa.access.addresses import is_handle
from stoa.access.contract import NoSuchApp, NoSuchStore
from stoa.access.operator import find_app, find_store
from stoa.portal.kit.audit_log import (
    ACCOUNT,
    APP,
    PAGE_SIZE,
    action_title,
    chain_page,
    conditions,
    given_filters,
    shown_entries,
)
from stoa.portal.kit.list_view import before
from stoa.portal.kit.pages import Audience, Pages, View
from stoa.portal.kit.visit import Visit
from stoa.portal.operators.queries import ACCOUNT_NUMBER

pages = Pages()
_NOBODY = "account:none"  # the actor of no entry
_EPOCH, _LAST_DAY = datetime(1970, 1, 1, tzinfo=UTC), datetime(9000, 1, 1, tzinfo=UTC)
_LATEST_US = 10**17  # a later cursor would not be a date


@pages.page("/operators/audit", audience=Audience.OPERATOR)
async def operator_audit(visit: Visit) -> View:
    filters = given_filters(visit, "person", "action", "app", "store", "log")
    actor, app, chain, fault = "", "", audit.SERVICE, ""
    if person := filters.get("person"):
        account_id = await ACCOUNT_NUMBER.maybe(visit.db, person)
        actor, fault = (
            (f"{ACCOUNT}{account_id}", "") if account_id else (_NOBODY, "No account has this email or number.")
        )
    if "app" in filters:
        try:
            app = f"{APP}{(await find_app(visit.db, filters['app'])).id}"
        except NoSuchApp:
            app, fault = _NOBODY, "No app has this ID."
    if "store" in filters:
        handle = filters["store"]
        try:
            chain = (await find_store(visit.db, handle if is_handle(handle) else "")).id
        except NoSuchStore:
            actor, fault = _NOBODY, "No store has this handle."
    where = conditions(filters, actor, app, UTC)
    everywhere = filters.get("log") == "all" and "store" not in filters
    log = await (_everywhere(visit, where, filters) if everywhere else chain_page(visit, chain, where, filters))
    actions = [(each, action_title(each)) for each in await audit.ALL_ACTIONS.all(visit.db)]
    return View("operators/audit.html", {**log, "actions": actions, "fault": fault, "everywhere": everywhere})


async def _everywhere(visit: Visit, where: audit.Conditions, filters: dict[str, str]) -> dict[str, Any]:
    """Return one page of the entries of all logs. Pages follow each other by time; the logs are not verified here."""
    number = before(visit)
    end = _EPOCH + timedelta(microseconds=number) if number < _LATEST_US else _LAST_DAY
    found = await audit.found_everywhere(visit.db, where, end, PAGE_SIZE + 1)
    more = len(found) > PAGE_SIZE
    found = found[:PAGE_SIZE]
    entries = await shown_entries(visit, found)
    for entry, row in zip(entries, found, strict=True):
        entry.store = row.store or "Service"
    last = (found[-1].created_at - _EPOCH) // timedelta(microseconds=1) if found else 0
    return {
        "entries": entries,
        "filters": filters,
        "total": 0,
        "older": f"?{urlencode({**filters, 'before': last})}" if more else "",
        "verified": False,
        "first_invalid": None,
    }
