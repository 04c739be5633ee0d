"""Operations on the locations of a store; each is one transaction that includes its audit entry."""

import re

import msgspec

from stoa.access.audit import changed_values
from stoa.access.contract import AccessRefused, StoreRow
from stoa.access.operator import Operator, check_name, find_store
from stoa.db.directory_outbox import send
from stoa.db.errors import PostgresError, violates
from stoa.db.query import Executor, json_of
from stoa.inventory import queries
from stoa.inventory.contract import Location
from stoa.products.stock_locations import DEFAULT_LOCATION

MOST_LOCATIONS = 100
LOWEST_PRIORITY = 1_000_000
LONGEST_ADDRESS = 500
AFTER_DEFAULT = 10  # the priority of a new location, unless it is set
LOCATIONS = "locations"  # the kind of a message to the directory
_CODE = re.compile(r"[a-z0-9](?:[a-z0-9_-]{0,30}[a-z0-9])?\Z")


class NoSuchLocation(AccessRefused):
    def __init__(self, code: str) -> None:
        super().__init__(f'there is no location "{code}"; list the locations to see their codes')


class InvalidLocationCode(AccessRefused):
    def __init__(self) -> None:
        super().__init__("a code must have 1 to 32 characters of a-z, 0-9, and hyphens and underscores between them")


class LocationTaken(AccessRefused):
    def __init__(self, code: str) -> None:
        super().__init__(
            f'the store already has a location "{code}"; choose another code, or activate it if it is inactive'
        )


class InvalidAddress(AccessRefused):
    def __init__(self) -> None:
        super().__init__(f"the address must have at most {LONGEST_ADDRESS} printable characters")


class InvalidPriority(AccessRefused):
    def __init__(self) -> None:
        super().__init__(f"the priority must be a whole number from 0 to {LOWEST_PRIORITY}")


class TooManyLocations(AccessRefused):
    def __init__(self) -> None:
        super().__init__(f"a store can have at most {MOST_LOCATIONS} locations; rename one that is no longer used")


class LocationInUse(AccessRefused):
    def __init__(self, code: str, held: queries.Held) -> None:
        super().__init__(
            f'the location "{code}" holds {held.on_hand} units, of which {held.reserved} are reserved; '
            "ship or release the reserved units and transfer the others first"
        )


class DefaultLocationNeeded(AccessRefused):
    def __init__(self) -> None:
        super().__init__("the default location cannot be deactivated; it holds all stock that is at no other location")


class Published(msgspec.Struct):
    """The locations of a store as its row repeats them."""

    store_id: int
    locations: str  # JSON


async def list_locations(by: Operator, store: str) -> list[Location]:
    return await queries.LOCATIONS.all(by.db, (await find_store(by.db, store)).id)


async def add_location(
    by: Operator, store: str, code: str, name: str, address: str | None = None, priority: int = AFTER_DEFAULT
) -> Location:
    """Add a location. It holds no stock yet."""
    if not _CODE.match(code):
        raise InvalidLocationCode
    location = _checked(Location(code, name, address, priority, active=True))
    async with by.db.transaction() as db:
        found = await _lock(db, store)
        if len(await queries.LOCATIONS.all(db, found.id)) >= MOST_LOCATIONS:
            raise TooManyLocations
        try:
            await queries.ADD_LOCATION.run(db, found.id, code, name, location.address, priority)
        except PostgresError as error:
            if violates(error, "locations_pkey"):
                raise LocationTaken(code) from error
            raise
        await _publish(db, found)
        await by.record(db, found.id, "location.added", f"location:{code}", name=name, priority=priority)
    return location


async def update_location(
    by: Operator,
    store: str,
    code: str,
    name: str | None = None,
    address: str | None = None,
    priority: int | None = None,
) -> Location:
    """Change a location; None leaves a field as it is, and an empty address removes it."""
    async with by.db.transaction() as db:
        found = await _lock(db, store)
        before = await _find(db, found, code)
        after = _checked(
            Location(
                code,
                before.name if name is None else name,
                before.address if address is None else address,
                before.priority if priority is None else priority,
                before.active,
            )
        )
        if after != before:
            await queries.CHANGE_LOCATION.run(db, found.id, code, after.name, after.address, after.priority)
            await _publish(db, found)
            values = {
                field: (getattr(before, field), getattr(after, field)) for field in ("name", "address", "priority")
            }
            await by.record(db, found.id, "location.changed", f"location:{code}", **changed_values(values))
    return after


async def deactivate_location(by: Operator, store: str, code: str) -> Location:
    """Deactivate an empty location. Movements of stock that have begun are finished before."""
    if code == DEFAULT_LOCATION:
        raise DefaultLocationNeeded
    async with by.db.transaction() as db:
        found = await _lock(db, store)
        await queries.LOCK_LOCATION.all(db, found.id, code)
        before = await _find(db, found, code)
        await queries.DROP_EMPTY_LEVELS.run(db, found.id, code)
        held = await queries.HELD.one(db, found.id, code)
        if held.on_hand or held.reserved:
            raise LocationInUse(code, held)
        return await _activate(by, db, found, before, active=False)


async def activate_location(by: Operator, store: str, code: str) -> Location:
    async with by.db.transaction() as db:
        found = await _lock(db, store)
        return await _activate(by, db, found, await _find(db, found, code), active=True)


async def _activate(by: Operator, db: Executor, store: StoreRow, before: Location, *, active: bool) -> Location:
    if before.active != active:
        await queries.ACTIVATE_LOCATION.run(db, store.id, before.code, active)
        await _publish(db, store)
        action = "location.activated" if active else "location.deactivated"
        await by.record(db, store.id, action, f"location:{before.code}")
    return msgspec.structs.replace(before, active=active)


async def _lock(db: Executor, store: str) -> StoreRow:
    """The store, whose locations nobody else changes until the transaction ends."""
    found = await find_store(db, store)
    await queries.LOCK_LOCATIONS.all(db, found.id)
    return found


async def _find(db: Executor, store: StoreRow, code: str) -> Location:
    for location in await queries.LOCATIONS.all(db, store.id):
        if location.code == code:
            return location
    raise NoSuchLocation(code)


async def _publish(db: Executor, store: StoreRow) -> None:
    """Repeat the locations on the store's row, with which every request reads them."""
    published = Published(store.id, json_of(await queries.LOCATIONS.all(db, store.id)))
    if not await send(db, LOCATIONS, published):
        await queries.PUBLISH_LOCATIONS.run(db, published.store_id, published.locations)


async def receive_locations(db: Executor, content: bytes) -> None:
    """Repeat the locations of a store in a shard on its row, which is written in the directory."""
    published = msgspec.json.decode(content, type=Published)
    await queries.PUBLISH_LOCATIONS.run(db, published.store_id, published.locations)


def _checked(location: Location) -> Location:
    check_name(location.name)
    address = (location.address or "").strip()
    if len(address) > LONGEST_ADDRESS or not address.isprintable():
        raise InvalidAddress
    if not 0 <= location.priority <= LOWEST_PRIORITY:
        raise InvalidPriority
    return msgspec.structs.replace(location, address=address or None)
