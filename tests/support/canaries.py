"""Searches every text, JSON and binary column of every table for personal data, including compressed values."""

import zlib
from collections.abc import Iterable, Sequence
from typing import Any

from stoa.db.pool import Database

_TEXTUAL = ("text", "bytea", "jsonb", "json", "character varying", "text[]", "bytea[]", "tsvector", "name")


async def traces(db: Database, canaries: Iterable[str], *, but: Sequence[str] = ()) -> list[str]:
    """Where these words occur, as `table.column: word`; tables in `but` are skipped."""
    words = [word.lower() for word in canaries]
    columns = await db.fetch(
        """SELECT c.relname, a.attname, a.atttypid::regtype::text
             FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
            WHERE c.relkind IN ('r', 'p') AND NOT c.relispartition AND c.relnamespace = 'public'::regnamespace
              AND format_type(a.atttypid, NULL) = ANY ($1::text[]) ORDER BY 1, 2""",
        list(_TEXTUAL),
    )
    # The server sends only rows that may match. A binary value may be compressed, so it is searched here.
    patterns = [f"%{word}%" for word in words]
    found: list[str] = []
    for table, column, kind in columns:
        if table in but:
            continue
        if kind == "bytea":
            rows = await db.fetch(f'SELECT "{column}" FROM "{table}" WHERE "{column}" IS NOT NULL')
        else:
            shown = f'"{column}"::text'
            rows = await db.fetch(f'SELECT {shown} FROM "{table}" WHERE lower({shown}) LIKE ANY ($1)', patterns)
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
