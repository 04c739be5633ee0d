"""The request log of an app, with filters; its developers and operators see the same."""

from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any
from urllib.parse import urlencode

import msgspec

from stoa.api import ENDPOINTS
from stoa.db.query import Executor
from stoa.portal.kit.error_pages import not_found
from stoa.portal.kit.list_view import PAGE_SIZE, before, moment
from stoa.portal.kit.visit import Visit
from stoa.reference.document import Group
from stoa.rest.problems import Refusal
from stoa.usage.queries import REQUEST, StoreMetrics
from stoa.usage.reports import OUTCOMES, RequestFilter, logged_requests, usage_by_store
from stoa.usage.request_log import MAX_PER_SECOND, first_id

UNKNOWN = "unknown"  # selects requests to unknown routes
_STATUSES = (
    ("", "Any status"),
    ("success", "Successful"),
    ("error", "Errors, without 429"),
    ("4xx", "4xx, without 429"),
    ("5xx", "5xx"),
    ("429", "Rate limited (429)"),
)
_RETENTION_DAYS = 400


class Operation(msgspec.Struct, frozen=True):
    """An endpoint, and the URL of its reference page."""

    method: str
    path: str
    reference_url: str


@cache
def operations() -> dict[str, Operation]:
    """Return all endpoints by operation id."""
    return {
        each.name: Operation(each.method, each.path, f"{Group(each.group, '', []).address}/{each.name}")
        for each in ENDPOINTS
    }


async def stores_called(db: Executor, app_id: int) -> list[StoreMetrics]:
    """Return the stores that an app has called, busiest first."""
    last = datetime.now(UTC).date()
    return await usage_by_store(db, app_id, last - timedelta(days=_RETENTION_DAYS), last)


async def requests_of(visit: Visit, app_id: int) -> dict[str, Any]:
    """Return a page of the log with the filters of the URL, as the template `request_log.html` shows it."""
    stores = await stores_called(visit.everywhere, app_id)
    known = {each.handle: each.store_id for each in stores}
    given = {
        name: visit.query(name).strip() for name in ("status", "store", "operation", "request_id", "since", "until")
    }
    since, until = moment(given["since"]), moment(given["until"])
    valid = {
        "status": given["status"] in OUTCOMES,
        "store": given["store"] in known,
        "operation": given["operation"] == UNKNOWN or given["operation"] in operations(),
        "request_id": True,
        "since": since is not None,
        "until": until is not None,
    }
    filters = {name: value for name, value in given.items() if value and valid[name]}
    operation = filters.get("operation")
    end = before(visit)
    where = RequestFilter(
        before=min(end, first_id(until)) if until else end,
        first=first_id(since) if since else 0,
        outcome=filters.get("status", ""),
        store_id=known.get(filters.get("store", "")),
        operation="" if operation == UNKNOWN else operation,
        request_id=filters.get("request_id", ""),
    )
    rows = await logged_requests(visit.everywhere, app_id, where, PAGE_SIZE + 1)
    more = len(rows) > PAGE_SIZE
    rows = rows[:PAGE_SIZE]
    return {
        "requests": rows,
        "operations": operations(),
        "documented_codes": Refusal.known,
        "filters": filters,
        "stores": [("", "All stores"), *((each.handle, f"{each.name} ({each.handle})") for each in stores)],
        "statuses": _STATUSES,
        "unknown": UNKNOWN,
        "older": f"?{urlencode({**filters, 'before': rows[-1].id})}" if more else "",
        "newest": f"?{urlencode(filters)}" if visit.query("before") else "",
        "days": visit.settings.request_log_days,
        "max_rows": visit.settings.request_log_rows,
        "max_per_second": MAX_PER_SECOND,
    }


async def request_of(visit: Visit, app_id: int) -> dict[str, Any]:
    """Return the request in the path, if it is one of this app."""
    logged = await REQUEST.maybe(visit.everywhere, app_id, visit.path_param("logged_id"))
    if logged is None:
        raise not_found()
    return {
        "request": logged,
        "operation": operations().get(logged.operation),
        "documented_codes": Refusal.known,
    }
