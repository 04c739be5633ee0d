"""Statements, each declared with the type of its rows as one constant, and what runs them."""

from collections.abc import Sequence
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar, cast

import msgspec

from stoa.db.errors import PostgresError, Unavailable, is_crowded, sqlstate

Row = TypeVar("Row")
# Numbers keep the digits that they were sent with; they never become floats.
_encoder = msgspec.json.Encoder(decimal_format="number")
_FAILED_TRANSACTION = "25P02"


class Executor(Protocol):
    """Runs a statement: the pool for single reads, or the connection of a transaction."""

    async def fetch(self, sql: str, *args: Any) -> Sequence[Sequence[Any]]: ...

    async def execute(self, sql: str, *args: Any) -> str: ...


class OutsideTransaction:
    """Runs single statements on a second connection; if the server has none left, inside the transaction instead."""

    __slots__ = ("_inside", "_outside")

    def __init__(self, outside: Executor, inside: Executor) -> None:
        self._outside = outside
        self._inside = inside

    async def fetch(self, sql: str, *args: Any) -> Sequence[Sequence[Any]]:
        try:
            return await self._outside.fetch(sql, *args)
        except Unavailable as error:
            if not is_crowded(error):
                raise
            crowded = error
        try:
            return await self._inside.fetch(sql, *args)
        except PostgresError as error:
            if sqlstate(error) == _FAILED_TRANSACTION:
                raise crowded from error
            raise

    async def execute(self, sql: str, *args: Any) -> str:
        try:
            return await self._outside.execute(sql, *args)
        except Unavailable as error:
            if not is_crowded(error):
                raise
        return await self._inside.execute(sql, *args)


class NoRow(Exception):
    """A statement that must return a row returned none."""


class InputRow(msgspec.Struct):
    """A row that a stored function reads with json_to_recordset; its fields are the columns, by name and type.

    `arguments` names the functions and their arguments, as in "place_orders.in_lines". A contract test compares the fields
    with the column lists in those functions.
    """

    arguments: ClassVar[tuple[str, ...]] = ()


def json_of(value: Any) -> str:
    """A value as JSON text."""
    return _encoder.encode(value).decode()


def json_rows(rows: Sequence[InputRow]) -> str:
    """Rows as the one JSON argument that a stored function takes. Bytes are passed as text in PostgreSQL's hex format."""
    return json_of(rows)


def hex_bytes(value: bytes) -> str:
    return f"\\x{value.hex()}"


class Query(Generic[Row]):
    """SQL with its row type: a struct whose fields are the columns in order, or a plain type for one column."""

    __slots__ = ("_struct", "over", "row", "sql", "unbound")

    def __init__(
        self, row: type[Row], sql: str, *, unbound: str | None = None, over: Literal["shard", "shards"] | None = None
    ) -> None:
        self.row = row
        self.sql = sql
        # The reason why this statement is exempt from the rule that every statement is bound to one store.
        self.unbound = unbound
        # The stores of an unbound statement on their tables: those of one shard, each of which runs it by itself, such as
        # maintenance; or those of all shards, whose answers belong together.
        self.over = over
        self._struct = isinstance(row, type) and issubclass(row, msgspec.Struct)  # pyright: ignore[reportUnnecessaryIsInstance]

    def _read(self, record: Sequence[Any]) -> Row:
        return self.row(*record) if self._struct else cast("Row", record[0])

    async def all(self, db: Executor, *args: Any) -> list[Row]:
        rows = await db.fetch(self.sql, *args)
        return [self._read(row) for row in rows]

    async def maybe(self, db: Executor, *args: Any) -> Row | None:
        rows = await db.fetch(self.sql, *args)
        return self._read(rows[0]) if rows else None

    async def one(self, db: Executor, *args: Any) -> Row:
        rows = await db.fetch(self.sql, *args)
        if not rows:
            raise NoRow(self.sql)
        return self._read(rows[0])


class Command(Query[str]):
    """SQL that returns no rows, only a command tag such as `UPDATE 1`."""

    __slots__ = ()

    def __init__(self, sql: str, *, unbound: str | None = None, over: Literal["shard", "shards"] | None = None) -> None:
        super().__init__(str, sql, unbound=unbound, over=over)

    async def run(self, db: Executor, *args: Any) -> int:
        """Run the statement and return the number of rows that it affected."""
        count = (await db.execute(self.sql, *args)).rsplit(" ", 1)[-1]
        return int(count) if count.isdigit() else 0
