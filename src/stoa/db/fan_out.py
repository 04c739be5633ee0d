"""Statements over the stores of all shards: each database answers for the stores that it holds, and a merge makes one answer of them."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, TypeVar, cast

from stoa.db.errors import Unavailable
from stoa.db.pool import Database
from stoa.db.query import Executor, NoRow, Query
from stoa.db.shards import ABSENT, DIRECTORY, Shards, UnknownShard

T = TypeVar("T")
Row = TypeVar("Row")
# Makes one list of rows of those of each database, the directory's first. It also gets the arguments of the statement.
Merge = Callable[[Sequence[list[Any]], Sequence[Any]], list[Any]]
ANSWER_S = 3.0  # how long a page or a command waits for a shard


class Everywhere:
    """Reads from all shards for one request or one command. A shard that does not answer is named, and not asked again.

    A statement of the directory also runs here, in the directory. `look` is for a process that does not watch the shards.
    """

    def __init__(self, directory: Database, shards: Shards | None = None, *, look: bool = False) -> None:
        self.directory = directory
        self.shards = shards
        self._look = look
        self.away: set[str] = set()

    async def fetch(self, sql: str, *args: Any) -> Sequence[Sequence[Any]]:
        return await self.directory.fetch(sql, *args)

    async def execute(self, sql: str, *args: Any) -> str:
        return await self.directory.execute(sql, *args)

    async def each(self, ask: Callable[[Database], Awaitable[T]]) -> dict[str, T]:
        """What each database answers, the directory's first. Without the directory, there is no answer."""
        shards = await self._known()
        if shards is None or not self.directory.fenced:
            return {DIRECTORY: await ask(self.directory)}
        asked = {name: each for name, each in shards.databases.items() if name not in self.away}
        found = await shards.fan_out(ask, of=asked, seconds=ANSWER_S)
        if DIRECTORY in found.away:
            raise Unavailable("the directory does not answer")
        self.away.update(found.away)
        return found.answers

    async def ask(self, shard: str, ask: Callable[[Database], Awaitable[T]]) -> T | None:
        """What one shard answers; None if it does not."""
        shards = await self._known()
        if shard == DIRECTORY or shards is None:
            return await ask(self.directory)
        if shard in self.away:
            return None
        try:
            found = await shards.fan_out(ask, of={shard: await shards.database(shard)}, seconds=ANSWER_S)
        except UnknownShard:
            self.away.add(shard)
            return None
        self.away.update(found.away)
        return found.answers.get(shard)

    def age(self, shard: str) -> float:
        """How many seconds old the copies of global tables can be at a shard; infinite if that is unknown."""
        return 0.0 if self.shards is None else self.shards.age(shard)

    async def database(self, shard: str) -> Database:
        """The database of a shard."""
        shards = await self._known()
        return self.directory if shards is None else await shards.database(shard)

    async def of_store(self, store_id: int) -> Database:
        """The database of a store, by its number."""
        shards = await self._known()
        return self.directory if shards is None else await shards.of_store(store_id)

    async def urls(self) -> dict[str, str]:
        """The URLs of all shards, by name."""
        return {} if self.shards is None else await self.shards.urls()

    async def close(self) -> None:
        """Close the connections to the shards of a process that does not watch them."""
        if self.shards is not None:
            await self.shards.close()

    async def _known(self) -> Shards | None:
        if self._look and self.shards is not None:
            await self.shards.look()
            self._look = False
        return self.shards


