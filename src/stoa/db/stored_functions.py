"""Replaces stored functions without breaking the processes of the previous release, which call them meanwhile.

A function with the same arguments is replaced in place. If the arguments changed, both overloads exist until the release
after this one: `released.json` names the functions that the previous release calls.
"""

import re
from collections.abc import Sequence

import msgspec

from stoa.db.connection import Connection
from stoa.db.query import Command, Executor, Query
from stoa.db.schema_files import Function, previous_release

_SCHEMA = "the schema belongs to no store"
# Release 0.2.0 keeps digests in schema_functions, and replaces every function that differs from its own. Its table is
# left as it is, so that a process of 0.2.0 that starts on this schema changes nothing. When released.json names a later
# release, a contract migration may drop it.
CREATE = """
CREATE TABLE IF NOT EXISTS stored_functions (
    name text PRIMARY KEY, digest text NOT NULL, signature text NOT NULL, follows text NOT NULL);
COMMENT ON TABLE stored_functions IS 'local'"""
_ADOPT = """
INSERT INTO stored_functions (name, digest, signature, follows)
SELECT f.name, f.digest, p.oid::regprocedure::text, '' FROM schema_functions f
  JOIN pg_proc p ON p.proname = f.name AND p.pronamespace = current_schema()::regnamespace
    ON CONFLICT (name) DO NOTHING"""
_CREATE_FUNCTION = re.compile(r"^CREATE (?:OR REPLACE )?FUNCTION", re.MULTILINE)


class StoredFunction(msgspec.Struct):
    """A function as it was last applied: the digest of its file, its arguments, and the release before the one that did."""

    name: str
    digest: str
    signature: str
    follows: str


class Overload(msgspec.Struct):
    name: str
    signature: str
    row: str  # changes whenever the function is replaced


_ADOPTABLE = Query(bool, "SELECT to_regclass('schema_functions') IS NOT NULL", unbound=_SCHEMA)
# Before this release migrates a database of release 0.2.0, only the other table exists.
_TABLE = Query(
    str,
    "SELECT coalesce(to_regclass('stored_functions')::text, to_regclass('schema_functions')::text, '')",
    unbound=_SCHEMA,
)
_STORED = Query(StoredFunction, "SELECT name, digest, signature, follows FROM stored_functions", unbound=_SCHEMA)
_OVERLOADS = Query(
    Overload,
    """SELECT proname::text AS name, oid::regprocedure::text AS signature, xmin::text AS row FROM pg_proc
        WHERE pronamespace = current_schema()::regnamespace AND proname = ANY ($1::text[])""",
    unbound=_SCHEMA,
)
_RECORD = Command(
    """INSERT INTO stored_functions (name, digest, signature, follows) VALUES ($1, $2, $3, $4)
           ON CONFLICT (name) DO UPDATE
           SET digest = excluded.digest, signature = excluded.signature, follows = excluded.follows""",
    unbound=_SCHEMA,
)
_FORGET = Command("DELETE FROM stored_functions WHERE name = ANY ($1::text[])", unbound=_SCHEMA)


async def prepare(db: Connection) -> None:
    """Create the table of functions, with what release 0.2.0 recorded."""
    await db.execute(CREATE)
    if await _ADOPTABLE.one(db):
        await db.execute(_ADOPT)


async def recorded(db: Executor) -> dict[str, StoredFunction]:
    return {function.name: function for function in await _STORED.all(db)}


async def of_later_release(db: Executor) -> bool:
    """Whether a release after this one has replaced functions; they must then stay as they are."""
    if await _TABLE.one(db) != "stored_functions":
        return False
    own = _parts(previous_release().version)
    return any(_parts(function.follows) > own for function in (await recorded(db)).values())


def _parts(text: str) -> list[int]:
    return [int(part) for part in re.findall(r"\d+", text)[:3]]


async def changed(db: Executor, current: Sequence[Function]) -> list[Function]:
    """The functions that differ from those in the database."""
    table = await _TABLE.one(db)
    digests = {row[0]: row[1] for row in await db.fetch(f"SELECT name, digest FROM {table}")} if table else {}
    return [function for function in current if digests.get(function.name) != function.digest]


async def replace(db: Connection, outdated: Sequence[Function]) -> None:
    """Create or replace functions, inside the transaction of the caller; other overloads stay."""
    stored, needed, follows = await recorded(db), set(previous_release().functions), previous_release().version
    names = [function.name for function in outdated]
    # Without a previous release that needs it, a function may change its result and the names of its arguments too.
    free = [
        stored[function.name].signature
        for function in outdated
        if not function.pure and function.name in stored and stored[function.name].signature not in needed
    ]
    if free:
        await db.execute(f"DROP FUNCTION IF EXISTS {', '.join(free)}")
    before = {overload.signature: overload.row for overload in await _OVERLOADS.all(db, names)}
    for function in outdated:
        await db.execute(_CREATE_FUNCTION.sub("CREATE OR REPLACE FUNCTION", function.sql, count=1))
    written = {
        overload.name: overload.signature
        for overload in await _OVERLOADS.all(db, names)
        if before.get(overload.signature) != overload.row
    }
    for function in outdated:
        await _RECORD.run(db, function.name, function.digest, written[function.name], follows)


async def drop_unneeded(db: Connection, current: Sequence[Function]) -> None:
    """Drop the overloads that neither this nor the previous release calls."""
    stored, needed = await recorded(db), set(previous_release().functions)
    own = {function.name for function in current}
    needed |= {function.signature for function in stored.values() if function.name in own}
    pure = {function.name for function in current if function.pure}  # generated columns depend on these
    overloads = await _OVERLOADS.all(db, [name for name in stored if name not in pure])
    unneeded = [overload.signature for overload in overloads if overload.signature not in needed]
    if unneeded:
        await db.execute(f"DROP FUNCTION {', '.join(unneeded)}")
    kept = {overload.name for overload in overloads if overload.signature in needed}
    await _FORGET.run(db, [name for name in stored if name not in own | kept])
