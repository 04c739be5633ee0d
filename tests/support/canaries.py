"""Searches every text, JSON and binary column of every table for personal data, including compressed values."""

import zlib
from collections.abc import Iterable, Sequence
from typing import Any

from stoa.db.pool import Database

_TEXTUAL = ("text", "bytea", "jsonb", "json", "character varying", "text[]", "bytea[]", "tsvector", "name")


async def traces(
    db: Database, canaries: Iterable[str], *, store_id: int | None = None, but: Sequence[str] = ()
) -> list[str]:
    """Where these words occur, as `table.column: word`; tables in `but` are skipped.

    With a store, the tables of stores are searched for its rows only, because other tests fill them with theirs.
    """
    words = [word.lower() for word in canaries]
    columns = await db.fetch(
        """SELECT c.relname, a.attname, a.atttypid::regtype::text,
                  EXISTS (SELECT FROM pg_attribute s WHERE s.attrelid = c.oid AND s.attname = 'store_id') AS of_store
             FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
            WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace
              AND format_type(a.atttypid, NULL) = ANY ($1::text[]) ORDER BY 1, 2""",
        list(_TEXTUAL),
    )
    # The server sends only rows that may match. A binary value may be compressed, so it is searched here.
    patterns = [f"%{word}%" for word in words]
    found: list[str] = []
    for table, column, kind, of_store in columns:
        if table in but:
            continue
        where = f"store_id = {store_id}" if of_store and store_id is not None else "true"
        if kind == "bytea":
            rows = await db.fetch(f'SELECT "{column}" FROM "{table}" WHERE {where} AND "{column}" IS NOT NULL')
        else:
            shown = f'"{column}"::text'
            rows = await db.fetch(
                f'SELECT {shown} FROM "{table}" WHERE {where} AND lower({shown}) LIKE ANY ($1)', patterns
            )
        for (value,) in rows:
            text = _text(value).lower()
            found += [f"{table}.{column}: {word}" for word in words if word in text]
    return found


def _text(value: Any) -> str:
    if not isinstance(value, bytes):
        return str(value)
    plain = value.decode("utf-8", "replace")
    try:
        return plain + zlib.decompress(value).decode("utf-8", "replace")
    except zlib.error:
        return plain
