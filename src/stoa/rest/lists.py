"""Lists: parses the query parameters, and returns a page with its exact total, its cursors and its links."""

from collections.abc import Mapping, Sequence
from functools import cache, cached_property, lru_cache
from typing import Annotated, Any, Generic, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from stoa.db.listing import Listing, Rows, Shape
from stoa.db.query import Executor
from stoa.rest.checks import Time
from stoa.rest.csv_rows import Columns
from stoa.rest.cursors import LONGEST_CURSOR, Cursor, decode_cursor, encode_cursor, invalid_cursor, keys_after
from stoa.rest.filters import Entries, Entry, Filter, Flag, InvalidValue, Number, StoreContext, Text
from stoa.rest.metadata import NO_DEFINITIONS
from stoa.rest.problems import CursorMismatch, Fault, InvalidParameter, PageTooDeep, Refusal, counted, printable
from stoa.rest.query_string import query_parameters, subset, unknown_parameters

T = TypeVar("T")
LARGEST_PAGE, DEFAULT_PAGE, DEEPEST_ROW = 250, 50, 10_000


class ListOf(msgspec.Struct, frozen=True, eq=False, dict=True):
    """The parameters of a list endpoint: its filters, its sort keys with their types, and what it can include."""

    filters: Mapping[str, Filter]
    sorts: Mapping[str, type]
    sorts_within: Mapping[str, str] = {}  # sort keys that need a filter, with its name
    default_sort: tuple[str, ...] = ("id",)
    includes: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    deletable: bool = False
    meta: Mapping[str, Any] = {}  # JSON Schemas of further members of `meta`
    options: Mapping[str, Filter] = {}  # parameters that the handler uses; they do not filter rows
    columns: Columns | None = None  # of its CSV file; by default those of the resource

    def parameters(self) -> dict[str, Filter]:
        """All parameters of this list, for parsing and for the documentation."""
        return {
            **_COMMON,
            **({"include": _INCLUDE} if self.includes else {}),
            **({"include_deleted": _DELETED} if self.deletable else {}),
            **self.filters,
            **self.options,
        }

    @cached_property
    def sets(self) -> frozenset[str]:
        """The parameters that accept several values, separated by commas or by repeating the name."""
        return _LISTS_OF_NAMES | {name for name, kind in self.parameters().items() if kind.several}


_COMMON: dict[str, Filter] = {
    "limit": Number(description=f"Rows per page, from 1 to {LARGEST_PAGE}. The default is {DEFAULT_PAGE}."),
    "per_page": Number(description="An alias of `limit`."),
    "page": Number(description=f"The page number, starting at 1. Page numbers cover the first {DEEPEST_ROW:,} rows."),
    "cursor": Text(description="The `next_cursor` or `prev_cursor` of an earlier page.", longest=LONGEST_CURSOR),
    "sort": Text(description="Sort keys, separated by commas. A leading minus sorts in descending order."),
    "fields": Text(description="Return only these fields of each resource, separated by commas.", longest=1000),
}
_INCLUDE = Text(description="Related data to include in each resource, separated by commas.")
_DELETED = Flag(
    description="Also return resources deleted in the last 90 days, as `{id, deleted_at, updated_at, version}`."
)
_LISTS_OF_NAMES = frozenset({"sort", "fields", "include"})
_CHANGEABLE = frozenset({"limit", "per_page", "fields", "include"})  # may differ from the query of the cursor
_NOT_FILTERS = frozenset({*_COMMON, "include", "include_deleted"})


class Tombstone(msgspec.Struct):
    """A deleted resource, as lists with `include_deleted` and deletion events show it."""

    id: int
    deleted_at: Time
    version: int
    # Events from before 3.2 have none.
    updated_at: Annotated[
        Time | UnsetType, Meta(description="The time of the last change, which is the deletion, in UTC.")
    ] = UNSET


class ListQuery(msgspec.Struct):
    """A valid list request."""

    shape: Shape
    values: list[Any]
    after: list[Any]
    limit: int
    page: int | None
    fields: frozenset[str] | None
    include: frozenset[str]
    given: dict[str, str]  # all parameters except cursor and page, as a cursor stores them
    options: dict[str, Any] = {}
    of_list: str = ""  # what a cursor names as its list
    sent: frozenset[str] = frozenset()  # the names of the parameters in the request, without those that a cursor stores
    streamed: bool = False  # a part of a stream, whose documents are lines

    @property
    def filters(self) -> dict[str, Any]:
        """The values of the filters by their names."""
        return dict(zip(self.shape.filters, self.values, strict=True))

    def continued(self, last: Sequence[Any]) -> "ListQuery":
        """The same request after these sort keys, without its total."""
        shape = msgspec.structs.replace(self.shape, resumed=True, counted=False)
        return msgspec.structs.replace(self, shape=shape, after=list(last))

    def with_filter(self, name: str, value: Any) -> "ListQuery":
        """The same request with one more filter, such as an id in the path."""
        return self.with_filters({**self.filters, name: value})

    def with_filters(self, filters: Mapping[str, Any]) -> "ListQuery":
        """The same request with these filters."""
        names = tuple(sorted(filters))
        shape = msgspec.structs.replace(self.shape, filters=names)
        return msgspec.structs.replace(self, shape=shape, values=[filters[each] for each in names])


