"""Compares a metadata definition with the values that stores have, in short statements and a bounded time."""

from collections.abc import Awaitable, Callable, Sequence
from decimal import Decimal
from time import monotonic

import msgspec

from stoa.access.contract import AccessRefused
from stoa.access.rules import expanded
from stoa.db.query import Executor, Query
from stoa.rest.metadata_types import Definition, Resource

MOST_EXAMPLES = 5
_ROWS = 2_000  # that one statement reads


class Violation(msgspec.Struct):
    """A stored value that a definition does not accept. The value itself is not shown."""

    store: str
    id: int
    detail: str


class ViolatedDefinition(AccessRefused):
    """Stored values violate a definition: how many, and some of them."""

    def __init__(self, definition: Definition, count: int, examples: list[Violation]) -> None:
        self.count, self.examples = count, examples
        shown = "; ".join(f"{definition.resource} {each.id} of {each.store}: {each.detail}" for each in examples)
        violate = "stored value violates" if count == 1 else "stored values violate"
        found = f"{count:,} {violate} the definition of {definition.name}"
        super().__init__(f"{found}{f' ({shown})' if shown else ''}; correct {'it' if count == 1 else 'them'} first")


class CheckTooLong(AccessRefused):
    """The stored values could not be checked in the time that was allowed; nothing was changed."""

    def __init__(self, definition: Definition, seconds: float) -> None:
        super().__init__(
            f"the stored values of {definition.name} could not be checked in {seconds:g} seconds, and nothing was "
            "changed; use stoa metadata define with a longer --seconds"
        )


class InstalledOn(msgspec.Struct):
    """A store that installs an app, and the scopes that it grants."""

    id: int
    handle: str
    scopes: list[str]


READ = ["products:read", "orders:read", "customers:read"]
_SCOPES: dict[Resource, str] = {
    "product": "products:read",
    "variant": "products:read",
    "order": "orders:read",
    "customer": "customers:read",
}


class StoredValue(msgspec.Struct):
    """A row, and its value of a key as JSON; None if it has none."""

    id: int
    value: str | None


def _values(table: str, column: str, condition: str = "AND deleted_at IS NULL") -> Query[StoredValue]:
    """The values of a key in the documents of one batch of rows."""
    return Query(
        StoredValue,
        f"""SELECT id, CASE WHEN position('"' || $4::text || '":' IN {column}) > 0
                            THEN (('{{' || substr({column}, 2) || '}}')::json -> 'metadata' -> $4)::text END AS value
              FROM {table} WHERE store_id = $1 AND id > $2 {condition} ORDER BY id LIMIT $3""",
    )


VALUES: dict[Resource, Query[StoredValue]] = {
    "product": _values("products", "head"),
    "variant": _values("variants", "head"),
    "order": _values("orders", "person", ""),
    "customer": Query(
        StoredValue,
        """SELECT c.id, m.value FROM (SELECT id FROM customers WHERE store_id = $1 AND id > $2 AND deleted_at IS NULL
                                      ORDER BY id LIMIT $3) c
                  LEFT JOIN customer_metadata m ON m.store_id = $1 AND m.customer_id = c.id
                       AND m.app_id IS NOT DISTINCT FROM $5::bigint AND m.key = $4
            ORDER BY c.id""",
    ),
}
_value = msgspec.json.Decoder(float_hook=Decimal)


async def check_stored(
    database_of: Callable[[int], Awaitable[Executor]],
    definition: Definition,
    stores: Sequence[InstalledOn],
    app_id: int | None,
    seconds: float,
    allowed: float | None = None,
) -> None:
    """Refuse a definition that stored values violate. Short statements read the rows, so that nobody else waits."""
    deadline = monotonic() + seconds
    count = 0
    examples: list[Violation] = []
    of_owner = (app_id if definition.is_private else None,) if definition.resource == "customer" else ()
    for store in stores:
        db, after, readable = await database_of(store.id), 0, expanded(store.scopes)
        while True:
            if monotonic() > deadline:
                raise CheckTooLong(definition, allowed or seconds)
            rows = await VALUES[definition.resource].all(db, store.id, after, _ROWS, definition.key, *of_owner)
            for row in rows:
                faults = definition.faults(_value.decode(row.value), "") if row.value is not None else []
                count += bool(faults)
                if faults and len(examples) < MOST_EXAMPLES and _SCOPES[definition.resource] in readable:
                    examples.append(Violation(store.handle, row.id, faults[0].detail))
            if len(rows) < _ROWS:
                break
            after = rows[-1].id
    if count:
        raise ViolatedDefinition(definition, count, examples)
