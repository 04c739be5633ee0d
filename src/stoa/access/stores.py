"""Operations on stores; each is one transaction that includes its audit entry."""

import re
from collections.abc import Sequence
from functools import cache
from typing import Any
from urllib.parse import urlsplit
from zoneinfo import available_timezones

import msgspec

from stoa.access.addresses import is_handle, is_host, named_by_host
from stoa.access.audit import changed_values
from stoa.access.contract import (
    HandleTaken,
    HostTaken,
    InvalidHandle,
    InvalidHost,
    InvalidLocale,
    InvalidTimezone,
    NoShardForStores,
    StoreRow,
    UnknownCurrency,
)
from stoa.access.operator import Operator, check_name, find_store, known_store
from stoa.access.operator_queries import (
    ADD_DEFAULT_LOCATION,
    ADD_HOSTS,
    CREATE_STORE,
    GET_STORE,
    IS_COMPLETE,
    LIST_STORES,
    LOCK_CLOSURE,
    LOCK_STORE,
    SET_STORE_STATUS,
    STORES_BY_SHARD,
    SUSPEND_CLOSED_STORE,
    UPDATE_STORE,
)
from stoa.db.errors import PostgresError, violates
from stoa.db.query import Executor
from stoa.db.shards import DIRECTORY, DIRECTORY_NAME, SHARDS
from stoa.money import CURRENCIES
from stoa.settings import Settings

UTC, ENGLISH = "UTC", "en-US"
_LOCALE = re.compile(r"[a-z]{2,3}(-[A-Z][a-z]{3})?(-([A-Z]{2}|[0-9]{3}))?", re.ASCII)


async def list_stores(by: Operator) -> list[StoreRow]:
    return await LIST_STORES.all(by.db)


async def create_store(
    by: Operator,
    handle: str,
    name: str,
    currency: str,
    hosts: Sequence[str] = (),
    *,
    prices_include_tax: bool = False,
    timezone: str = UTC,
    locale: str = ENGLISH,
    shard: str = DIRECTORY,
) -> StoreRow:
    """Create a store, in a shard if one is named. If that is interrupted, the same call completes it."""
    custom_hosts = sorted({host.lower().removesuffix(".") for host in hosts})
    _check_handle(handle, by.settings)
    check_name(name)
    if currency not in CURRENCIES:
        raise UnknownCurrency(currency)
    _check_region(timezone, locale)
    for host in custom_hosts:
        _check_host(host, by.settings.store_domain.lower())
    details = {"currency": currency, "hosts": custom_hosts, "prices_include_tax": prices_include_tax}
    try:
        async with by.db.transaction() as db:
            values = (handle, name, currency, prices_include_tax, timezone, locale, shard)
            store_id = await CREATE_STORE.one(db, *values)
            await ADD_HOSTS.run(db, store_id, custom_hosts)
            if not shard:
                await _complete(by, db, handle, store_id, details)
                return await find_store(db, handle)
    except PostgresError as error:
        if violates(error, "stores_handle_key"):
            if shard and await _complete_in_shard(by, handle, shard, details):
                return await GET_STORE.one(by.db, handle)
            raise HandleTaken(handle) from error
        if violates(error, "store_hosts_pkey"):
            raise HostTaken(", ".join(custom_hosts)) from error
        raise
    await _complete_in_shard(by, handle, shard, details)
    return await GET_STORE.one(by.db, handle)


async def _complete(by: Operator, db: Executor, handle: str, store_id: int, details: dict[str, Any]) -> None:
    """Write the first rows of a store, in its own database."""
    await ADD_DEFAULT_LOCATION.run(db, store_id)
    await by.record(db, store_id, "store.created", f"store:{handle}", **details)


async def _complete_in_shard(by: Operator, handle: str, shard: str, details: dict[str, Any]) -> bool:
    """Write the first rows of a store that is in this shard; False if it has them, or is another store."""
    store = await GET_STORE.one(by.db, handle)
    if store.shard != shard:
        return False
    database = await by.database_of(store.id)
    if by.shards is not None:
        await by.shards.catch_up(shard)
    async with database.transaction() as db:
        if await IS_COMPLETE.one(db, store.id):
            return False
        await _complete(by, db, handle, store.id, details)
    return True


