"""Lists on pages: an API list with the same filters, cursors and exact totals, plus links to its neighbor pages."""

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

import msgspec

from stoa.db.listing import Listing
from stoa.portal.kit.visit import Visit
from stoa.rest.call import Store
from stoa.rest.lists import LARGEST_PAGE, ListOf, Page, list_page, read_list
from stoa.rest.problems import Refusal

T = TypeVar("T")
PAGE_SIZE, FOUND_AT_MOST = 25, 6
NEWEST = (("-id", "Newest first"),)
NEWEST_NUMBER = 2**62
_MINE = "mine"
_PERIOD = {"since": ("gte", 0), "until": ("lt", 1)}


class ListView(msgspec.Struct, Generic[T]):
    """One page of a list: its rows, the active filters, and the URLs of the neighbor pages."""

    rows: list[T]
    total: int
    filters: dict[str, str]
    sort: str
    next: str
    previous: str
    fault: str


class ListSource(msgspec.Struct, Generic[T], frozen=True):
    """What is listed: the API parameters, the SQL, and the type of a document."""

    of: ListOf
    listing: Listing
    row: type[T]
    transform: Callable[[bytes], bytes] | None = None  # applied to each stored document
    period: str = ""  # the time that the filters `since` and `until` of a page limit, by days of the store's zone
    mine: str = ""  # the condition that the filter `mine` of a page sets to the visitor's account


def store_of(visit: Visit) -> Store:
    """Return the store in the path in the form that the slices use."""
    store = visit.store
    return Store(store.id, store.handle, store.name, store.currency, store.status, store.prices_include_tax)


async def list_view(
    visit: Visit,
    source: ListSource[T],
    *,
    sorts: Sequence[tuple[str, str]],
    offered: Sequence[str] = (),
    fixed: Mapping[str, str] | None = None,
    path_filters: Mapping[str, int] | None = None,
    cursor_name: str = "cursor",
    rows: int = PAGE_SIZE,
) -> ListView[T]:
    """List by the `offered` filters and the cursor of the URL; invalid ones are ignored and reported in `fault`.

    `fixed` filters always apply and `path_filters` come from the path. `sorts` are pairs of key and label; the first is
    the default.
    """
    filters, sort = _chosen(visit, sorts, offered)
    cursor = visit.request.query_params.get(cursor_name, "")
    base = {"sort": sort, "limit": str(rows), **(fixed or {})}
    parameters = {**base, **_moments(visit, source, filters), **({"cursor": cursor} if cursor else {})}
    fault = ""
    try:
        page = await _page(visit, source, parameters, {**(path_filters or {}), **_own(visit, source, filters)})
    except Refusal as refusal:
        fault = _sentence(refusal)
        page = await _page(visit, source, base, path_filters or {})
    kept = {**({} if fault else filters), **({} if sort == sorts[0][0] else {"sort": sort})}

    def url(cursor: str | None) -> str:
        return f"?{urlencode({**kept, cursor_name: cursor})}" if cursor else ""

    return ListView(
        _decoded(source, page),
        page.total,
        filters,
        sort,
        url(page.next_cursor),
        url(page.prev_cursor),
        fault,
    )


def _chosen(visit: Visit, sorts: Sequence[tuple[str, str]], offered: Sequence[str]) -> tuple[dict[str, str], str]:
    """The filters and the sort key of the URL."""
    filters = {name: value for name in offered if (value := visit.query(name).strip())}
    return filters, visit.query("sort") if visit.query("sort") in dict(sorts) else sorts[0][0]


def _moments(visit: Visit, source: ListSource[Any], filters: Mapping[str, str]) -> dict[str, str]:
    """The filters as the API knows them: the days of a period become its first moment, and the first one after it."""
    by_page = {*(_PERIOD if source.period else ()), *((_MINE,) if source.mine else ())}
    named = {name: value for name, value in filters.items() if name not in by_page}
    for name, (operator, days) in _PERIOD.items() if source.period else ():
        if name in filters:
            try:
                day = date.fromisoformat(filters[name]) + timedelta(days=days)
                value = datetime.combine(day, time(), visit.zone).astimezone(UTC).isoformat()
            except (ValueError, OverflowError):
                value = filters[name]  # which the API refuses
            named[f"{source.period}[{operator}]"] = value
    return named


def _own(visit: Visit, source: ListSource[Any], filters: Mapping[str, str]) -> dict[str, int]:
    return {source.mine: visit.me.account_id} if source.mine and _MINE in filters else {}


