"""One page of a list in the baseline: the rows after a cursor, their total, and the next cursor."""

import base64
from collections.abc import Sequence
from typing import Any, Protocol

from sqlalchemy import ColumnElement, Select, func, select
from sqlalchemy.orm import InstrumentedAttribute

from benchmarks.baseline.access import Db


class Row(Protocol):
    @property
    def id(self) -> int: ...


async def page_of(
    db: Db,
    rows: Select[Any],
    key: InstrumentedAttribute[int],
    conditions: Sequence[ColumnElement[bool]],
    limit: int,
    cursor: str | None,
) -> dict[str, Any]:
    """Rows ordered by id, with the `meta` of the envelope."""
    total = await db.scalar(select(func.count()).select_from(key.class_).where(*conditions))
    page = rows.where(*conditions).order_by(key).limit(limit + 1)
    if cursor is not None:
        page = page.where(key > int(base64.urlsafe_b64decode(cursor)))
    found: list[Row] = list(await db.scalars(page))
    meta: dict[str, Any] = {
        "total": total,
        "limit": limit,
        "page": 1 if cursor is None else None,
        "next_cursor": _cursor(found[limit - 1]) if len(found) > limit else None,
        "prev_cursor": _cursor(found[0]) if cursor is not None else None,
    }
    return {"data": found[:limit], "meta": meta}


def _cursor(row: Row) -> str:
    return base64.urlsafe_b64encode(str(row.id).encode()).decode()
