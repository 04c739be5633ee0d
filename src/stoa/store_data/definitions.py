"""The metadata definitions of merchants and apps: defined, replaced and removed, after a check of what is stored."""

from collections.abc import Collection, Sequence
from datetime import date
from decimal import Decimal
from time import monotonic
from typing import Annotated, Any, cast

import msgspec
from msgspec import Meta

from stoa.access.audit import SERVICE
from stoa.access.contract import AccessRefused
from stoa.access.operator import Operator, find_app, find_store
from stoa.access.rules import expanded
from stoa.db.query import Command, Executor, Query
from stoa.rest.body import convert
from stoa.rest.metadata_types import MOST_DEFINITIONS, Definition, Resource, definition_faults
from stoa.rest.problems import Fault, ValidationFailed

SECONDS = 10.0  # in which a page checks what is stored; a command may take longer
MOST_EXAMPLES, MOST_TEXT = 5, 65_536
_ROWS = 2_000  # that one statement reads
_OWNER = "the row of the owner itself"
_APP = "an app's definitions apply on every store that installs it"


class Changed(msgspec.Struct, frozen=True):
    """What a new list of an app's definitions changes, as `resource.key`."""

    added: list[str] = []
    changed: list[str] = []
    removed: list[str] = []

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.removed)


class InvalidDefinition(AccessRefused):
    """A definition contradicts itself or is out of its limits; `faults` say where."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = list(faults)
        super().__init__("; ".join(f"{each.pointer.strip('/') or 'the definition'} {each.detail}" for each in faults))


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
        found = f"{count:,} {violate} the definition of {_name(definition)}"
        super().__init__(f"{found}{f' ({shown})' if shown else ''}; correct {'it' if count == 1 else 'them'} first")


class CheckTooLong(AccessRefused):
    """The stored values could not be checked in the time that was allowed; nothing was changed."""

    def __init__(self, definition: Definition, seconds: float) -> None:
        super().__init__(
            f"the stored values of {_name(definition)} could not be checked in {seconds:g} seconds, and nothing was "
            "changed; use stoa metadata define with a longer --seconds"
        )


class NoSuchDefinition(AccessRefused):
    def __init__(self, resource: str, key: str) -> None:
        super().__init__(f"there is no definition of {resource}.{key}; list the definitions to see their keys")


def read_definitions(items: Any, *, of_app: bool) -> list[Definition]:
    """Definitions from the plain values of a form, a command or a file; a refusal names every fault with its pointer."""
    try:
        found = convert({"items": _plain(items)}, _Items, digits=0).items
    except ValidationFailed as refusal:
        raise InvalidDefinition([_below_items(each) for each in refusal.faults]) from refusal
    faults = [fault for n, each in enumerate(found) for fault in definition_faults(each, of_app=of_app, at=f"/{n}")]
    names = [_name(each) for each in found]
    faults += [
        Fault(f"/{n}/key", "invalid_format", "is defined twice") for n, each in enumerate(names) if each in names[:n]
    ]
    _refuse(faults)
    return found


def read_definition(members: Any, *, of_app: bool) -> Definition:
    """One definition, with pointers into it."""
    try:
        [found] = read_definitions([members], of_app=of_app)
    except InvalidDefinition as refusal:
        refused = [msgspec.structs.replace(each, pointer=each.pointer.removeprefix("/0")) for each in refusal.faults]
        raise InvalidDefinition(refused) from refusal
    return found


class _Items(msgspec.Struct):
    items: Annotated[list[Definition], Meta(max_length=MOST_DEFINITIONS)]


def _plain(value: Any) -> Any:
    """Values of TOML in the form in which JSON has them: dates as texts, fractions as exact decimals."""
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, float):
        return Decimal(str(value))
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_plain(each) for each in cast("list[Any]", value)]
    return value


def _below_items(fault: Fault) -> Fault:
    return msgspec.structs.replace(fault, pointer=fault.pointer.removeprefix("/items"))


# --- the rows of owners ----------------------------------------------------------------------------------------------

OF_STORE = Query(str, "SELECT metadata_definitions FROM stores WHERE id = $1", unbound=_OWNER)
OF_APP = Query(str, "SELECT metadata_definitions FROM apps WHERE id = $1", unbound=_OWNER)


class Owner(msgspec.Struct, frozen=True):
    """The table whose rows have the definitions of their owners, and the statements that change them."""

    lock: Query[str]
    set: Command


STORES = Owner(
    Query(str, f"{OF_STORE.sql} FOR NO KEY UPDATE", unbound=_OWNER),
    Command("UPDATE stores SET metadata_definitions = $2 WHERE id = $1", unbound=_OWNER),
)
APPS = Owner(
    Query(str, f"{OF_APP.sql} FOR NO KEY UPDATE", unbound=_OWNER),
    Command("UPDATE apps SET metadata_definitions = $2 WHERE id = $1", unbound=_OWNER),
)
_definitions = msgspec.json.Decoder(list[Definition])


class InstalledOn(msgspec.Struct):
    """A store that installs an app, and the scopes that it grants."""

    id: int
    handle: str
    scopes: list[str]


_STORES_OF = Query(
    InstalledOn,
    """SELECT s.id, s.handle, i.scopes FROM installations i JOIN stores s ON s.id = i.store_id
        WHERE i.app_id = $1 ORDER BY s.id""",
    unbound=_APP,
)


async def definitions_of_store(db: Executor, store_id: int) -> list[Definition]:
    """The merchant's own definitions."""
    return _definitions.decode(await OF_STORE.one(db, store_id))


async def definitions_of_app(db: Executor, app_id: int) -> list[Definition]:
    return _definitions.decode(await OF_APP.one(db, app_id))