class Choice(msgspec.Struct):
    """Where a new store goes, and why."""

    shard: str
    why: str


async def choose_shard(by: Operator, named: str | None) -> Choice:
    """The shard that an operator names, or of all that take stores the one with the fewest; of several, not the directory."""
    shards = await SHARDS.all(by.db)
    known = {DIRECTORY: "active", **{each.name: each.state for each in shards}}
    if named is not None:
        name = DIRECTORY if named == DIRECTORY_NAME else named
        if known.get(name) != "active":
            raise NoShardForStores(
                named, [each or DIRECTORY_NAME for each, state in known.items() if state == "active"]
            )
        return Choice(name, "as you asked")
    if not shards:
        return Choice(DIRECTORY, "there are no shards")
    counts = {each.shard: each.stores for each in await STORES_BY_SHARD.all(by.db)}
    active = [name for name, state in known.items() if state == "active"]
    name = min(active, key=lambda each: (counts.get(each, 0), each == DIRECTORY, each))
    return Choice(name, f"it has the fewest stores ({counts.get(name, 0)})")


async def update_store(
    by: Operator,
    handle: str,
    *,
    name: str | None = None,
    timezone: str | None = None,
    locale: str | None = None,
    prices_include_tax: bool | None = None,
) -> StoreRow:
    """Change the settings of a store; None keeps a value. Existing orders keep their rule for taxes."""
    given = {"name": name, "timezone": timezone, "locale": locale, "prices_include_tax": prices_include_tax}
    async with by.db.transaction() as db:
        await LOCK_STORE.one(db, (await known_store(db, handle)).id)
        store = await known_store(db, handle)
        changes = {key: value for key, value in given.items() if value not in (None, getattr(store, key))}
        after = msgspec.structs.replace(store, **changes)
        check_name(after.name)
        _check_region(after.timezone, after.locale)
        if changes:
            settings = (after.name, after.timezone, after.locale, after.prices_include_tax)
            await UPDATE_STORE.run(db, store.id, *settings)
            values = {key: (getattr(store, key), value) for key, value in changes.items()}
            await by.record_global(db, store.id, "store.updated", f"store:{handle}", **changed_values(values))
        return await known_store(db, handle)


@cache
def timezones() -> frozenset[str]:
    """The names of the IANA database that name a place, and UTC."""
    return frozenset(name for name in available_timezones() if "/" in name and not name.startswith("Etc/")) | {UTC}


def _check_region(timezone: str, locale: str) -> None:
    if timezone not in timezones():
        raise InvalidTimezone(timezone[:80])
    if _LOCALE.fullmatch(locale) is None:
        raise InvalidLocale(locale[:80])


def _check_handle(handle: str, settings: Settings) -> None:
    if not is_handle(handle):
        raise InvalidHandle(handle)
    if f"{handle}.{settings.store_domain}".lower() == urlsplit(settings.public_url).hostname:
        raise HandleTaken(handle)  # this host is the service itself


def _check_host(host: str, store_domain: str) -> None:
    if not is_host(host):
        raise InvalidHost(host, "use a host name without scheme, port or path")
    if host == store_domain or named_by_host(host, store_domain).handle:
        raise InvalidHost(host, f"names under {store_domain} are reserved for store handles")


async def suspend_store(by: Operator, handle: str, reason: str = "") -> StoreRow:
    """Refuse every app on a store until it is resumed; no data is lost. The store's audit log keeps the reason."""
    detail = {"reason": reason} if reason else {}
    return await _set_status(by, handle, "suspended", "store.suspended", **detail)


async def resume_store(by: Operator, handle: str) -> StoreRow:
    return await _set_status(by, handle, "active", "store.resumed")


async def _set_status(by: Operator, handle: str, status: str, action: str, **detail: str) -> StoreRow:
    async with by.db.transaction() as db:
        store = await known_store(db, handle)
        await LOCK_STORE.one(db, store.id)
        if await LOCK_CLOSURE.maybe(db, store.id) is None:
            changed = await SET_STORE_STATUS.run(db, store.id, status)
        else:  # a closed store stays closed
            changed = await SUSPEND_CLOSED_STORE.run(db, store.id, status == "suspended")
        if changed:
            await by.record_global(db, store.id, action, f"store:{handle}", **detail)
        return await known_store(db, handle)
