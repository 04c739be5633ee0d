"""Lists: parameters in, a page out; cursors that carry their query, exact totals, links to the neighbours."""

from collections.abc import Mapping, Sequence
from functools import cache, cached_property, lru_cache
from typing import Any, Generic, TypeVar

import msgspec

from stoa.db.listing import Listing, Rows, Shape
from stoa.db.query import Executor
from stoa.rest.checks import Time
from stoa.rest.cursors import Cursor, decode_cursor, encode_cursor, keys_after
from stoa.rest.filters import Entries, Filter, Flag, InvalidValue, Number, Reader, Text
from stoa.rest.problems import (
    CursorMismatch,
    Fault,
    InvalidParameter,
    PageTooDeep,
    counted,
    shown,
)
from stoa.rest.request import query_parameters, subset, unknown_parameters

T = TypeVar("T")
LARGEST_PAGE, DEFAULT_PAGE, DEEPEST_ROW = 250, 50, 10_000


class ListOf(msgspec.Struct, frozen=True, eq=False, dict=True):
    """What a list endpoint takes: its filters, the types of its sort keys, and what may be included."""

    filters: Mapping[str, Filter]
    sorts: Mapping[str, type]
    default_sort: tuple[str, ...] = ("id",)
    includes: tuple[str, ...] = ()
    fields: tuple[str, ...] = ()
    deletable: bool = False
    meta: Mapping[str, Any] = {}  # JSON Schemas of what `meta` holds besides
    options: Mapping[str, Filter] = {}  # what the handler itself is to know; no condition on the rows

    def parameters(self) -> dict[str, Filter]:
        """Every parameter this list takes, for reading and for the documentation."""
        return {
            **_COMMON,
            **({"include": _INCLUDE} if self.includes else {}),
            **({"include_deleted": _DELETED} if self.deletable else {}),
            **self.filters,
            **self.options,
        }

    @cached_property
    def sets(self) -> frozenset[str]:
        """The parameters that take several values, by commas or by their name again."""
        return _SHAPING | {name for name, kind in self.parameters().items() if kind.several}


_COMMON: dict[str, Filter] = {
    "limit": Number(description=f"Rows on a page, 1 to {LARGEST_PAGE}; {DEFAULT_PAGE} unless given."),
    "per_page": Number(description="The same as `limit`."),
    "page": Number(description=f"A page by its number, from 1, for the first {DEEPEST_ROW:,} rows."),
    "cursor": Text(description="Where to go on: `next_cursor` or `prev_cursor` of a page before.", longest=4000),
    "sort": Text(description="Sort keys with commas between; a leading minus sorts downwards."),
    "fields": Text(description="Only these fields of each resource, with commas between.", longest=1000),
}
_INCLUDE = Text(description="What else to put into each resource, with commas between.")
_DELETED = Flag(description="Also list deleted resources of the last 90 days, as `{id, deleted_at, version}`.")
_SHAPING = frozenset({"sort", "fields", "include"})
_FREE = frozenset({"limit", "per_page", "fields", "include"})
_OWN = frozenset({*_COMMON, "include", "include_deleted"})  # read by the list itself


class Tombstone(msgspec.Struct):
    """What is left of a deleted resource: in lists that ask for it, and in the event that tells of it."""

    id: int
    deleted_at: Time
    version: int


class ListQuery(msgspec.Struct):
    """A list request, read and found right."""

    shape: Shape
    values: list[Any]
    after: list[Any]
    limit: int
    page: int | None
    fields: frozenset[str] | None
    include: frozenset[str]
    given: dict[str, str]  # all parameters but cursor and page, as a cursor keeps them
    options: dict[str, Any] = {}

    def with_filter(self, name: str, value: Any) -> "ListQuery":
        """The same request, narrowed by what its path says."""
        filters = dict(zip(self.shape.filters, self.values, strict=True)) | {name: value}
        names = tuple(sorted(filters))
        shape = msgspec.structs.replace(self.shape, filters=names)
        return msgspec.structs.replace(self, shape=shape, values=[filters[each] for each in names])


