"""A list of the API as a page shows it: the same filters, cursors and exact totals, with addresses for the neighbours."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode

import msgspec

from stoa.db.errors import PostgresError, sqlstate
from stoa.db.listing import Listing
from stoa.portal.visit import Visit
from stoa.rest.endpoint import Store
from stoa.rest.lists import ListOf, Page, list_page, read_list
from stoa.rest.problems import Refusal

T = TypeVar("T")
ROWS = 25
NEWEST = (("-id", "Newest first"),)
_LONGEST_CURSOR = 4_000
_WRONG_VALUE = "22"  # the class of SQLSTATE


class Shown(msgspec.Struct, Generic[T]):
    """One page of a list: its rows, what it was filtered by, and where its neighbours are."""

    rows: list[T]
    total: int
    given: dict[str, str]
    sort: str
    next: str
    before: str
    fault: str


class Kind(msgspec.Struct, Generic[T], frozen=True):
    """What is listed: the parameters that the API takes, how the table is read, and what a document is."""

    of: ListOf
    listing: Listing
    row: type[T]
    seen: Callable[[bytes], bytes] | None = None  # what a stored document still needs before it is shown


def store_of(visit: Visit) -> Store:
    """The store at this address, as the slices know it."""
    store = visit.store
    return Store(store.id, store.handle, store.name, store.currency, store.status)


async def shown(
    visit: Visit,
    kind: Kind[T],
    *,
    sorts: Sequence[tuple[str, str]],
    offered: Sequence[str] = (),
    always: Mapping[str, str] | None = None,
    at: Mapping[str, int] | None = None,
    cursor: str = "cursor",
    rows: int = ROWS,
) -> Shown[T]:
    """List by what the address says: the `offered` filters and the cursor. What cannot be read is told, not obeyed.

    `always` holds for whoever looks, `at` is what the path itself names; of the sorts, pairs of key and words, the first
    holds unless the address names another.
    """
    given = {name: value for name in offered if (value := visit.query(name).strip())}
    place = visit.request.query_params.get(cursor, "")
    sort = visit.query("sort") if visit.query("sort") in dict(sorts) else sorts[0][0]
    fixed = {"sort": sort, "limit": str(rows), **(always or {})}
    asked = {**fixed, **given, **({"cursor": place} if 0 < len(place) <= _LONGEST_CURSOR else {})}
    fault = ""
    try:
        page = await _page(visit, kind, asked, at or {})
    except Refusal as refusal:
        fault = _sentence(refusal)
        page = await _page(visit, kind, fixed, at or {})
    except PostgresError as error:
        if not sqlstate(error).startswith(_WRONG_VALUE):
            raise
        # A cursor that was made up may name what no column can hold.
        fault = "This address cannot be read, so the list begins anew."
        page = await _page(visit, kind, fixed, at or {})
    docs = [kind.seen(doc) for doc in page.docs] if kind.seen else page.docs
    decoder = msgspec.json.Decoder(kind.row)

    kept = {**({} if fault else given), **({} if sort == sorts[0][0] else {"sort": sort})}

    def address(to: str | None) -> str:
        return f"?{urlencode({**kept, cursor: to})}" if to else ""

    return Shown(
        [decoder.decode(doc) for doc in docs],
        page.total,
        given,
        sort,
        address(page.next_cursor),
        address(page.prev_cursor),
        fault,
    )


async def _page(visit: Visit, kind: Kind[Any], asked: Mapping[str, str], at: Mapping[str, int]) -> Page[Any]:
    query = read_list(kind.of, urlencode(asked).encode(), store_of(visit))
    for name, value in at.items():
        query = query.with_filter(name, value)
    return await list_page(visit.db, visit.store.id, kind.listing, query, separate=True)


def _sentence(refusal: Refusal) -> str:
    """Why a list was not filtered as asked, for people."""
    faults = "; ".join(f"“{fault.pointer}” {fault.detail}" for fault in refusal.faults)
    return f"{refusal.detail} {faults}".strip()


class Part(msgspec.Struct):
    """A few members of something long, by number; figures are from 1."""

    members: list[Any]
    first: int
    last: int
    total: int
    next: str
    before: str


def part(visit: Visit, members: Sequence[Any], parameter: str, most: int) -> Part:
    """The members that the address asks for; what it asks wrongly is the first ones."""
    said = visit.query(parameter)
    pages = max(1, -(-len(members) // most))
    number = int(said) if said.isascii() and said.isdigit() and len(said) < 6 and 1 <= int(said) <= pages else 1
    chosen = list(members[(number - 1) * most : number * most])
    first = (number - 1) * most + 1
    return Part(
        chosen,
        first,
        first + len(chosen) - 1,
        len(members),
        f"?{parameter}={number + 1}" if number < pages else "",
        f"?{parameter}={number - 1}" if number > 1 else "",
    )