class FanOut(Query[Row]):
    """A statement that reads tables of many stores. Its last parameter lists the stores that the database does not hold, though
    it has rows of them: a move has just taken them away, or is copying them here."""

    __slots__ = ("merge",)

    def __init__(self, row: type[Row], sql: str, merge: Merge, *, unbound: str) -> None:
        super().__init__(row, sql, unbound=unbound, over="shards")
        self.merge = merge

    async def all(self, db: Executor, *args: Any) -> list[Row]:
        """The merged rows of all shards; of one database alone, unless `db` is everywhere."""
        if not isinstance(db, Everywhere):
            return await super().all(db, *args, [])
        answers = list((await db.each(lambda one: self._of(one, *args))).values())
        return answers[0] if len(answers) == 1 else self.merge(answers, args)

    async def maybe(self, db: Executor, *args: Any) -> Row | None:
        return next(iter(await self.all(db, *args)), None)

    async def one(self, db: Executor, *args: Any) -> Row:
        found = await self.all(db, *args)
        if not found:
            raise NoRow(self.sql)
        return found[0]

    async def _of(self, db: Database, *args: Any) -> list[Row]:
        absent = await ABSENT.all(db) if db.fenced else []
        return await super().all(db, *args, absent)


def in_order(*keys: str, limit: int = 0, most: int = 0, unique: Sequence[str] = ()) -> Merge:
    """All rows, sorted by these fields as the statement sorts them: "-" is descending, and nulls are last.

    `limit` is the number of the parameter that limits the rows, or `most` says how many there are at most. Of rows with the same
    values of `unique`, the first stays.
    """

    def merge(answers: Sequence[list[Any]], args: Sequence[Any]) -> list[Any]:
        rows = _sorted([row for answer in answers for row in answer], keys)
        if unique:
            rows = list({_key(row, unique): row for row in reversed(rows)}.values())[::-1]
        return rows[: args[limit - 1] if limit else most or None]

    return merge


def added(*fields: str, by: Sequence[str], order: Sequence[str]) -> Merge:
    """The rows with the same values of `by` become one, in which these fields are added."""

    def merge(answers: Sequence[list[Any]], _: Sequence[Any]) -> list[Any]:
        found: dict[tuple[Any, ...], Any] = {}
        for row in (row for answer in answers for row in answer):
            if (first := found.setdefault(_key(row, by), row)) is not row:
                _add(first, row, fields)
        return _sorted(list(found.values()), order)

    return merge


def figures(*fields: str, by: str = "id") -> Merge:
    """The rows of the directory in its order, in which these fields are added: each shard knows those of its own stores."""

    def merge(answers: Sequence[list[Any]], _: Sequence[Any]) -> list[Any]:
        found = {getattr(row, by): row for row in answers[0]}
        for row in (row for answer in answers[1:] for row in answer):
            if (known := found.get(getattr(row, by))) is not None:
                _add(known, row, fields)
        return answers[0]

    return merge


def total(answers: Sequence[list[int]], _: Sequence[Any]) -> list[int]:
    """One number: the sum."""
    return [sum(value for answer in answers for value in answer)]


def whether(answers: Sequence[list[bool]], _: Sequence[Any]) -> list[bool]:
    """One truth value: whether any shard says so."""
    return [any(value for answer in answers for value in answer)]


def distinct(answers: Sequence[list[str]], _: Sequence[Any]) -> list[str]:
    """All words, each once, in their order."""
    return sorted({word for answer in answers for word in answer})


def _key(row: Any, fields: Sequence[str]) -> tuple[Any, ...]:
    return tuple(getattr(row, field) for field in fields)


def _sorted(rows: list[Any], keys: Sequence[str]) -> list[Any]:
    for key in reversed(keys):
        name, descending = key.removeprefix("-"), key.startswith("-")

        def place(row: Any, name: str = name, descending: bool = descending) -> tuple[bool, Any]:
            value = getattr(row, name)
            return (value is None) is not descending, value

        rows.sort(key=place, reverse=descending)
    return rows


def _add(row: Any, other: Any, fields: Sequence[str]) -> None:
    """Add the fields of another row: numbers, numbers of a histogram each, or lists of names."""
    for field in fields:
        mine, theirs = getattr(row, field), getattr(other, field)
        if isinstance(mine, list):
            pair = cast("tuple[list[Any], list[Any]]", (mine, theirs))
            named = any(isinstance(value, str) for values in pair for value in values)
            setattr(row, field, sorted([*pair[0], *pair[1]]) if named else [a + b for a, b in zip(*pair, strict=True)])
        else:
            setattr(row, field, mine + theirs)
