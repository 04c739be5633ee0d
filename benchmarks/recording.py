"""Records the statements of one real request and makes of them what pgbench repeats with other rows each time."""

import re
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import datetime
from typing import Any, cast

import httpx
import msgspec

from benchmarks.drive import NUMBER, CannotMeasure, Request, Script
from stoa.access.admission import Admission
from stoa.api import ENDPOINTS
from stoa.db.pool import Connection, Database
from stoa.db.query import Executor
from stoa.rest.dispatch import PREFIX, Dispatcher
from stoa.rest.request import Receive, Scope, Send
from stoa.settings import Settings

# Ids made while recording are larger than any other number, so that they are known again where they return.
FIRST_NEW_ID = 10**9
_SHORT = 200  # characters of a text that may name an id; what is longer is a document
_EVENT_ID = re.compile(r"\bevt_[0-9a-z]{18}(?=[0-9a-z]{2}\b)")
_CHOOSE = f"\\set number random({10**17}, {10**18 - 1})"
_ARRAYS = {int: "bigint[]", bool: "boolean[]", str: "text[]", datetime: "timestamptz[]", bytes: "bytea[]"}


class Statement(msgspec.Struct):
    """One statement as it was sent, and what came back."""

    sql: str
    values: Sequence[Any]
    rows: list[dict[str, Any]]
    autocommit: bool  # on a connection of its own, committed by itself


class _Recorder:
    """What runs statements, and notes what passes through it."""

    def __init__(self, db: Executor, noted: list[Statement], *, autocommit: bool = False) -> None:
        self._db = db
        self._noted = noted
        self._autocommit = autocommit

    async def fetch(self, sql: str, *args: Any) -> Sequence[Sequence[Any]]:
        rows = await self._db.fetch(sql, *args)
        self._noted.append(Statement(sql, args, [dict(cast("Any", row)) for row in rows], self._autocommit))
        return rows

    async def execute(self, sql: str, *args: Any) -> str:
        self._noted.append(Statement(sql, args, [], self._autocommit))
        return await self._db.execute(sql, *args)


class _Database(Database):
    """A pool whose transactions are noted, and what runs beside them; what comes before, as the rate limit, is not."""

    def __init__(self, url: str) -> None:
        super().__init__(url, size=2)
        self.noted: list[Statement] = []

    @property
    def autocommit(self) -> Database:
        return cast("Database", _Recorder(super().autocommit, self.noted, autocommit=True))

    @asynccontextmanager
    async def transaction(self) -> AsyncGenerator[Connection]:
        self.noted.clear()  # a transaction that was tried again counts once
        async with super().transaction() as db:
            yield cast("Connection", _Recorder(db, self.noted))


async def record(settings: Settings, request: Request) -> list[Statement]:
    """Send a write through the real dispatcher to the real handler; answers the statements of its transaction."""
    database = _Database(settings.database_url)
    dispatch = Dispatcher(ENDPOINTS, database=database, access=Admission(database, settings), settings=settings)
    handle, _, sub_path = request.path.removeprefix("/stores/").partition(PREFIX)

    async def application(scope: Scope, receive: Receive, send: Send) -> None:
        await dispatch(scope, receive, send, sub_path=request.text(sub_path), handle=handle)

    try:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(cast("Any", application))) as client:
            answer = await client.request(
                request.method,
                f"http://localhost{request.text(request.path)}",
                content=request.text(request.body),
                headers={name: request.text(value) for name, value in request.headers.items()},
            )
    finally:
        await database.close()
    if not answer.is_success or not database.noted:
        raise CannotMeasure(f"{request.path} cannot be recorded: {answer.status_code} {answer.text[:500]}")
    return list(database.noted)


def as_transaction(noted: Sequence[Statement], varied: Mapping[str, str], choose: Sequence[str] = ()) -> Script:
    """A pgbench script of the same statements in one transaction.

    NUMBER becomes another number each time, and each text of `varied` the SQL beside it, which may use what `choose` has
    set; ids that an earlier statement made are taken from its answer. All else is sent as it was, in parameters. What
    ran beside the transaction runs before it.
    """
    varied = {**varied, NUMBER: ":number::text"}
    noted = sorted(noted, key=lambda statement: not statement.autocommit)
    before = sum(statement.autocommit for statement in noted)
    lines = [_CHOOSE, *choose]
    variables: dict[str, str] = {}
    known: dict[Any, str] = {}
    for place, statement in enumerate(noted):
        if place == before:
            lines.append("BEGIN;")

        def parameter(match: re.Match[str], given: Sequence[Any] = statement.values, place: int = place) -> str:
            number = int(match[1])
            return _parameter(given[number - 1], f"p{place}_{number}", variables, varied, known)

        text = re.sub(r"\$(\d+)", parameter, _texts_for_bytes(statement))
        made = _made(statement, f"s{place}_")
        used = any(_mentions(later.values, made) for later in noted[place + 1 :])
        lines.append(" ".join(text.split("\n")) + (f" \\gset s{place}_" if used else ";"))
        known.update(made)
    return Script("\n".join([*lines, "COMMIT;"]) + "\n", variables)