async def define(by: Operator, store: str, definition: Definition, seconds: float = SECONDS) -> None:
    """Define a key on a store, or replace its definition."""
    found = await find_store(by.db, store)
    await _check_stored(by.db, definition, [InstalledOn(found.id, found.handle, _READ)], None, seconds)
    async with by.db.transaction() as db:
        await _change(db, STORES, found.id, {_name(definition)}, [definition])
        await by.record(db, found.id, "metadata.defined", f"metadata:{_name(definition)}", type=definition.type)


async def remove(by: Operator, store: str, resource: str, key: str) -> None:
    """Remove a merchant's definition. Stored values stay."""
    found = await find_store(by.db, store)
    async with by.db.transaction() as db:
        before = await _change(db, STORES, found.id, {f"{resource}.{key}"})
        if f"{resource}.{key}" not in map(_name, before):
            raise NoSuchDefinition(resource, key)
        await by.record(db, found.id, "metadata.undefined", f"metadata:{resource}.{key}")


async def define_of_app(by: Operator, app: str, definition: Definition, seconds: float = SECONDS) -> None:
    """Define a key for every store that installs the app, or replace its definition."""
    found = await find_app(by.db, app)
    await _check_stored(by.db, definition, await _STORES_OF.all(by.db, found.id), found.id, seconds)
    async with by.db.transaction() as db:
        before = await _change(db, APPS, found.id, {_name(definition)}, [definition])
        after = [*(each for each in before if _name(each) != _name(definition)), definition]
        await _record(by, db, found.id, changes_of(before, after))


async def remove_of_app(by: Operator, app: str, resource: str, key: str) -> None:
    """Remove a definition of an app. Stored values stay."""
    found = await find_app(by.db, app)
    async with by.db.transaction() as db:
        before = await _change(db, APPS, found.id, {f"{resource}.{key}"})
        if f"{resource}.{key}" not in map(_name, before):
            raise NoSuchDefinition(resource, key)
        await _record(by, db, found.id, Changed(removed=[f"{resource}.{key}"]))


async def _change(
    db: Executor, owner: Owner, owner_id: int, names: Collection[str], new: Sequence[Definition] = ()
) -> list[Definition]:
    """Remove the definitions with these names, and add the new ones. Returns all that were there before."""
    before = _definitions.decode(await owner.lock.one(db, owner_id))
    await owner.set.run(db, owner_id, _stored([*(each for each in before if _name(each) not in names), *new]))
    return before


async def _record(by: Operator, db: Executor, app_id: int, changed: Changed) -> None:
    if changed:
        await by.record(db, SERVICE, "metadata.defined", f"app:{app_id}", **msgspec.to_builtins(changed))


def changes_of(before: Sequence[Definition], after: Sequence[Definition]) -> Changed:
    """What differs between two lists of definitions."""
    old, new = ({_name(each): each for each in side} for side in (before, after))
    return Changed(
        added=sorted(new.keys() - old.keys()),
        changed=sorted(name for name in new.keys() & old.keys() if new[name] != old[name]),
        removed=sorted(old.keys() - new.keys()),
    )


async def apply_definitions(by: Operator, app: str, wanted: Sequence[Definition], seconds: float = SECONDS) -> Changed:
    """Replace all definitions of an app by these of `read_definitions`, and return what changed, if anything.

    New and changed definitions are compared with what is stored on every store that installs the app.
    """
    found = await find_app(by.db, app)
    before = await definitions_of_app(by.db, found.id)
    changed = changes_of(before, wanted)
    if not changed:
        return changed
    stores = await _STORES_OF.all(by.db, found.id)
    deadline = monotonic() + seconds
    for each in wanted:
        if _name(each) in (*changed.added, *changed.changed):
            await _check_stored(by.db, each, stores, found.id, deadline - monotonic(), allowed=seconds)
    touched = {*changed.added, *changed.changed, *changed.removed}
    async with by.db.transaction() as db:
        await _change(db, APPS, found.id, touched, [each for each in wanted if _name(each) in touched])
        await _record(by, db, found.id, changed)
    return changed


def _stored(definitions: Sequence[Definition]) -> str:
    if len(definitions) > MOST_DEFINITIONS:
        _refuse([Fault("", "too_long", f"must be one of at most {MOST_DEFINITIONS} definitions; remove another first")])
    text = msgspec.json.encode(sorted(definitions, key=_name)).decode()
    if len(text) > MOST_TEXT:
        _refuse([Fault("", "too_long", "makes all definitions together too long; shorten choices or descriptions")])
    return text


def _refuse(faults: Sequence[Fault]) -> None:
    if faults:
        raise InvalidDefinition(faults)


def _name(definition: Definition) -> str:
    return f"{definition.resource}.{definition.key}"


# --- what is stored --------------------------------------------------------------------------------------------------

_READ = ["products:read", "orders:read", "customers:read"]
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


async def _check_stored(
    db: Executor,
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
        after, readable = 0, expanded(store.scopes)
        while True:
            rows = await VALUES[definition.resource].all(db, store.id, after, _ROWS, definition.key, *of_owner)
            for row in rows:
                faults = definition.faults(_value.decode(row.value), "") if row.value is not None else []
                count += bool(faults)
                if faults and len(examples) < MOST_EXAMPLES and _SCOPES[definition.resource] in readable:
                    examples.append(Violation(store.handle, row.id, faults[0].detail))
            if len(rows) < _ROWS:
                break
            after = rows[-1].id
            if monotonic() > deadline:
                raise CheckTooLong(definition, allowed or seconds)
    if count:
        raise ViolatedDefinition(definition, count, examples)
