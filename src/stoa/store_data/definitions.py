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
from stoa.access.operator import Operator, find_app, known_store
from stoa.db.errors import Unavailable
from stoa.db.fan_out import FanOut, in_order
from stoa.db.query import Command, Executor, Query
from stoa.rest.body import convert
from stoa.rest.metadata_types import MOST_DEFINITIONS, Definition, definition_faults
from stoa.rest.problems import Fault, ValidationFailed
from stoa.store_data.stored_values import READ, InstalledOn, check_stored

SECONDS = 10.0  # in which a page checks what is stored; a command may take longer
MOST_TEXT = 65_536
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


class NoSuchDefinition(AccessRefused):
    def __init__(self, resource: str, key: str) -> None:
        super().__init__(f"there is no definition of {resource}.{key}; list the definitions to see their keys")


def read_definitions(items: Any, *, of_app: bool) -> list[Definition]:
    """Definitions from the plain values of a form, a command or a file; a refusal names every fault with its pointer."""
    try:
        found = convert({"items": _plain(items)}, _Items, digits=0).items
    except ValidationFailed as refusal:
        raise InvalidDefinition([_below_items(each) for each in refusal.faults]) from refusal
    _refuse(faults_of_all(found, of_app=of_app))
    return found


def faults_of_all(found: Sequence[Definition], *, of_app: bool) -> list[Fault]:
    """What contradicts itself in definitions of one owner, with pointers into their list."""
    faults = [fault for n, each in enumerate(found) for fault in definition_faults(each, of_app=of_app, at=f"/{n}")]
    names = [each.name for each in found]
    twice = [n for n, each in enumerate(names) if each in names[:n]]
    return faults + [Fault(f"/{n}/key", "invalid_format", "is defined twice") for n in twice]


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


STORES_OF = FanOut(
    InstalledOn,
    """SELECT s.id, s.handle, i.scopes FROM installations i JOIN stores s ON s.id = i.store_id
        WHERE i.app_id = $1 AND i.store_id <> ALL ($2::bigint[]) ORDER BY s.id""",
    in_order("id", unique=["id"]),
    unbound=_APP,
)


async def _stores_of(by: Operator, app_id: int) -> list[InstalledOn]:
    """All stores that have installed an app; a check of a part of them would be none."""
    found = await STORES_OF.all(by.everywhere, app_id)
    if by.away:
        raise Unavailable(f"{', '.join(by.away)} did not answer, so its stored values cannot be checked")
    return found


async def definitions_of_store(db: Executor, store_id: int) -> list[Definition]:
    """The merchant's own definitions."""
    return _definitions.decode(await OF_STORE.one(db, store_id))


async def definitions_of_app(db: Executor, app_id: int) -> list[Definition]:
    return _definitions.decode(await OF_APP.one(db, app_id))


async def define(by: Operator, store: str, definition: Definition, seconds: float = SECONDS) -> None:
    """Define a key on a store, or replace its definition."""
    found = await known_store(by.db, store)
    await check_stored(by.database_of, definition, [InstalledOn(found.id, found.handle, READ)], None, seconds)
    async with by.db.transaction() as db:
        await _change(db, STORES, found.id, {definition.name}, [definition])
        await by.record_global(db, found.id, "metadata.defined", f"metadata:{definition.name}", type=definition.type)


async def remove(by: Operator, store: str, resource: str, key: str) -> None:
    """Remove a merchant's definition. Stored values stay."""
    found = await known_store(by.db, store)
    async with by.db.transaction() as db:
        before = await _change(db, STORES, found.id, {f"{resource}.{key}"})
        if f"{resource}.{key}" not in [each.name for each in before]:
            raise NoSuchDefinition(resource, key)
        await by.record_global(db, found.id, "metadata.undefined", f"metadata:{resource}.{key}")


