"""Operations on stores; each is one transaction that includes its audit entry."""

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from urllib.parse import urlsplit
from zoneinfo import available_timezones

import msgspec
import structlog

from stoa.access.addresses import is_handle, is_host, named_by_host
from stoa.access.audit import ENTRY, changed_values, receive_entry
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
from stoa.access.operator import Operator, check_name, known_store
from stoa.access.operator_queries import (
    ADD_DEFAULT_LOCATION,
    ADD_HOSTS,
    CREATE_STORE,
    LIST_STORES,
    LOCK_CLOSURE,
    LOCK_STORE,
    SET_STORE_STATUS,
    STORES_BY_SHARD,
    SUSPEND_CLOSED_STORE,
    UPDATE_STORE,
)
from stoa.db.errors import PostgresError, Unavailable, cause, violates
from stoa.db.query import Executor
from stoa.db.shard_outbox import ReceiveForStore, receive_at_once
from stoa.db.shards import DIRECTORY, DIRECTORY_NAME, SHARDS, Shard, takes_stores
from stoa.money import CURRENCIES
from stoa.settings import Settings

UTC, ENGLISH = "UTC", "en-US"
CREATED = "store.created"  # the action, and the message that brings the first rows to a store in a shard
_UP_TO_DATE_S = (
    1.0  # how long a shard may take to have everything that the directory has committed, or it gets no new store
)
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
    """Create a store, in a shard if one is named.

    Its first rows are written where it is, by a message that is committed with it. Outside a transaction, this waits for them.
    """
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
            if not await takes_stores(db, shard):
                raise _not_active(shard, await SHARDS.all(db))
            values = (handle, name, currency, prices_include_tax, timezone, locale, shard)
            store_id = await CREATE_STORE.one(db, *values)
            await ADD_HOSTS.run(db, store_id, custom_hosts)
            if shard:
                await by.send_entry(db, store_id, CREATED, CREATED, f"store:{handle}", details)
            else:
                await ADD_DEFAULT_LOCATION.run(db, store_id)
                await by.record(db, store_id, CREATED, f"store:{handle}", **details)
    except PostgresError as error:
        if violates(error, "stores_handle_key"):
            raise HandleTaken(handle) from error
        if violates(error, "store_hosts_pkey"):
            raise HostTaken(", ".join(custom_hosts)) from error
        raise
    store = await known_store(by.db, handle)
    await receive_in_shard(by, store)
    return store


async def receive_new_store(db: Executor, store_id: int, content: bytes) -> None:
    """Write the first rows of a new store, in its shard."""
    await ADD_DEFAULT_LOCATION.run(db, store_id)
    await receive_entry(db, store_id, content)


async def receive_in_shard(by: Operator, store: StoreRow, more: Mapping[str, ReceiveForStore] = {}) -> None:
    """Wait until a store in a shard has received what was sent to it when it was created. In a transaction, and if the shard does
    not answer, a worker brings it later."""
    if by.shards is None or not store.shard:
        return
    receivers = {CREATED: receive_new_store, ENTRY: receive_entry, **more}
    try:
        await by.shards.catch_up(store.shard)
        await receive_at_once(await by.shards.database(store.shard), by.shards.directory, store.id, receivers)
    except Unavailable as error:
        structlog.get_logger().warning("a new store waits for its first rows", shard=store.shard, **cause(error))


class Choice(msgspec.Struct):
    """Where a new store goes, and why; without shards, there is no reason to name."""

    shard: str
    why: str = ""


async def choose_shard(by: Operator, named: str | None = None) -> Choice:
    """The shard that an operator names; or of all that take stores and are up to date, the one with the fewest. Of several, not
    the directory, which has other work, too."""
    shards = await SHARDS.all(by.db)
    active = _active(shards)
    if named is not None:
        name = DIRECTORY if named == DIRECTORY_NAME else named
        if name not in active:
            raise _not_active(named, shards)
        return Choice(name, "as you asked" if shards else "")
    if not shards or by.shards is None:
        return Choice(DIRECTORY)
    counts = {each.shard: each.stores for each in await STORES_BY_SHARD.all(by.db)}
    rest = ""
    for name in sorted(active, key=lambda each: (counts.get(each, 0), each == DIRECTORY, each)):
        with suppress(Unavailable):
            await by.shards.catch_up(name, _UP_TO_DATE_S)
            return Choice(name, f"it has the fewest stores ({counts.get(name, 0)}){rest}")
        rest = " of those that are up to date"
    raise AssertionError("unreachable: the directory is up to date")


def _active(shards: Sequence[Shard]) -> list[str]:
    return [DIRECTORY, *(each.name for each in shards if each.state == "active")]


def _not_active(named: str, shards: Sequence[Shard]) -> NoShardForStores:
    return NoShardForStores(named, [each or DIRECTORY_NAME for each in _active(shards)])


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