def read_list(spec: ListOf, query_string: bytes, store: StoreContext, path: str) -> ListQuery:
    """Parse a list request, or refuse it with all faults at once. Store and `path` name the list to which cursors belong."""
    of_list = f"{store.store_id}{path}"
    query = _read_list(spec, query_string, store, of_list) if query_string else _plain(spec)
    return msgspec.structs.replace(query, of_list=of_list)


def _read_list(spec: ListOf, query_string: bytes, store: StoreContext, of_list: str) -> ListQuery:
    given = query_parameters(query_string, spec.sets)
    if "per_page" in given and "limit" not in given:
        given["limit"] = given.pop("per_page")
    sent = frozenset(given)
    cursor_text = given.pop("cursor", None)
    if cursor_text is None:
        return msgspec.structs.replace(_read(spec, given, store, None), sent=sent)
    cursor = decode_cursor(cursor_text, of_list)
    if "page" in given:
        raise InvalidParameter("Send either `page` or `cursor`, not both.")
    for name, value in given.items():
        if name not in _CHANGEABLE and cursor.query.get(name) != value:
            raise CursorMismatch(
                f"The cursor belongs to a query with another value of {printable(name)}, or without it. "
                "Start again without `cursor`."
            )
    try:
        return msgspec.structs.replace(_read(spec, {**cursor.query, **given}, store, cursor), sent=sent)
    except Refusal as refusal:
        _check_query(spec, cursor, store)
        raise refusal from None


def _check_query(spec: ListOf, cursor: Cursor, store: StoreContext) -> None:
    """Refuse a cursor whose own query is invalid; the caller did not send these parameters and cannot correct them."""
    try:
        _read(spec, cursor.query, store, cursor)
    except Refusal as refusal:
        raise invalid_cursor() from refusal


class _NoStore:
    """Stands in for the store of a request without parameters, which is the same for every store."""

    store_id = digits = 0
    definitions = NO_DEFINITIONS


@cache
def _plain(spec: ListOf) -> ListQuery:
    return _read(spec, {}, _NoStore(), None)


def _read(spec: ListOf, given: dict[str, str], store: StoreContext, cursor: Cursor | None) -> ListQuery:
    faults: list[Fault] = []
    unknown: list[str] = []
    filters: dict[str, Any] = {}
    entries: dict[str, list[Entry]] = {}
    known = spec.parameters()
    for name, text in given.items():
        base, bracket, rest = name.partition("[")
        operator = rest[:-1] if rest.endswith("]") else ""
        kind = known.get(base)
        if kind is None or (bracket and operator not in kind.operators and "*" not in kind.operators):
            unknown.append(name)
            continue
        if base in _NOT_FILTERS:
            continue
        try:
            if isinstance(kind, Entries) and operator:
                entries.setdefault(base, []).append(kind.read_entry(operator, text, store))
            else:
                filters[name] = kind.read(text, store)
        except InvalidValue as error:
            faults.append(Fault(printable(name), "invalid_parameter", str(error)))
    for base, found in entries.items():
        kind = known[base]
        if isinstance(kind, Entries):
            try:
                filters |= kind.read_entries(found, store)
            except InvalidValue as error:
                faults.append(Fault(base, "invalid_parameter", str(error)))
    if unknown:
        operators = {name: kind.operators for name, kind in known.items()}
        raise unknown_parameters("list", unknown, operators)
    limit = _integer("limit", given.get("limit"), DEFAULT_PAGE, LARGEST_PAGE, faults)
    page = _integer("page", given["page"], 1, 10**9, faults) if "page" in given else None
    sort = _sort(spec, given, faults)
    fields = subset("fields", given.get("fields"), spec.fields, faults)
    include = subset("include", given.get("include"), spec.includes, faults) or frozenset[str]()
    deleted = _flag(given.get("include_deleted"), faults)
    if "limit" in given and "per_page" in given:
        faults.append(Fault("per_page", "invalid_parameter", "is an alias of limit; send only one of them"))
    if faults:
        raise InvalidParameter(f"{counted(len(faults), 'parameter')} cannot be read.", faults=faults)
    if page is not None and page * limit > DEEPEST_ROW:
        raise PageTooDeep(
            f"Page numbers cover the first {DEEPEST_ROW:,} rows. To read further, follow meta.next_cursor from page 1."
        )
    options = {name: filters.pop(name) for name in spec.options if name in filters}
    names = tuple(sorted(filters))
    after = keys_after(cursor, [spec.sorts[name.lstrip("-")] for name in sort]) if cursor else []
    shape = Shape(
        filters=names,
        sort=sort,
        resumed=cursor is not None,
        backwards=cursor is not None and cursor.backwards,
        offset=page is not None and page > 1,
        deleted=deleted,
    )
    cursor_query = {name: value for name, value in given.items() if name != "page"}
    # `include` adds its names to `fields`, and a field that can be included is included.
    if fields is not None:
        include |= fields & frozenset(spec.includes)
        fields |= include
    values = [filters[name] for name in names]
    return ListQuery(shape, values, after, limit, page, fields, include, cursor_query, options)