def _decoded(source: ListSource[T], page: Page[Any]) -> list[T]:
    docs = [source.transform(doc) for doc in page.docs] if source.transform else page.docs
    decoder = msgspec.json.Decoder(source.row)
    return [decoder.decode(doc) for doc in docs]


async def list_pages(
    visit: Visit,
    source: ListSource[T],
    *,
    sorts: Sequence[tuple[str, str]],
    offered: Sequence[str],
    fixed: Mapping[str, str] | None = None,
) -> AsyncGenerator[ListView[T]]:
    """All pages of the list that a page shows, the largest that the API allows. An invalid filter ends it with a fault."""
    filters, sort = _chosen(visit, sorts, offered)
    parameters = {"sort": sort, "limit": str(LARGEST_PAGE), **(fixed or {}), **_moments(visit, source, filters)}
    cursor: str | None = None
    while True:
        try:
            resumed = {**parameters, **({"cursor": cursor} if cursor else {})}
            page = await _page(visit, source, resumed, _own(visit, source, filters))
        except Refusal as refusal:
            yield ListView([], 0, filters, sort, "", "", _sentence(refusal))
            return
        yield ListView(_decoded(source, page), page.total, filters, sort, "", "", "")
        cursor = page.next_cursor
        if cursor is None:
            return


async def find_rows(visit: Visit, source: ListSource[T], **filters: str) -> list[T]:
    """The newest few rows that match all filters; none if a filter does not accept its value."""
    try:
        page = await _page(visit, source, {"sort": "-id", "limit": str(FOUND_AT_MOST), **filters}, {})
    except Refusal:
        return []
    return _decoded(source, page)


async def _page(
    visit: Visit, source: ListSource[Any], parameters: Mapping[str, str], path_filters: Mapping[str, int]
) -> Page[Any]:
    query = read_list(source.of, urlencode(parameters).encode(), store_of(visit), visit.request.url.path)
    for name, value in path_filters.items():
        query = query.with_filter(name, value)
    return await list_page(visit.db, visit.store.id, source.listing, query, separate=True)


def _sentence(refusal: Refusal) -> str:
    """Return why a filter was ignored."""
    faults = "; ".join(f"“{fault.pointer}” {fault.detail}" for fault in refusal.faults)
    return f"{refusal.detail} {faults}".strip()


class Slice(msgspec.Struct):
    """One page of a long sequence; `first` and `last` count from 1."""

    items: list[Any]
    first: int
    last: int
    total: int
    next: str
    previous: str


def paginate(
    visit: Visit, items: Sequence[Any], parameter: str, size: int, kept: Mapping[str, str] | None = None
) -> Slice:
    """Return the page that a query parameter selects; the first one if the parameter is invalid.

    The links to its neighbors keep the other parameters in `kept`.
    """

    def url(number: int) -> str:
        return f"?{urlencode({**(kept or {}), parameter: number})}"

    pages = max(1, -(-len(items) // size))
    number = page_number(visit.query(parameter), pages)
    selected = list(items[(number - 1) * size : number * size])
    first = (number - 1) * size + 1
    return Slice(
        selected,
        first,
        first + len(selected) - 1,
        len(items),
        url(number + 1) if number < pages else "",
        url(number - 1) if number > 1 else "",
    )


def page_number(value: str, pages: int) -> int:
    """Parse a page number; 1 if it is not a number of one of the pages."""
    number = int(value) if value.isascii() and value.isdigit() and len(value) < 6 else 1
    return number if 1 <= number <= pages else 1


def before(visit: Visit) -> int:
    """Return the number below which a list continues, from the query parameter `before`; ignored if it is invalid."""
    value = visit.query("before")
    return int(value) if value.isascii() and value.isdigit() and 0 < len(value) < 19 else NEWEST_NUMBER


def before_pair(visit: Visit) -> tuple[int, int]:
    """Return the number and the store below which a list over all stores continues, as in `before=12-7`."""
    number, _, store_id = visit.query("before").partition("-")
    if not all(each.isascii() and each.isdigit() and len(each) < 19 for each in (number, store_id)):
        return NEWEST_NUMBER, NEWEST_NUMBER
    return int(number), int(store_id)


def moment(value: str) -> datetime | None:
    """Parse the value of a datetime-local filter as UTC; None if it is missing or invalid."""
    try:
        time = datetime.fromisoformat(value)
    except ValueError:
        return None
    time = time if time.tzinfo else time.replace(tzinfo=UTC)
    return time if 2000 <= time.year <= 4000 else None
