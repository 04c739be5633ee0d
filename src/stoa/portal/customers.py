"""Who buys, to look at: customers with their addresses and orders. They are shown to the store's owners alone."""

from typing import Any

import msgspec

from stoa.customers import queries
from stoa.customers.contract import CUSTOMERS, Customer
from stoa.customers.documents import only_shared
from stoa.portal.answering import not_found
from stoa.portal.listed import NEWEST, Kind, part, shown
from stoa.portal.orders import ORDERS_SHOWN
from stoa.portal.pages import Pages, View
from stoa.portal.visit import Visit

pages = Pages()
_SORTS = (
    *NEWEST,
    ("last_name", "By name"),
    ("-total_spent", "Spent most"),
    ("-orders_count", "Most orders"),
    ("-last_order_at", "Ordered last"),
)
_MOST_ADDRESSES, _LATEST = 6, 8


def _seen(document: bytes) -> bytes:
    """A customer with the metadata that all apps share; what an app keeps for itself is not shown to others."""
    return only_shared(document)


_CUSTOMERS = Kind(CUSTOMERS, queries.LISTING, Customer, _seen)


@pages.page("/stores/{handle}/customers", under="list_stores")
async def store_customers(visit: Visit) -> View:
    if not visit.may_change():
        return _for_owners()
    listed = await shown(visit, _CUSTOMERS, sorts=_SORTS, offered=("q", "status", "tag"))
    return View("stores/customers.html", {"listed": listed, "sorts": _SORTS})


@pages.page("/stores/{handle}/customers/{customer_id:int}", under="list_stores")
async def store_customer(visit: Visit) -> View:
    if not visit.may_change():
        return _for_owners()
    found = await queries.GET.maybe(visit.db, visit.store.id, visit.place("customer_id"))
    if found is None:
        raise not_found()
    customer = msgspec.json.decode(_seen(found.doc), type=Customer)
    of_them = {"customer_id": str(customer.id)}
    context: dict[str, Any] = {
        "customer": customer,
        "addresses": part(visit, customer.addresses, "addresses", _MOST_ADDRESSES),
        "orders": await shown(visit, ORDERS_SHOWN, sorts=NEWEST, always=of_them, rows=_LATEST),
    }
    return View("stores/customer.html", context)


def _for_owners() -> View:
    return View("stores/owners_only.html", {"tab": "store_customers", "what": "customers"})
