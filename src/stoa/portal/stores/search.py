"""The search of a store: an order, a product or a customer by any of its names; an exact match opens directly."""

from typing import Any

import msgspec

from stoa.portal.kit.list_view import ListSource, find_rows
from stoa.portal.kit.pages import ROOT, PageResponse, Pages, Redirect, View
from stoa.portal.kit.visit import Visit
from stoa.portal.stores.customers import CUSTOMER_LIST, name_of
from stoa.portal.stores.orders import ORDER_LIST
from stoa.portal.stores.products import PRODUCT_LIST

pages = Pages()


class Found(msgspec.Struct, frozen=True):
    """A result: its page, and how it is shown."""

    url: str
    kind: str
    title: str
    hint: str


@pages.page("/stores/{handle}/search", nav="list_stores")
async def store_search(visit: Visit) -> PageResponse:
    wanted = visit.query("q").strip()
    exact = await _exact(visit, wanted) if wanted else []
    if len(exact) == 1:
        return Redirect(exact[0].url)
    similar = [each for each in await _similar(visit, wanted) if each not in exact] if wanted else []
    return View("stores/search.html", {"wanted": wanted, "exact": exact, "similar": similar})


async def suggestions(visit: Visit, wanted: str) -> list[Found]:
    """The first results in a store while somebody types: an order by its number, and what begins like the words."""
    number = wanted.removeprefix("#")
    orders = await _orders(visit, number=number) if number.isdigit() else []
    return list(dict.fromkeys([*orders, *(await _similar(visit, wanted) if number == wanted else [])]))


async def _exact(visit: Visit, wanted: str) -> list[Found]:
    """What has exactly this number, id, external id, email address, phone number or SKU."""
    number = wanted.removeprefix("#")
    if number != wanted:
        return await _orders(visit, number=number)
    found = [*await _orders(visit, number=number), *await _orders(visit, ids=number)] if number.isdigit() else []
    found += await _orders(visit, external_id=wanted)
    if "," not in wanted:
        found += await _products(visit, sku=",".join(dict.fromkeys((wanted, wanted.upper()))))
    found += await _products(visit, external_id=wanted)
    found += await _products(visit, ids=number) if number.isdigit() else []
    # Only owners see customers, and find orders by them.
    if visit.may_change():
        found += await _customers(visit, ids=number) if number.isdigit() else []
        found += await _customers(visit, external_id=wanted)
        found += await (_customers(visit, email=wanted) if "@" in wanted else _customers(visit, phone=wanted))
        found += await _orders(visit, email=wanted) if "@" in wanted else []
    return list(dict.fromkeys(found))


async def _similar(visit: Visit, wanted: str) -> list[Found]:
    """What contains words that begin like those that are wanted."""
    if not visit.may_change():
        return await _products(visit, q=wanted)
    return [
        *await _orders(visit, q=wanted),
        *await _products(visit, q=wanted),
        *await _customers(visit, q=wanted),
    ]


async def _orders(visit: Visit, **filters: str) -> list[Found]:
    return [
        Found(
            _url(visit, "orders", each.id), "Order", f"#{each.number}", f"{each.status.replace('_', ' ')}, {each.total}"
        )
        for each in await _rows(visit, ORDER_LIST, filters)
    ]


async def _products(visit: Visit, **filters: str) -> list[Found]:
    return [
        Found(_url(visit, "products", each.id), "Product", each.name, each.sku or f"{each.variants_count} variants")
        for each in await _rows(visit, PRODUCT_LIST, filters)
    ]


async def _customers(visit: Visit, **filters: str) -> list[Found]:
    return [
        Found(_url(visit, "customers", each.id), "Customer", name_of(each), each.email or each.phone or "")
        for each in await _rows(visit, CUSTOMER_LIST, filters)
    ]


async def _rows(visit: Visit, source: ListSource[Any], filters: dict[str, str]) -> list[Any]:
    return await find_rows(visit, source, **filters)


def _url(visit: Visit, section: str, number: int) -> str:
    return f"{ROOT}/stores/{visit.store.handle}/{section}/{number}"