def _integer(name: str, text: str | None, default: int, largest: int, faults: list[Fault]) -> int:
    if text is None:
        return default
    if text.isascii() and text.isdigit() and len(text) < 12 and 1 <= int(text) <= largest:
        return int(text)
    faults.append(Fault(name, "invalid_parameter", f"must be an integer from 1 to {largest}"))
    return default


def _flag(text: str | None, faults: list[Fault]) -> bool:
    if text not in (None, "true", "false"):
        faults.append(Fault("include_deleted", "invalid_parameter", "must be true or false"))
    return text == "true"


def _sort(spec: ListOf, given: Mapping[str, str], faults: list[Fault]) -> tuple[str, ...]:
    text = given.get("sort")
    if text is None:
        return spec.default_sort
    keys = text.split(",")
    names = [key.removeprefix("-") for key in keys]
    if any(name not in spec.sorts for name in names) or len(set(names)) != len(names):
        message = f"accepts each of {', '.join(spec.sorts)} once, with a leading minus for descending order"
        faults.append(Fault("sort", "invalid_parameter", message))
        return spec.default_sort
    for name in names:
        if (needed := spec.sorts_within.get(name)) and needed not in given:
            faults.append(Fault("sort", "invalid_parameter", f"accepts {name} only together with {needed}"))
    if "id" in names:
        return tuple(keys[: names.index("id") + 1])  # ids are unique, so later keys have no effect
    return (*keys, "-id" if keys[-1].startswith("-") else "id")


# --- the page ------------------------------------------------------------------------------------------------------


class Page(msgspec.Struct, Generic[T]):
    """A page of documents, with the values of its `meta` and its links."""

    docs: list[bytes]  # one element with all documents, joined, unless `list_page` was called with `separate`
    ids: Sequence[int]
    total: int
    limit: int
    page: int | None
    next_cursor: str | None
    prev_cursor: str | None
    extra_meta: dict[str, Any] = {}  # further members of `meta`, declared in ListOf.meta
    last: Sequence[Any] = ()  # the sort keys of the last row

    def meta(self) -> str:
        def quoted(cursor: str | None) -> str:
            return f'"{cursor}"' if cursor else "null"

        page = "null" if self.page is None else self.page
        return (
            f'{{"total":{self.total},"limit":{self.limit},"page":{page},'
            f'"next_cursor":{quoted(self.next_cursor)},"prev_cursor":{quoted(self.prev_cursor)}'
            f"{',' if self.extra_meta else ''}{msgspec.json.encode(self.extra_meta).decode()[1:]}"
        )

    def links(self, url: str) -> str:
        """The value of the `Link` header: the next and the previous page (RFC 8288)."""
        cursors = [("next", self.next_cursor), ("prev", self.prev_cursor)]
        return ", ".join([f'<{url}?cursor={cursor}>; rel="{rel}"' for rel, cursor in cursors if cursor])


async def list_page(
    db: Executor, store_id: int, listing: Listing, query: ListQuery, *, separate: bool = False, caller: str = ""
) -> Page[Any]:
    """Run a list request against a table.

    `separate` returns each document on its own, for a handler that changes them. `caller` is the argument of a listing
    whose documents depend on the caller.
    """
    skip = (query.page - 1) * query.limit if query.page else 0
    shape = query.shape
    if shape.counted and not (separate or query.fields is not None or query.include or shape.backwards):
        shape = _joined(shape, "\n" if query.streamed else ",")
    rows = await listing.page(db, store_id, shape, query.values, query.after, query.limit, skip, caller)
    return _page(rows, query)


@lru_cache(maxsize=4096)
def _joined(shape: Shape, separator: str) -> Shape:
    return msgspec.structs.replace(shape, joined=separator)


def _page(rows: Rows, query: ListQuery) -> Page[Any]:
    shape = query.shape
    first = not shape.resumed and (query.page or 1) == 1
    has_next = rows.more if not shape.backwards else True
    has_prev = rows.more if shape.backwards else not first
    next_cursor = prev_cursor = None
    last: list[Any] = []
    if rows.docs:
        last = [column[-1] for column in rows.keys]
        if has_next:
            next_cursor = encode_cursor(query.of_list, query.given, last, backwards=False)
        if has_prev:
            prev_cursor = encode_cursor(query.of_list, query.given, [column[0] for column in rows.keys], backwards=True)
    page = query.page or (1 if first else None)
    return Page(rows.docs, rows.keys[-1], rows.total, query.limit, page, next_cursor, prev_cursor, last=last)
