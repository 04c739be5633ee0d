"""Operations on the collections of a store; each is one transaction that includes its audit entry."""

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

import msgspec

from stoa import money
from stoa.access.contract import AccessRefused, StoreRow
from stoa.access.operator import Operator, check_name, find_store
from stoa.db.errors import PostgresError, violates
from stoa.db.query import Executor, json_of
from stoa.events.outbox import Cause
from stoa.media.addresses import name_in_url
from stoa.media.contract import PictureRefused, PicturesUnavailable
from stoa.media.files import media_of
from stoa.media.queries import TOUCH_FILES
from stoa.products import collection_queries as queries
from stoa.products.bodies import Membership
from stoa.products.collections import (
    MOST_COLLECTIONS,
    MOST_CONDITIONS,
    Condition,
    InvalidCondition,
    Match,
    Rules,
    checked_condition,
    choose,
)
from stoa.products.contract import CollectionHandle
from stoa.products.save import load, save
from stoa.products.working_copy import ProductCopy
from stoa.rest.fields import Url

LONGEST_DESCRIPTION = 65_535
MOST_PRODUCTS = 250  # that one change adds or removes


class Collection(msgspec.Struct):
    """A collection as the portal and `stoa collection` show it."""

    handle: str
    title: str
    description: str | None
    picture: str | None
    match: Match | None  # None: it has no rules
    rules: list[Condition]
    products: int
    version: int
    created_at: datetime
    updated_at: datetime


class Details(msgspec.Struct, frozen=True):
    """What a person decides about a collection."""

    title: str
    description: str | None = None
    picture: str | None = None
    rules: Sequence[tuple[str, str]] = ()  # pairs of field and value
    match: Match = "all"


class NoSuchCollection(AccessRefused):
    def __init__(self, handle: str) -> None:
        super().__init__(f'there is no collection "{handle}"; list the collections to see their handles')


class InvalidCollectionHandle(AccessRefused):
    def __init__(self) -> None:
        super().__init__("a handle must have 1 to 64 characters of a-z, 0-9 and single hyphens between them")


class CollectionTaken(AccessRefused):
    def __init__(self, handle: str) -> None:
        super().__init__(
            f'the store already has a collection "{handle}", or its products are still leaving it; choose another handle'
        )


class TooManyCollections(AccessRefused):
    def __init__(self) -> None:
        super().__init__(f"a store can have at most {MOST_COLLECTIONS} collections; delete one that is no longer used")


class InvalidDescription(AccessRefused):
    def __init__(self) -> None:
        super().__init__(f"the description must have at most {LONGEST_DESCRIPTION} characters")


class InvalidPicture(AccessRefused):
    def __init__(self, message: str = "must be a URL that starts with http:// or https://") -> None:
        super().__init__(f"the picture {message}")


class InvalidRule(AccessRefused):
    def __init__(self, index: int, message: str) -> None:
        super().__init__(f"rule {index + 1} {message}")
        self.index = index


class TooManyRules(AccessRefused):
    def __init__(self) -> None:
        super().__init__(f"a collection can have at most {MOST_CONDITIONS} rules")


class CollectionChanged(AccessRefused):
    def __init__(self) -> None:
        super().__init__("somebody changed the collection in the meantime; check it, and try again")


class UnknownProducts(AccessRefused):
    def __init__(self, skus: Sequence[str]) -> None:
        super().__init__(f"no product of this store has the SKU {', '.join(skus[:10])}")


class TooManyProducts(AccessRefused):
    def __init__(self) -> None:
        super().__init__(f"name 1 to {MOST_PRODUCTS} products at a time")


class InvalidPosition(AccessRefused):
    def __init__(self) -> None:
        super().__init__("a position must be a whole number from 1 to 1000000000")


async def list_collections(by: Operator, store: str) -> list[Collection]:
    return await collections_of(by.db, (await find_store(by.db, store)).id)


