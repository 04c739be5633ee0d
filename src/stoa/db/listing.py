"""One page of a table in one statement: the documents, their keys and the exact total."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

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


class Rows(msgspec.Struct):
    """One page: its documents in order, the sort keys of each, and how many rows there are in all."""

    docs: list[bytes]  # a single one when they are joined
    keys: Sequence[Sequence[Any]]
    total: int
    more: bool


class Listing(msgspec.Struct, frozen=True, eq=False):
    """How a table is listed: every filter, sort key and document is an SQL constant."""

    table: str
    doc: str
    where: Mapping[str, str]  # filter -> condition, with {} where its value goes
    sorts: Mapping[str, str]  # sort name -> column that is never null; `id` among them
    counted_as: str = ""  # the resource in row_counts that holds the unfiltered total
    tombstone: str = ""  # the document of a deleted row; empty where deletion leaves none
    deletable: bool = False

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
    ) -> Rows:
        """Fetch one page; one row more than asked for tells whether another page follows."""
        place = (skip,) if shape.offset else ()
        rows = await db.fetch(_compose(self, shape), store_id, limit + 1, *values, *after, *place)
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


@lru_cache(maxsize=4096)
def _compose(listing: Listing, shape: Shape) -> str:
    conditions = ["store_id = $1"]
    if listing.deletable and not shape.deleted:
        conditions.append("deleted_at IS NULL")
    if listing.deletable and shape.deleted:
        conditions.append("(deleted_at IS NULL OR deleted_at > now() - interval '90 days')")
    number = 3
    for name in shape.filters:
        # No-numbered braces may stand several times: a value is one parameter.
        conditions.append(listing.where[name].replace("{}", f"${number}"))
        number += 1
    filtered = " AND ".join(conditions)

    columns = [listing.sorts[key.lstrip("-")] for key in shape.sort]
    downwards = [key.startswith("-") != shape.backwards for key in shape.sort]
    if shape.resumed:
        marks = [f"${number + i}" for i in range(len(columns))]
        number += len(columns)
        conditions.append(_beyond(columns, downwards, marks))
    order = ", ".join(f"{column} DESC" if down else column for column, down in zip(columns, downwards, strict=True))
    document = listing.doc
    if shape.deleted and listing.tombstone:
        document = f"CASE WHEN deleted_at IS NULL THEN {listing.doc} ELSE {listing.tombstone} END"
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
    return (
        f"SELECT ({total}), {documents}, {gathered} FROM ("
        f"SELECT {document} AS doc, {keys} FROM {listing.table} WHERE {' AND '.join(conditions)} "
        f"ORDER BY {order} LIMIT $2{f' OFFSET ${number}' if shape.offset else ''}) page"
    )


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
