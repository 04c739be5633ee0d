"""The home page of a store: what waits for somebody, then sales by day and week, the latest orders, and the products that
sell best."""

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from urllib.parse import urlencode

import msgspec

from stoa import money
from stoa.portal.kit.charts import Chart, Series, bars
from stoa.portal.kit.list_view import find_rows, store_of
from stoa.portal.kit.pages import ROOT, Pages, View
from stoa.portal.kit.visit import Visit
from stoa.portal.stores import home_queries
from stoa.portal.stores.home_queries import MOST_COUNTED, MOST_PRODUCTS, MOST_SUMMED
from stoa.portal.stores.orders import DUE, OPEN, ORDER_LIST, ORDER_SORTS, SOLD, TO_SHIP

pages = Pages()
_WEEKS, _DAYS = 8, 30
_EXPIRES_WITHIN = timedelta(hours=24)


class Todo(msgspec.Struct, frozen=True):
    """What waits: how many, and the list that shows them. `at_least` says that there may be more."""

    label: str
    number: int
    url: str
    at_least: bool = False
    amount: Decimal | None = None


class Day(msgspec.Struct, frozen=True):
    """The sales of a day of the store's zone, in minor units."""

    day: date
    orders: int
    total: int


class Period(msgspec.Struct, frozen=True):
    """The sales from one day of the store's zone to another, both included; `change` is the percentage by which they differ
    from those of the week before."""

    label: str
    first: date
    last: date
    orders: int
    total: Decimal
    url: str
    change: int | None = None


@pages.page("/stores/{handle}/home", nav="list_stores")
async def store_home(visit: Visit) -> View:
    days = await _sales(visit, datetime.now(visit.zone).date())
    recent, by_week = days[-_DAYS:], visit.query("by") == "week"
    weeks = [days[start : start + 7] for start in range(0, len(days), 7)]
    shown = [_period(visit, each) for each in (weeks if by_week else [[day] for day in recent])]
    context = {
        "todos": await _todos(visit),
        "figures": [
            _period(visit, days[-1:], "Today"),
            _period(visit, days[-2:-1], "Yesterday", days[-9:-8]),
            _period(visit, days[-7:], "Last 7 days", days[-14:-7]),
            _period(visit, recent, f"Last {_DAYS} days"),
        ],
        "by_week": by_week,
        "periods": shown,
        "chart": _chart(visit, shown, by_week=by_week),
        "top": await home_queries.TOP_PRODUCTS.all(visit.db, visit.store.id, _midnight(visit, recent[0].day)),
        "top_days": _DAYS,
        "latest": await find_rows(visit, ORDER_LIST, sort=ORDER_SORTS[0][0]),
        "missing": await _missing(visit),
    }
    return View("stores/home.html", context)


async def _todos(visit: Visit) -> list[Todo]:
    """What waits, the most urgent first; nothing that is at zero."""
    soon = datetime.now(UTC).replace(microsecond=0) + _EXPIRES_WITHIN
    waiting = await home_queries.WAITING_ON_STORE.one(visit.db, visit.store.id, soon)
    due = await home_queries.MONEY_DUE.one(visit.db, visit.store.id)
    scarce = await home_queries.SCARCE_PRODUCTS.one(visit.db, visit.store.id)

    def orders(label: str, number: int, **filters: str) -> Todo:
        return Todo(label, number, _list_url(visit, "orders", **filters), at_least=number >= MOST_COUNTED)

    def products(label: str, ids: Sequence[int]) -> Todo:
        joined = ",".join(map(str, ids))
        return Todo(label, len(ids), _list_url(visit, "products", ids=joined), at_least=len(ids) >= MOST_PRODUCTS)

    found = [
        orders("to ship", waiting.to_ship, status=TO_SHIP),
        Todo(
            "with money due",
            due.orders,
            _list_url(visit, "orders", status=OPEN, payment_status=DUE),
            at_least=due.orders >= MOST_SUMMED,
            amount=Decimal(due.amount),
        ),
        orders("held, expiring within 24 hours", waiting.expiring, **{"expires_at[lt]": f"{soon:%Y-%m-%dT%H:%M:%SZ}"}),
        orders("on hold", waiting.on_hold, status="on_hold"),
        orders("suspected duplicates", waiting.duplicates, has_suspected_duplicates="true"),
        products("out of stock", scarce.out_of_stock),
        products("low on stock", scarce.low_stock),
        Todo("imports with failed rows", waiting.failed_imports, _list_url(visit, "imports")),
    ]
    return [each for each in found if each.number]


async def _sales(visit: Visit, today: date) -> list[Day]:
    """Each day of the last weeks, also those without sales; the last one is today."""
    days = [today - timedelta(days=back) for back in range(7 * _WEEKS - 1, -1, -1)]
    begins = [_midnight(visit, day) for day in days]
    end = _midnight(visit, today + timedelta(days=1))
    rows = await home_queries.SALES.all(visit.db, visit.store.id, begins, begins[0], end)
    sold = {row.number: (row.orders, row.total) for row in rows}
    return [Day(day, *sold.get(number, (0, 0))) for number, day in enumerate(days, start=1)]


def _period(visit: Visit, days: Sequence[Day], label: str = "", before: Sequence[Day] = ()) -> Period:
    first, last = days[0].day, days[-1].day
    minor, earlier = sum(each.total for each in days), sum(each.total for each in before)
    total = Decimal(money.to_text(minor, store_of(visit).digits))
    url = _list_url(visit, "orders", status=SOLD, since=first.isoformat(), until=last.isoformat())
    change = round(100 * (minor - earlier) / earlier) if earlier else None
    return Period(label, first, last, sum(each.orders for each in days), total, url, change)


def _chart(visit: Visit, shown: Sequence[Period], *, by_week: bool) -> Chart:
    series = Series("Sales", "sea", "sales", [float(each.total) for each in shown])
    title = "Sales by week" if by_week else "Sales by day"
    return bars("sales", title, visit.store.currency, [each.first for each in shown], [series])


async def _missing(visit: Visit) -> str:
    """What an empty store needs first: products, then orders; empty if it has both."""
    if await home_queries.ANY_PRODUCT.maybe(visit.db, visit.store.id) is None:
        return "products"
    return "orders" if await home_queries.ANY_ORDER.maybe(visit.db, visit.store.id) is None else ""


def _midnight(visit: Visit, day: date) -> datetime:
    """The first moment of a day in the store's zone."""
    return datetime.combine(day, time(), visit.zone).astimezone(UTC)


def _list_url(visit: Visit, section: str, **filters: str) -> str:
    query = f"?{urlencode(filters)}" if filters else ""
    return f"{ROOT}/stores/{visit.store.handle}/{section}{query}"