async def collections_of(db: Executor, store_id: int) -> list[Collection]:
    return [_shown(each) for each in await queries.COLLECTIONS.all(db, store_id)]


async def get_collection(by: Operator, store: str, handle: str) -> Collection:
    return await _find(by.db, await find_store(by.db, store), handle)


async def create_collection(by: Operator, store: str, handle: str, details: Details) -> Collection:
    """Create a collection. Its rules are applied to existing products in the background."""
    try:
        msgspec.convert(handle, CollectionHandle)
    except msgspec.ValidationError as error:
        raise InvalidCollectionHandle from error
    async with by.db.transaction() as db:
        found = await _lock(db, store)
        if await queries.COUNT.one(db, found.id) >= MOST_COLLECTIONS:
            raise TooManyCollections
        rules = _checked(details, found)
        await _keep_picture(db, found, details)
        try:
            await queries.CREATE.run(db, found.id, handle, *_columns(details, rules))
        except PostgresError as error:
            if violates(error, "collections_pkey"):
                raise CollectionTaken(handle) from error
            raise
        if rules is not None:
            await _apply_rules(db, found)
        await by.record(db, found.id, "collection.created", f"collection:{handle}", title=details.title)
        return await _find(db, found, handle)


async def store_picture(by: Operator, store: str, data: bytes) -> str:
    """Store a file as a picture of the store, and return its address, for the details of a collection."""
    found, media = await find_store(by.db, store), media_of(by.settings)
    try:
        return (await media.keep(by.db, found.id, await media.decoder.decode(data))).url
    except PictureRefused as refusal:
        raise InvalidPicture(str(refusal)) from refusal
    except PicturesUnavailable as reason:
        raise InvalidPicture(f"cannot be stored now. {reason}") from reason


async def update_collection(
    by: Operator, store: str, handle: str, version: int | None = None, **changes: Any
) -> Collection:
    """Change what `changes` names of a collection; with a `version`, only if it is the current one."""
    async with by.db.transaction() as db:
        found = await _lock(db, store)
        before = await _find(db, found, handle)
        if version not in (None, before.version):
            raise CollectionChanged
        details = msgspec.structs.replace(_details(before), **changes)
        rules = _checked(details, found)
        had = Rules(tuple(before.rules), before.match) if before.match else None
        if (rules, *_columns(details, None)) == (had, *_columns(_details(before), None)):
            return before
        await _keep_picture(db, found, details)
        await queries.CHANGE.run(db, found.id, handle, *_columns(details, rules))
        if rules != had:
            await _apply_rules(db, found)
        await by.record(db, found.id, "collection.changed", f"collection:{handle}", fields=sorted(changes))
        return await _find(db, found, handle)


async def delete_collection(by: Operator, store: str, handle: str) -> Collection:
    """Delete a collection. Its products leave it in the background; then its handle is free."""
    async with by.db.transaction() as db:
        found = await _lock(db, store)
        deleted = await _find(db, found, handle)
        await queries.DELETE.run(db, found.id, handle, await _apply_rules(db, found))
        await by.record(db, found.id, "collection.deleted", f"collection:{handle}")
        return deleted


async def add_products(
    by: Operator, store: str, handle: str, skus: Sequence[str], position: int | None = None
) -> Collection:
    """Put products into a collection by hand, in the order given from `position` on."""
    if position is not None and not 1 <= position <= 1_000_000_000 - MOST_PRODUCTS:
        raise InvalidPosition

    def places(number: int) -> Membership:
        return Membership(handle, position + number if position is not None else None)

    return await _rearrange(by, store, handle, skus, "collection.products_added", places)


async def remove_products(by: Operator, store: str, handle: str, skus: Sequence[str]) -> Collection:
    """Remove products that were put into a collection by hand. Those that fulfill its rules stay in it."""
    return await _rearrange(by, store, handle, skus, "collection.products_removed", lambda _: None)


