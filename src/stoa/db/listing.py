"""One page of a table in one statement: the documents, their keys and the exact total."""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, cast

import msgspec

from stoa.db.query import Executor


class Shape(msgspec.Struct, frozen=True):
    """What decides a listing's text; its values arrive as parameters."""

    filters: tuple[str, ...] = ()
    sort: tuple[str, ...] = ("id",)  # a leading minus sorts downwards; the last one is always id
    resumed: bool = False
    backwards: bool = False
    offset: bool = False
    deleted: bool = False
    joined: bool = False  # all documents as one text with commas between, when nobody looks into them
    single: tuple[str, ...] = ()  # filters that take a set and were given one value


class Rows(msgspec.Struct):
    """One page: its documents in order, the sort keys of each, and how many rows there are in all."""

    docs: list[bytes]  # a single one when they are joined
    keys: Sequence[Sequence[Any]]
    total: int
    more: bool


class Listing(msgspec.Struct, frozen=True, eq=False):
    """How a table is listed: every filter, sort key and document is an SQL constant."""

    table: str
    doc: str  # with {caller} where it depends on who asks
    where: Mapping[str, str]  # filter -> condition, with {} where its value goes
    sorts: Mapping[str, str]  # sort name -> column that is never null; `id` among them
    counted_as: str = ""  # the resource in row_counts that holds the unfiltered total
    tombstone: str = ""  # the document of a deleted row; empty where deletion leaves none
    deletable: bool = False

    @property
    def personal(self) -> bool:
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
        """Fetch one page; one row more than asked for tells whether another page follows."""
        if shape.filters:
            shape, values = _singled(self, shape, values)
        asker = (caller,) if self.personal else ()
        place = (skip,) if shape.offset else ()
        rows = await db.fetch(_compose(self, shape), store_id, limit + 1, *asker, *values, *after, *place)
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


_SEARCH = "@@"
_ONE_OF = re.compile(r"= ANY ?\({}::(\w+)\[\]\)")


def _singled(listing: Listing, shape: Shape, values: Sequence[Any]) -> tuple[Shape, Sequence[Any]]:
    """A set of one value as that value: an index that it leads then gives its rows in the order of ids, to any depth."""
    found = {
        name: cast("list[Any]", value)[0]
        for name, value in zip(shape.filters, values, strict=True)
        if isinstance(value, list) and len(cast("list[Any]", value)) == 1 and _ONE_OF.search(listing.where[name])
    }
    if not found:
        return shape, values
    plain = [found.get(name, value) for name, value in zip(shape.filters, values, strict=True)]
    return msgspec.structs.replace(shape, single=tuple(found)), plain


@lru_cache(maxsize=4096)
def _compose(listing: Listing, shape: Shape) -> str:
    conditions = ["store_id = $1"]
    if listing.deletable and not shape.deleted:
        conditions.append("deleted_at IS NULL")
    if listing.deletable and shape.deleted:
        conditions.append("(deleted_at IS NULL OR deleted_at > now() - interval '90 days')")
    number = 4 if listing.personal else 3
    for name in shape.filters:
        # No-numbered braces may stand several times: a value is one parameter.
        condition = _ONE_OF.sub(r"= {}::\1", listing.where[name]) if name in shape.single else listing.where[name]
        conditions.append(condition.replace("{}", f"${number}"))
        number += 1
    filtered = " AND ".join(conditions)

    columns = [listing.sorts[key.lstrip("-")] for key in shape.sort]
    downwards = [key.startswith("-") != shape.backwards for key in shape.sort]
    if shape.resumed:
        marks = [f"${number + i}" for i in range(len(columns))]
        number += len(columns)
        conditions.append(_beyond(columns, downwards, marks))
    order = ", ".join(f"{column} DESC" if down else column for column, down in zip(columns, downwards, strict=True))
    document = listing.doc.replace("{caller}", "$3::text")
    if shape.deleted and listing.tombstone:
        document = f"CASE WHEN deleted_at IS NULL THEN {document} ELSE {listing.tombstone} END"
    keys = ", ".join(f"{column} AS k{i}" for i, column in enumerate(columns))
    gathered = ", ".join(f"array_agg(k{i})" for i in range(len(columns)))
    if shape.joined:
        # The last one tells whether more follow; knowing its length, it is cut off without looking for its beginning.
        documents = "convert_to(string_agg(doc, ','), 'UTF8'), (array_agg(octet_length(doc)))[$2]"
    else:
        documents = "array_agg(convert_to(doc, 'UTF8')), NULL::integer"
    if listing.counted_as and not shape.filters and not shape.deleted:
        total = f"SELECT coalesce(sum(delta), 0)::bigint FROM row_counts WHERE store_id = $1 AND resource = '{listing.counted_as}'"
    else:
        total = f"SELECT count(*) FROM {listing.table} WHERE {filtered}"
    placed = f"ORDER BY {order} LIMIT $2{f' OFFSET ${number}' if shape.offset else ''}"
    chosen = f"{listing.table} WHERE {' AND '.join(conditions)} {placed}"
    if _SEARCH in filtered:
        # How much a search finds cannot be foreseen, and the planner would rather look for it among all in the list's own
        # order. So it must find first, and may only sort what was found: to count that takes as long.
        found = f"(SELECT * FROM {listing.table} WHERE {' AND '.join(conditions)} OFFSET 0) found"
        chosen = f"(SELECT * FROM {found} {placed}) chosen"
    return f"SELECT ({total}), {documents}, {gathered} FROM (SELECT {document} AS doc, {keys} FROM {chosen}) page"


def _beyond(columns: Sequence[str], downwards: Sequence[bool], marks: Sequence[str]) -> str:
    """The rows past a mark. One direction is a row comparison, which an index serves at any depth."""
    if all(downwards) or not any(downwards):
        return f"({', '.join(columns)}) {'<' if downwards[0] else '>'} ({', '.join(marks)})"
    # Mixed directions: a bound on the first key keeps the index useful, the rest is spelled out.
    bound = f"{columns[0]} {'<=' if downwards[0] else '>='} {marks[0]}"
    steps: list[str] = []
    for i, column in enumerate(columns):
        equal = [f"{columns[j]} = {marks[j]}" for j in range(i)]
        steps.append(" AND ".join([*equal, f"{column} {'<' if downwards[i] else '>'} {marks[i]}"]))
    return f"{bound} AND ({' OR '.join(f'({step})' for step in steps)})"
