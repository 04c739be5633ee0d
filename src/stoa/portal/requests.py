"""Request log pages: the requests of an app with filters, and one request; for its developers and for operators."""

from typing import Any
from urllib.parse import urlencode

from stoa.portal.dispatch import not_found
from stoa.portal.list_view import PAGE_SIZE, before, moment
from stoa.portal.operators import found_app
from stoa.portal.pages import Audience, Pages, View
from stoa.portal.usage import operations, stores_called
from stoa.portal.visit import Visit
from stoa.rest.problems import Refusal
from stoa.usage.queries import REQUEST
from stoa.usage.reports import OUTCOMES, RequestFilter, logged_requests
from stoa.usage.request_log import MAX_PER_SECOND, first_id

pages = Pages()
UNKNOWN = "unknown"  # selects requests to unknown routes
_STATUSES = (
    ("", "Any status"),
    ("success", "Successful"),
    ("error", "Errors, without 429"),
    ("4xx", "4xx, without 429"),
    ("5xx", "5xx"),
    ("429", "Rate limited (429)"),
)


@pages.page("/apps/{app_id:int}/requests", nav="list_apps")
async def app_requests(visit: Visit) -> View:
    return View("apps/requests.html", await _log(visit, visit.app.id))


@pages.page("/apps/{app_id:int}/requests/{logged_id:int}", nav="list_apps")
async def app_request(visit: Visit) -> View:
    return View("apps/request.html", await _request(visit, visit.app.id))


@pages.page("/operators/apps/{app:int}/requests", audience=Audience.OPERATOR, nav="operator_apps")
async def operator_app_requests(visit: Visit) -> View:
    app = await found_app(visit)
    return View("operators/requests.html", {"app": app, **await _log(visit, app.id)})


@pages.page("/operators/apps/{app:int}/requests/{logged_id:int}", audience=Audience.OPERATOR, nav="operator_apps")
async def operator_app_request(visit: Visit) -> View:
    app = await found_app(visit)
    return View("operators/request.html", {"app": app, **await _request(visit, app.id)})


async def _log(visit: Visit, app_id: int) -> dict[str, Any]:
    stores = await stores_called(visit.db, app_id)
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
    rows = await logged_requests(visit.db, app_id, where, PAGE_SIZE + 1)
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


async def _request(visit: Visit, app_id: int) -> dict[str, Any]:
    logged = await REQUEST.maybe(visit.db, app_id, visit.path_param("logged_id"))
    if logged is None:
        raise not_found()
    return {
        "request": logged,
        "operation": operations().get(logged.operation),
        "documented_codes": Refusal.known,
    }