async def _rearrange(
    by: Operator, store: str, handle: str, skus: Sequence[str], action: str, place: Callable[[int], Membership | None]
) -> Collection:
    wanted = list(dict.fromkeys(skus))
    if not 1 <= len(wanted) <= MOST_PRODUCTS:
        raise TooManyProducts
    async with by.db.transaction() as db:
        found = await find_store(db, store)
        await _find(db, found, handle)
        products = await load(db, found.id, skus=wanted)
        by_sku: dict[str | None, ProductCopy] = {each.fields.sku: p for p in products for each in p.live}
        if missing := [sku for sku in wanted if sku not in by_sku]:
            raise UnknownProducts(missing)
        for number, sku in enumerate(wanted):
            put_into(by_sku[sku], handle, place(number))
        if changed := sum(product.touched for product in products):
            await save(db, found.id, products, Cause(None, by.request_id, by.account_id))
            await by.record(db, found.id, action, f"collection:{handle}", products=changed)
        return await _find(db, found, handle)


def put_into(product: ProductCopy, handle: str, place: Membership | None) -> None:
    """Put a product into a collection by hand, or take it out."""
    stored = product.fields.collections
    others = [msgspec.convert(each, Membership) for each in stored if each["handle"] != handle]
    product.set_fields(collections=choose(stored, [*others, *([place] if place else [])]))


async def _lock(db: Executor, store: str) -> StoreRow:
    """The store, whose collections nobody else changes until the transaction ends."""
    found = await find_store(db, store)
    await queries.LOCK.one(db, found.id)
    return found


async def _keep_picture(db: Executor, store: StoreRow, details: Details) -> None:
    """Keep the file of a stored picture that a collection is to show from being removed until it does."""
    name = name_in_url(details.picture or "")
    if name is not None:
        await TOUCH_FILES.all(db, store.id, [name])


async def _apply_rules(db: Executor, store: StoreRow) -> int:
    """Begin a new revision of the rules, which the background worker applies to the products that exist."""
    await queries.ADD_SCAN.run(db, store.id)
    return await queries.NEXT_REVISION.one(db, store.id)


async def _find(db: Executor, store: StoreRow, handle: str) -> Collection:
    found = await queries.COLLECTION.maybe(db, store.id, handle)
    if found is None:
        raise NoSuchCollection(handle)
    return _shown(found)


def _shown(row: queries.StoredCollection) -> Collection:
    rules = msgspec.json.decode(row.rules, type=Rules) if row.rules else None
    return Collection(
        row.handle,
        row.title,
        row.description,
        row.picture,
        rules.match if rules else None,
        list(rules.conditions) if rules else [],
        row.products,
        row.version,
        row.created_at,
        row.updated_at,
    )


def _details(of: Collection) -> Details:
    rules = [(each.field, each.value) for each in of.rules]
    return Details(of.title, of.description, of.picture, rules, of.match or "all")


def _columns(details: Details, rules: Rules | None) -> tuple[str | None, ...]:
    return details.title, details.description or None, details.picture or None, json_of(rules) if rules else None


def _checked(details: Details, store: StoreRow) -> Rules | None:
    """The rules in the form in which they are stored; refuses details that cannot be stored."""
    check_name(details.title)
    if details.description and (len(details.description) > LONGEST_DESCRIPTION or "\x00" in details.description):
        raise InvalidDescription
    if details.picture:
        try:
            msgspec.convert(details.picture, Url)
        except msgspec.ValidationError as error:
            raise InvalidPicture from error
    if len(details.rules) > MOST_CONDITIONS:
        raise TooManyRules
    conditions: list[Condition] = []
    for index, (field, value) in enumerate(details.rules):
        if field not in ("tag", "brand", "category", "price"):
            raise InvalidRule(index, "must be about a tag, a brand, a category or a price")
        try:
            conditions.append(checked_condition(field, value, money.digits(store.currency)))
        except InvalidCondition as error:
            raise InvalidRule(index, str(error)) from error
    return Rules(tuple(conditions), details.match) if conditions else None