def read_list(spec: ListOf, query_string: bytes, reader: Reader) -> ListQuery:
    """Read a list request; what is wrong is refused, all faults named at once."""
    if not query_string:
        return _plain(spec)
    given = query_parameters(query_string, spec.sets)
    if "per_page" in given and "limit" not in given:
        given["limit"] = given.pop("per_page")
    cursor_text = given.pop("cursor", None)
    if cursor_text is None:
        return _read(spec, given, reader, None)
    cursor = decode_cursor(cursor_text)
    if "page" in given:
        raise InvalidParameter("Give either a page or a cursor.")
    for name, value in given.items():
        if name not in _FREE and cursor.query.get(name) != value:
            raise CursorMismatch(f"The cursor was made with another value of {shown(name)}, or without it.")
    return _read(spec, {**cursor.query, **given}, reader, cursor)


class _Nobody:
    """Without filters, a list is read the same for every store."""

    store_id = digits = 0


@cache
def _plain(spec: ListOf) -> ListQuery:
    return _read(spec, {}, _Nobody(), None)


def _read(spec: ListOf, given: dict[str, str], reader: Reader, cursor: Cursor | None) -> ListQuery:
    faults: list[Fault] = []
    unknown: list[str] = []
    filters: dict[str, Any] = {}
    entries: dict[str, dict[str, str]] = {}
    known = spec.parameters()
    for name, text in given.items():
        base, bracket, rest = name.partition("[")
        operator = rest[:-1] if rest.endswith("]") else ""
        kind = known.get(base)
        if kind is None or (bracket and operator not in kind.operators and "*" not in kind.operators):
            unknown.append(name)
            continue
        if base in _OWN:
            continue
        try:
            if isinstance(kind, Entries) and operator:
                entries.setdefault(base, {})[operator] = kind.read_value(text)
            else:
                filters[name] = kind.read(text, reader)
        except InvalidValue as error:
            faults.append(Fault(shown(name), "invalid_parameter", str(error)))
    for base, pairs in entries.items():
        kind = known[base]
        if isinstance(kind, Entries):
            filters[base] = kind.read_entries(pairs, reader)
    if unknown:
        operators = {name: kind.operators for name, kind in known.items()}
        raise unknown_parameters("list", unknown, operators)
    limit = _whole("limit", given.get("limit"), DEFAULT_PAGE, LARGEST_PAGE, faults)
    page = _whole("page", given["page"], 1, 10**9, faults) if "page" in given else None
    sort = _sort(spec, given.get("sort"), faults)
    fields = subset("fields", given.get("fields"), spec.fields, faults)
    include = subset("include", given.get("include"), spec.includes, faults) or frozenset[str]()
    deleted = _flag(given.get("include_deleted"), faults)
    if "limit" in given and "per_page" in given:
        faults.append(Fault("per_page", "invalid_parameter", "is the same as limit; give one of them"))
    if faults:
        raise InvalidParameter(f"{counted(len(faults), 'parameter')} cannot be read.", faults=faults)
    if page is not None and page * limit > DEEPEST_ROW:
        raise PageTooDeep(
            f"Numbered pages reach {DEEPEST_ROW:,} rows. To go further, follow meta.next_cursor from the first page."
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
    kept = {name: value for name, value in given.items() if name != "page"}
    # What is included was asked for by name, so it is among the fields that stay; and the other way round.
    include |= (fields or frozenset()) & frozenset(spec.includes)
    shown_fields = None if fields is None else fields | include
    return ListQuery(shape, [filters[name] for name in names], after, limit, page, shown_fields, include, kept, options)


def _whole(name: str, text: str | None, default: int, largest: int, faults: list[Fault]) -> int:
    if text is None:
        return default
    if text.isascii() and text.isdigit() and len(text) < 12 and 1 <= int(text) <= largest:
        return int(text)
    faults.append(Fault(name, "invalid_parameter", f"must be a whole number from 1 to {largest}"))
    return default


def _flag(text: str | None, faults: list[Fault]) -> bool:
    if text not in (None, "true", "false"):
        faults.append(Fault("include_deleted", "invalid_parameter", "must be true or false"))
    return text == "true"


def _sort(spec: ListOf, text: str | None, faults: list[Fault]) -> tuple[str, ...]:
    if text is None:
        return spec.default_sort
    keys = text.split(",")
    plain = [key.removeprefix("-") for key in keys]
    if any(key not in spec.sorts for key in plain) or len(set(plain)) != len(plain):
        allowed = ", ".join(spec.sorts)
        faults.append(
            Fault("sort", "invalid_parameter", f"takes each of {allowed} once, with a minus to sort downwards")
        )
        return spec.default_sort
    if "id" in plain:
        return tuple(keys[: plain.index("id") + 1])  # nothing sorts beyond what is unique
    return (*keys, "-id" if keys[-1].startswith("-") else "id")


# --- the page ------------------------------------------------------------------------------------------------------


class Page(msgspec.Struct, Generic[T]):
    """A page of documents with what its `meta` and its links need."""

    docs: list[bytes]  # one that holds all of them, with commas between, unless they were asked for apart
    ids: Sequence[int]
    total: int
    limit: int
    page: int | None
    next_cursor: str | None
    prev_cursor: str | None
    beside: dict[str, Any] = {}  # further members of `meta`, declared in ListOf.meta

    def meta(self) -> str:
        def quoted(cursor: str | None) -> str:
            return f'"{cursor}"' if cursor else "null"

        page = "null" if self.page is None else self.page
        return (
            f'{{"total":{self.total},"limit":{self.limit},"page":{page},'
            f'"next_cursor":{quoted(self.next_cursor)},"prev_cursor":{quoted(self.prev_cursor)}'
            f"{',' if self.beside else ''}{msgspec.json.encode(self.beside).decode()[1:]}"
        )

    def links(self, address: str) -> str:
        """The `Link` header's value: neighbours of this page (RFC 8288)."""
        found = [("next", self.next_cursor), ("prev", self.prev_cursor)]
        return ", ".join([f'<{address}?cursor={c}>; rel="{rel}"' for rel, c in found if c])


async def list_page(
    db: Executor, store_id: int, listing: Listing, query: ListQuery, *, apart: bool = False, caller: str = ""
) -> Page[Any]:
    """Run a list request against a table; `apart` for a handler that puts something into each document.

    `caller` is what a listing's documents must know of who asks.
    """
    skip = (query.page - 1) * query.limit if query.page else 0
    shape = query.shape
    if not (apart or query.fields is not None or query.include or shape.backwards):
        shape = _joined(shape)
    rows = await listing.page(db, store_id, shape, query.values, query.after, query.limit, skip, caller)
    return paged(rows, query)


@lru_cache(maxsize=4096)
def _joined(shape: Shape) -> Shape:
    return msgspec.structs.replace(shape, joined=True)


def paged(rows: Rows, query: ListQuery) -> Page[Any]:
    shape = query.shape
    first = not shape.resumed and (query.page or 1) == 1
    has_next = rows.more if not shape.backwards else True
    has_prev = rows.more if shape.backwards else not first
    next_cursor = prev_cursor = None
    if rows.docs:
        if has_next:
            next_cursor = encode_cursor(query.given, [column[-1] for column in rows.keys], backwards=False)
        if has_prev:
            prev_cursor = encode_cursor(query.given, [column[0] for column in rows.keys], backwards=True)
    page = query.page or (1 if first else None)
    return Page(rows.docs, rows.keys[-1], rows.total, query.limit, page, next_cursor, prev_cursor)
