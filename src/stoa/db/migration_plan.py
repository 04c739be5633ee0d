"""Says what `stoa migrate` would do: in which phase, with which locks on which tables; and refuses what would block requests."""

import re
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from stoa.db import migrate, stored_functions
from stoa.db.connection import connect
from stoa.db.placement import GLOBAL, LOCAL, is_distributed
from stoa.db.query import Query
from stoa.db.schema_files import Migration, functions, known
from stoa.db.statement_locks import ACCESS_EXCLUSIVE, UNKNOWN, Effect, LockReader

_SCHEMA = "the schema belongs to no store"
_HAS_MIGRATIONS = Query(bool, "SELECT to_regclass('schema_migrations') IS NOT NULL", unbound=_SCHEMA)
# The order in which `migrate` runs the phases; functions are replaced between the first and the second.
_ORDER = (("expand",), ("concurrently", "backfill"), ("contract",))
# A global table is small, because people fill it and not apps. A lock on these would still stop every request.
_READ_BY_REQUESTS = frozenset({"apps", "app_keys", "app_secrets", "store_hosts", "stores", "tokens"})
_BACKFILLED = re.compile(r"\b(?:UPDATE|INTO|DELETE FROM) (\w+)", re.IGNORECASE)


class Step(msgspec.Struct):
    """A statement or function of the plan. `duration` is short, or long if it reads or writes all rows of the table."""

    phase: str
    subject: str
    action: str
    table: str
    lock: str
    blocks: str
    duration: str
    rewrites: bool


async def plan(url: str) -> list[Step]:
    """The steps that `migrate` would take now, in order; empty if nothing is missing."""
    db = await connect(url, timeout_s=10)
    try:
        pending = await migrate.missing(db) if await _HAS_MIGRATIONS.one(db) else known()
        if len(pending) < len(known()) and await migrate.is_behind(db):
            return []
        applied = [migration for migration in known() if migration not in pending]
        distributed = await is_distributed(db)
        changed = await stored_functions.changed(db, functions(distributed=distributed))
    finally:
        await db.close()
    reader = LockReader()
    _read_applied(reader, applied)
    steps: list[Step] = []
    for number, phases in enumerate(_ORDER):
        if number == 1:
            steps += [
                Step("functions", each.name, "create or replace", "", "", "nothing", "short", rewrites=False)
                for each in changed
            ]
        for migration in pending:
            if migration.phase in phases:
                steps += _steps(migration, reader, distributed=distributed)
    return steps


def _steps(migration: Migration, reader: LockReader, *, distributed: bool) -> Iterator[Step]:
    before = dict(reader.placements)
    effects = [effect for statement in migration.statements for effect in _effects(migration, statement, reader)]
    if distributed:
        effects += [
            Effect("move back to the coordinator", table, ACCESS_EXCLUSIVE, long=True, rewrites=True)
            for table, declared in reader.placements.items()
            if (before.get(table), declared) == (GLOBAL, LOCAL)
        ]
    for effect in effects:
        duration = "long" if effect.long else "short"
        yield Step(migration.phase, str(migration), effect.action, effect.table, effect.lock, effect.blocks, duration,
                   effect.rewrites)  # fmt: skip


def _effects(migration: Migration, statement: str, reader: LockReader) -> list[Effect]:
    if migration.phase != "backfill":
        return reader.read(statement)
    table = _BACKFILLED.search(statement)
    return [Effect("fill rows in batches", table[1] if table else "", "ROW EXCLUSIVE")]


def _read_applied(reader: LockReader, migrations: Iterable[Migration]) -> None:
    for migration in migrations:
        if migration.phase != "backfill":
            for statement in migration.statements:
                reader.read(statement)
    reader.new.clear()


def faults(applied: Sequence[Migration], pending: Sequence[Migration]) -> list[str]:
    """What must not be in migrations that run after the `applied` ones, while the previous release serves requests."""
    reader = LockReader()
    _read_applied(reader, applied)
    found: list[str] = []
    for migration in pending:
        if migration.phase == "backfill":
            found += [f"{migration}: {fault}" for fault in _backfill_faults(migration)]
            continue
        for statement in migration.statements:
            for effect in reader.read(statement):
                if fault := _fault(migration, statement, effect, reader):
                    found.append(f"{migration}: {effect.action}{effect.table and f' ({effect.table})'}: {fault}")
    return found


def _fault(migration: Migration, statement: str, effect: Effect, reader: LockReader) -> str:
    phase, blocks = migration.phase, effect.blocks != "nothing"
    concurrently = re.search(r"\bCONCURRENTLY\b", statement, re.IGNORECASE) is not None
    if effect.action == UNKNOWN:
        return "its locks are unknown; add it to statement_locks.py"
    if concurrently and effect.table in reader.partitioned:
        return "an index of a partitioned table cannot be built concurrently; build it on each partition"
    small = reader.placements.get(effect.table) == "global" and effect.table not in _READ_BY_REQUESTS
    if blocks and effect.long and not small:
        return f"it blocks {effect.blocks} while it reads or writes all rows"
    if phase == "concurrently" and blocks:
        return "it blocks requests, so it belongs in a migration of another phase"
    if phase != "concurrently" and (concurrently or (effect.long and effect.lock == "SHARE UPDATE EXCLUSIVE")):
        return "it takes long, so it belongs in a migration with the phase concurrently"
    if phase != "contract" and effect.removes:
        return "the previous release may use it; remove it in the next release, with the phase contract"
    if effect.long and effect.lock == "ROW EXCLUSIVE" and not small:
        return "it locks many rows at once, so it belongs in a migration with the phase backfill"
    return ""


def _backfill_faults(migration: Migration) -> Iterator[str]:
    if len(migration.statements) != 1:
        yield "a backfill is one statement"
    for statement in migration.statements:
        if not all(argument in statement for argument in ("store_id = $1", "> $2", "LIMIT $3")):
            yield "each batch is limited by store_id = $1, an id > $2, and LIMIT $3"