def _texts_for_bytes(statement: Statement) -> str:
    """pgbench takes only text, and bytes as text are twice as many: as text, documents make the higher limit."""
    sql = re.sub(r"convert_to\((.*), 'UTF8'\) AS doc", r"\1 AS doc", statement.sql, flags=re.DOTALL)
    if sql == statement.sql and statement.rows and isinstance(statement.rows[0].get("doc"), bytes):
        sql = re.sub(r"\bdoc\b", "convert_from(doc, 'UTF8') AS doc", sql, count=1)
    return sql


def _made(statement: Statement, prefix: str) -> dict[Any, str]:
    """Ids and times that a statement of one row made, and how a later one refers to each."""
    if len(statement.rows) != 1:
        return {}
    found: dict[Any, str] = {}
    for column, value in statement.rows[0].items():
        if isinstance(value, list):
            numbers = cast("list[Any]", value)
            found |= {n: f"(:{prefix}{column}::bigint[])[{at}]" for at, n in enumerate(numbers, 1) if _is_new(n)}
        elif isinstance(value, datetime):
            found[value] = f"(:{prefix}{column}::timestamptz)"
        elif _is_new(value):
            found[value] = f"(:{prefix}{column}::bigint)"
    return found


def _is_rows(text: str) -> bool:
    """Whether a text is a JSON argument of a stored function; its ids must be replaced however long it is."""
    return text.startswith("[{")


def _is_new(value: Any) -> bool:
    return isinstance(value, int) and value > FIRST_NEW_ID


def _mentions(value: Any, made: Mapping[Any, str]) -> bool:
    match value:
        case list() | tuple():
            return any(_mentions(each, made) for each in cast("Sequence[Any]", value))
        case int():
            return abs(value) in made
        case str():
            return (len(value) < _SHORT or _is_rows(value)) and any(str(each) in value for each in made)
        case _:
            return isinstance(value, datetime) and value in made


def _parameter(
    value: Any, name: str, variables: dict[str, str], varied: Mapping[str, str], known: Mapping[Any, str]
) -> str:
    """One parameter in pgbench's terms: what an earlier answer held, or a variable with what changes put into it."""
    match value:
        case None:
            return "NULL"
        case int() | datetime() if value in known:
            return known[value]
        case int() if -value in known:
            return f"-{known[-value]}"
        case [*each] if each and all(_names(one, known) for one in each):
            made = (_parameter(one, name, variables, varied, known) for one in each)
            return f"ARRAY[{', '.join(made)}]::{_kind(value)}"
        case _:
            text = _EVENT_ID.sub(f"evt_{NUMBER}", _text(value))
    if not text:
        return "''"  # pgbench knows no empty variable
    variables[name] = text
    found = f":{name}"
    # Documents may keep the ids of the one that was recorded: nothing looks for them there.
    named = {str(made): f"{source}::text" for made, source in known.items()} if _mentions(value, known) else {}
    for wanted, instead in {**varied, **named}.items():
        if wanted in text:
            found = f"replace({found}::text, '{wanted}', {instead})"
    if found.startswith("replace") and _kind(value) == "bytea[]":
        return f"(SELECT array_agg(convert_to(b, 'UTF8')) FROM unnest({found}::text[]) b)"
    if found.startswith("replace") and not isinstance(value, str | bytes):
        found += f"::{_kind(value)}"
    return f"convert_to({found}, 'UTF8')" if isinstance(value, bytes) and not text.startswith("\\x") else found


def _names(value: Any, known: Mapping[Any, str]) -> bool:
    """Whether a value is one that an earlier statement made."""
    return isinstance(value, int | datetime) and (value in known or (isinstance(value, int) and -value in known))


def _kind(value: Any) -> str:
    if isinstance(value, list | tuple):
        return next((_ARRAYS[type(each)] for each in cast("Sequence[Any]", value) if each is not None), "text[]")
    return "bigint"


def _text(value: Any) -> str:
    """A value as PostgreSQL reads it from a text."""
    match value:
        case bool():
            return "true" if value else "false"
        case bytes():
            try:
                return value.decode() if b"\0" not in value else f"\\x{value.hex()}"
            except UnicodeDecodeError:
                return f"\\x{value.hex()}"
        case datetime():
            return value.isoformat()
        case list() | tuple():
            return f"{{{','.join(_element(each) for each in cast('Sequence[Any]', value))}}}"
        case _:
            return str(value)


def _element(value: Any) -> str:
    if value is None:
        return "NULL"
    quoted = _text(value).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{quoted}"'
