"""Operations on stores; each is one transaction that includes its audit entry."""

from collections.abc import Sequence
from urllib.parse import urlsplit

from stoa.access.addresses import is_handle, is_host, named_by_host
from stoa.access.contract import (
    HandleTaken,
    HostTaken,
    InvalidHandle,
    InvalidHost,
    StoreRow,
    UnknownCurrency,
)
from stoa.access.operator import Operator, check_name, find_store
from stoa.access.queries import ADD_HOSTS, CREATE_STORE, LIST_STORES, SET_PRICES_INCLUDE_TAX, SET_STORE_STATUS
from stoa.db.errors import PostgresError, violates
from stoa.money import CURRENCIES
from stoa.settings import Settings


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
) -> StoreRow:
    custom_hosts = sorted({host.lower().removesuffix(".") for host in hosts})
    _check_handle(handle, by.settings)
    check_name(name)
    if currency not in CURRENCIES:
        raise UnknownCurrency(currency)
    for host in custom_hosts:
        _check_host(host, by.settings.store_domain.lower())
    try:
        async with by.db.transaction() as db:
            store_id = await CREATE_STORE.one(db, handle, name, currency, prices_include_tax)
            await ADD_HOSTS.run(db, store_id, custom_hosts)
            details = {"currency": currency, "hosts": custom_hosts, "prices_include_tax": prices_include_tax}
            await by.record(db, store_id, "store.created", f"store:{handle}", **details)
            return await find_store(db, handle)
    except PostgresError as error:
        if violates(error, "stores_handle_key"):
            raise HandleTaken(handle) from error
        if violates(error, "store_hosts_pkey"):
            raise HostTaken(", ".join(custom_hosts)) from error
        raise


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


async def suspend_store(by: Operator, handle: str) -> StoreRow:
    """Refuse every app on a store until it is resumed; no data is lost."""
    return await _set_status(by, handle, "suspended", "store.suspended")


async def resume_store(by: Operator, handle: str) -> StoreRow:
    return await _set_status(by, handle, "active", "store.resumed")


async def _set_status(by: Operator, handle: str, status: str, action: str) -> StoreRow:
    async with by.db.transaction() as db:
        store = await find_store(db, handle)
        if await SET_STORE_STATUS.run(db, store.id, status):
            await by.record(db, store.id, action, f"store:{handle}")
        return await find_store(db, handle)


async def set_prices_include_tax(by: Operator, handle: str, *, value: bool) -> StoreRow:
    """Change the default of new orders; existing orders keep theirs."""
    async with by.db.transaction() as db:
        store = await find_store(db, handle)
        if await SET_PRICES_INCLUDE_TAX.run(db, store.id, value):
            await by.record(db, store.id, "store.updated", f"store:{handle}", prices_include_tax=value)
        return await find_store(db, handle)
