"""How an app is used: requests, errors, latency and limits by day and store, and the requests that were refused lately."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from functools import cache
from urllib.parse import urlencode

import msgspec

from stoa.access.queries import INSTALLATIONS_OF_APP
from stoa.api import ENDPOINTS
from stoa.portal import charts
from stoa.portal.calling import Calling
from stoa.portal.charts import Chart, Series
from stoa.portal.pages import Pages, View
from stoa.portal.visit import Visit
from stoa.reference.document import Group
from stoa.rest.problems import Refusal
from stoa.usage.figures import Usage, failures_of, stores_of, usage_of
from stoa.usage.queries import Day, OfStore

pages = Pages()
SPANS = (7, 30, 90)
_USUAL_SPAN = 30
_LONGEST = 400  # days that figures are kept
_MOST_OPERATIONS, _MOST_STORES = 12, 12
_FAILURES, _MOST_FAILURES = 25, 1000


class Operation(msgspec.Struct, frozen=True):
    """An endpoint as a developer knows it, and where its reference is."""

    method: str
    path: str
    address: str


@pages.page("/apps/{app_id:int}/usage", under="list_apps")
async def app_usage(visit: Visit) -> View:
    span = next((each for each in SPANS if str(each) == visit.query("days")), _USUAL_SPAN)
    last = datetime.now(UTC).date()
    first = last - timedelta(days=span - 1)
    known = await stores_of(visit.db, visit.app.id, last - timedelta(days=_LONGEST), last)
    chosen = _chosen(visit, known)
    usage = await usage_of(visit.db, visit.app.id, first, last, store_id=chosen.store_id if chosen else None)
    by_store = await stores_of(visit.db, visit.app.id, first, last)
    installed = await INSTALLATIONS_OF_APP.all(visit.db, visit.app.id)
    context = {
        "spans": SPANS,
        "span": span,
        "known": known,
        "chosen": chosen,
        "usage": usage,
        "share": share(usage),
        "pictures": pictures(usage.days),
        "operations": [(each, operations().get(each.operation)) for each in usage.operations[:_MOST_OPERATIONS]],
        "by_store": by_store[:_MOST_STORES],
        "silent": not known,
        "calling": Calling(visit.origin, visit.app.client_id, handle=installed[0].store if installed else ""),
    }
    return View("apps/usage.html", context)


@pages.page("/apps/{app_id:int}/failures", under="list_apps")
async def app_failures(visit: Visit) -> View:
    last = datetime.now(UTC).date()
    known = await stores_of(visit.db, visit.app.id, last - timedelta(days=_LONGEST), last)
    chosen = _chosen(visit, known)
    store_id = chosen.store_id if chosen else None
    found = await failures_of(visit.db, visit.app.id, store_id=store_id, most=_MOST_FAILURES)
    number = _page_number(visit.query("page"), -(-len(found) // _FAILURES))
    start = (number - 1) * _FAILURES
    rows = found[start : start + _FAILURES]

    def address(to: int) -> str:
        return f"?{urlencode({**({'store': chosen.handle} if chosen else {}), 'page': to})}"

    context = {
        "known": known,
        "chosen": chosen,
        "failures": [(each, operations().get(each.operation)) for each in rows],
        "explained": Refusal.known,
        "total": len(found),
        "first": start + 1,
        "next": address(number + 1) if start + _FAILURES < len(found) else "",
        "before": address(number - 1) if number > 1 else "",
    }
    return View("apps/failures.html", context)


def pictures(days: Sequence[Day]) -> list[Chart]:
    """The four pictures of some days."""
    along: list[date] = [each.day for each in days]
    return [
        charts.bars(
            "requests", "Requests", "a day", along,
            [Series("Requests", "sea", "requests", [each.requests for each in days])],
        ),
        charts.bars(
            "errors", "Errors", "a day", along,
            [
                Series("Refused (4xx)", "ochre", "refused", [each.client_errors for each in days]),
                Series("Failed (5xx)", "clay", "failed", [each.server_errors for each in days]),
            ],
        ),
        charts.lines(
            "latency", "Latency", "ms", along,
            [
                Series("Slowest twentieth (p95)", "ochre", "p95", [each.p95_ms for each in days]),
                Series("Middle (p50)", "sea", "p50", [each.p50_ms for each in days]),
            ],
        ),
        charts.bars(
            "limited", "Over the rate limit", "a day", along,
            [Series("Answered 429", "ochre", "limited", [each.rate_limited for each in days])],
        ),
    ]  # fmt: skip


@cache
def operations() -> dict[str, Operation]:
    """Every endpoint by its operationId."""
    return {
        each.name: Operation(each.method, each.path, f"{Group(each.group, '', []).address}/{each.name}")
        for each in ENDPOINTS
    }


def share(usage: Usage) -> float | None:
    """How many of a hundred requests were refused or failed."""
    total = usage.total
    return round(100 * total.errors / total.requests, 2) if total.requests else None


def _chosen(visit: Visit, known: Sequence[OfStore]) -> OfStore | None:
    """The store that the address asks for, among those that the app has called."""
    return next((each for each in known if each.handle == visit.query("store")), None)


def _page_number(said: str, pages: int) -> int:
    number = int(said) if said.isascii() and said.isdigit() and len(said) < 6 else 1
    return number if 1 <= number <= pages else 1