async def define_of_app(by: Operator, app: str, definition: Definition, seconds: float = SECONDS) -> None:
    """Define a key for every store that installs the app, or replace its definition."""
    found = await find_app(by.db, app)
    await check_stored(by.database_of, definition, await _stores_of(by, found.id), found.id, seconds)
    async with by.db.transaction() as db:
        before = await _change(db, APPS, found.id, {definition.name}, [definition])
        after = [*(each for each in before if each.name != definition.name), definition]
        await _record(by, db, found.id, changes_of(before, after))


async def remove_of_app(by: Operator, app: str, resource: str, key: str) -> None:
    """Remove a definition of an app. Stored values stay."""
    found = await find_app(by.db, app)
    async with by.db.transaction() as db:
        before = await _change(db, APPS, found.id, {f"{resource}.{key}"})
        if f"{resource}.{key}" not in [each.name for each in before]:
            raise NoSuchDefinition(resource, key)
        await _record(by, db, found.id, Changed(removed=[f"{resource}.{key}"]))


async def _change(
    db: Executor, owner: Owner, owner_id: int, names: Collection[str], new: Sequence[Definition] = ()
) -> list[Definition]:
    """Remove the definitions with these names, and add the new ones. Returns all that were there before."""
    before = _definitions.decode(await owner.lock.one(db, owner_id))
    await owner.set.run(db, owner_id, _stored([*(each for each in before if each.name not in names), *new]))
    return before


async def _record(by: Operator, db: Executor, app_id: int, changed: Changed) -> None:
    if changed:
        await by.record(db, SERVICE, "metadata.defined", f"app:{app_id}", **msgspec.to_builtins(changed))


def changes_of(before: Sequence[Definition], after: Sequence[Definition]) -> Changed:
    """What differs between two lists of definitions."""
    old, new = ({each.name: each for each in side} for side in (before, after))
    return Changed(
        added=sorted(new.keys() - old.keys()),
        changed=sorted(name for name in new.keys() & old.keys() if new[name] != old[name]),
        removed=sorted(old.keys() - new.keys()),
    )


async def apply_definitions(by: Operator, app: str, wanted: Sequence[Definition], seconds: float = SECONDS) -> Changed:
    """Replace all definitions of an app by these of `read_definitions`, and return what changed, if anything."""
    await check_definitions(by, app, wanted, seconds)
    return await save_definitions(by, app, wanted)


async def check_definitions(by: Operator, app: str, wanted: Sequence[Definition], seconds: float = SECONDS) -> None:
    """Compare new and changed definitions with what is stored on every store that installs the app."""
    found = await find_app(by.db, app)
    changed = changes_of(await definitions_of_app(by.db, found.id), wanted)
    stores = await _stores_of(by, found.id) if changed.added or changed.changed else []
    deadline = monotonic() + seconds
    for each in wanted:
        if each.name in (*changed.added, *changed.changed):
            await check_stored(by.database_of, each, stores, found.id, deadline - monotonic(), allowed=seconds)


async def save_definitions(by: Operator, app: str, wanted: Sequence[Definition]) -> Changed:
    """Replace the definitions of an app by these, which are checked. The same list again changes nothing."""
    found = await find_app(by.db, app)
    async with by.db.transaction() as db:
        before = _definitions.decode(await APPS.lock.one(db, found.id))
        changed = changes_of(before, wanted)
        if changed:
            await _change(db, APPS, found.id, {each.name for each in before}, wanted)
            await _record(by, db, found.id, changed)
    return changed


def _stored(definitions: Sequence[Definition]) -> str:
    if len(definitions) > MOST_DEFINITIONS:
        _refuse([Fault("", "too_long", f"must be one of at most {MOST_DEFINITIONS} definitions; remove another first")])
    text = msgspec.json.encode(sorted(definitions, key=lambda each: each.name)).decode()
    if len(text) > MOST_TEXT:
        _refuse([Fault("", "too_long", "makes all definitions together too long; shorten choices or descriptions")])
    return text


def _refuse(faults: Sequence[Fault]) -> None:
    if faults:
        raise InvalidDefinition(faults)
