"""Reads one page of a table in one statement: the documents, their sort keys and the exact total."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

import msgspec

from stoa.db.query import Executor

# PostgreSQL plans a statement once if the general plan looks as cheap as one for the given values, and assumes that an unknown
# limit returns a tenth of the rows: of a large table, far more than a page. So the statement of a list without filters contains
# one of these limits. Other pages take their rows from the next larger one.
PAGES = (10, 50, 100, 250, 500, 1000)


class Shape(msgspec.Struct, frozen=True):
    """Determines the SQL of a listing; the values are passed as parameters."""

    filters: tuple[str, ...] = ()
    sort: tuple[str, ...] = ("id",)  # a leading minus means descending; the last key is always id
    resumed: bool = False
    backwards: bool = False
    offset: bool = False
    deleted: bool = False
    joined: str = ""  # return all documents as one text, joined by this character
    counted: bool = (
        True  # also return the total; without it, the documents are rows, which the server sends as it reads them
    )
    single: tuple[str, ...] = ()  # filters that accept a set and have one value
    most: int = 0  # the largest page of the statement, if it contains its size
    partly: bool = False  # the page can be smaller than that


class Rows(msgspec.Struct):
    """One page: its documents in order, their sort keys by column, and the total number of rows."""

    docs: list[bytes]  # one element if they are joined
    keys: Sequence[Sequence[Any]]
    total: int  # 0 if they are not counted
    more: bool


def comparisons(column: str) -> dict[str, str]:
    """The conditions of a filter that takes a value or bounds: `price`, `price[gte]`, and so on."""
    operators = {"": "=", "[gte]": ">=", "[gt]": ">", "[lte]": "<=", "[lt]": "<"}
    return {f"{column}{suffix}": f"{column} {operator} {{}}" for suffix, operator in operators.items()}


class Ranking(msgspec.Struct, frozen=True):
    """Where the rows come from in the order of a sort key that depends on the value of a filter."""

    filter: str
    table: str  # with {} for the value


class Listing(msgspec.Struct, frozen=True, eq=False):
    """The filters, sort keys and document of a table, all as SQL constants."""

    table: str
    doc: str  # contains {caller} if it depends on the caller
    where: Mapping[str, str]  # filter -> condition, with {} for the value
    sorts: Mapping[str, str]  # sort key -> NOT NULL column; includes `id`
    counted_as: str = ""  # the resource in row_counts that gives the unfiltered total
    tombstone: str = ""  # the document of a deleted row; empty if deletion removes the row
    deletable: bool = False
    ranked: Mapping[str, Ranking] = {}  # sort keys that need a filter

    @property
    def depends_on_caller(self) -> bool:
        return "{caller}" in self.doc

    def statement(self, shape: Shape) -> str:
        return _compose(self, shape)

    async def page(
        self,
        db: Executor,
        store_id: int,
        shape: Shape,
        values: Sequence[Any],
        after: Sequence[Any],
        limit: int,
        skip: int,
        caller: str = "",
    ) -> Rows:
        """Fetch one page, and one extra row to see whether another page follows."""
        if shape.filters:
            shape, values = _unwrap_singles(self, shape, values)
        elif not (shape.offset or shape.deleted):
            most = next((page for page in PAGES if limit <= page), 0)
            shape = msgspec.structs.replace(shape, most=most, partly=limit < most or not shape.counted)
        callers = (caller,) if self.depends_on_caller else ()
        offset = (skip,) if shape.offset else ()
        rows = await db.fetch(_compose(self, shape), store_id, limit + 1, *callers, *values, *after, *offset)
        if not shape.counted:
            return _uncounted(rows, limit, len(shape.sort))
        total, docs, last_bytes, *keys = rows[0]
        if docs is None:
            return Rows([], [[] for _ in keys], total, more=False)
        more = len(keys[-1]) > limit
        if more:
            docs = docs[: -last_bytes - 1] if shape.joined else docs[:-1]
            for column in keys:
                column.pop()
        if shape.joined:
            return Rows([docs], keys, total, more)
        if shape.backwards:
            docs.reverse()
            for column in keys:
                column.reverse()
        return Rows(docs, keys, total, more)


def _uncounted(rows: Sequence[Sequence[Any]], limit: int, keys: int) -> Rows:
    """The page of a statement that returns its documents as rows."""
    kept = rows[:limit]
    return Rows([row[0] for row in kept], [[row[1 + i] for row in kept] for i in range(keys)], 0, len(rows) > limit)


_UNKNOWN_SIZE = ("@@", "handle =")  # conditions whose matches the planner cannot estimate
_ONE_OF = re.compile(r"= ANY ?\({}::(\w+)\[\]\)")


def _unwrap_singles(listing: Listing, shape: Shape, values: Sequence[Any]) -> tuple[Shape, Sequence[Any]]:
    """Replace a set of one value by the value, so that an index on the column also returns its rows in id order."""
    singles = {
        name: cast("list[Any]", value)[0]
        for name, value in zip(shape.filters, values, strict=True)
        if isinstance(value, list) and len(cast("list[Any]", value)) == 1 and _ONE_OF.search(listing.where[name])
    }
    if not singles:
        return shape, values
    unwrapped = [singles.get(name, value) for name, value in zip(shape.filters, values, strict=True)]
    return msgspec.structs.replace(shape, single=tuple(singles)), unwrapped


@lru_cache(maxsize=4096)
def _compose(listing: Listing, shape: Shape) -> str:
    conditions = ["store_id = $1"]
    if listing.deletable and not shape.deleted:
        conditions.append("deleted_at IS NULL")
    if listing.deletable and shape.deleted:
        conditions.append("(deleted_at IS NULL OR deleted_at > now() - interval '90 days')")
    number = 3 + listing.depends_on_caller
    ranking = next((listing.ranked[key] for each in shape.sort if (key := each.lstrip("-")) in listing.ranked), None)
    table, counted = listing.table, [*conditions]
    for name in shape.filters:
        # A condition may contain {} several times; all refer to the same parameter.
        condition = _ONE_OF.sub(r"= {}::\1", listing.where[name]) if name in shape.single else listing.where[name]
        counted.append(condition.replace("{}", f"${number}"))
        if ranking is not None and name == ranking.filter:
            table = ranking.table.replace("{}", f"${number}")
        else:
            conditions.append(counted[-1])
        number += 1
    filtered = " AND ".join(counted)

    columns = [listing.sorts[key.lstrip("-")] for key in shape.sort]
    descending = [key.startswith("-") != shape.backwards for key in shape.sort]
    if shape.resumed:
        parameters = [f"${number + i}" for i in range(len(columns))]
        number += len(columns)
        conditions.append(_after(columns, descending, parameters))
    order = ", ".join(f"{column} DESC" if desc else column for column, desc in zip(columns, descending, strict=True))
    document = listing.doc.replace("{caller}", "$3::text")
    if shape.deleted and listing.tombstone:
        document = f"CASE WHEN deleted_at IS NULL THEN {document} ELSE {listing.tombstone} END"
    keys = ", ".join(f"{column} AS k{i}" for i, column in enumerate(columns))
    key_arrays = ", ".join(f"array_agg(k{i})" for i in range(len(columns)))
    # textsend returns a text as bytes in the encoding of the connection, which is UTF-8; convert_to would check each byte again.
    if shape.joined:
        # The length of the extra document, by which the caller cuts it off the end of the text.
        documents = f"textsend(string_agg(doc, '{shape.joined}')), (array_agg(octet_length(doc)))[$2]"
    else:
        documents = "array_agg(textsend(doc)), $2::integer"
    if listing.counted_as and not shape.filters and not shape.deleted:
        total = f"SELECT coalesce(sum(delta), 0)::bigint FROM row_counts WHERE store_id = $1 AND resource = '{listing.counted_as}'"
    else:
        total = f"SELECT count(*) FROM {listing.table} WHERE {filtered}"
    read = str(shape.most + 1) if shape.most else "$2"
    ordered = f"ORDER BY {order} LIMIT {read}{f' OFFSET ${number}' if shape.offset else ''}"
    chosen = " AND ".join(conditions)
    source = f"{table} WHERE {chosen} {ordered}"
    if any(each in chosen for each in _UNKNOWN_SIZE):
        # The planner would filter all rows in sort order. OFFSET 0 makes it search first and then sort the matches, which the
        # exact total has to visit anyway.
        matches = f"(SELECT * FROM {table} WHERE {chosen} OFFSET 0) matches"
        source = f"(SELECT * FROM {matches} {ordered}) source"
    content = document if shape.counted else f"textsend({document})"
    page = f"SELECT {content} AS doc, {keys} FROM {source}"
    if shape.partly:
        page = f"SELECT * FROM ({page}) most LIMIT $2"
    return f"SELECT ({total}), {documents}, {key_arrays} FROM ({page}) page" if shape.counted else page


def _after(columns: Sequence[str], descending: Sequence[bool], parameters: Sequence[str]) -> str:
    """The rows after the cursor. With one direction, it is a row comparison that an index serves at any depth."""
    if all(descending) or not any(descending):
        return f"({', '.join(columns)}) {'<' if descending[0] else '>'} ({', '.join(parameters)})"
    # Mixed directions: a bound on the first key, which an index can use, and the exact condition.
    bound = f"{columns[0]} {'<=' if descending[0] else '>='} {parameters[0]}"
    steps: list[str] = []
    for i, column in enumerate(columns):
        equal = [f"{columns[j]} = {parameters[j]}" for j in range(i)]
        steps.append(" AND ".join([*equal, f"{column} {'<' if descending[i] else '>'} {parameters[i]}"]))
    return f"{bound} AND ({' OR '.join(f'({step})' for step in steps)})"
