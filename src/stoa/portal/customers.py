"""Customer pages: the list, and one customer with addresses and orders; only for owners of the store."""

from typing import Any

import msgspec

from stoa.customers import queries
from stoa.customers.contract import CUSTOMERS, Customer
from stoa.customers.documents import only_shared
from stoa.portal.dispatch import not_found
from stoa.portal.list_view import NEWEST, ListSource, list_view, paginate
from stoa.portal.orders import ORDER_LIST
from stoa.portal.pages import Pages, View
from stoa.portal.visit import Visit

pages = Pages()
_SORTS = (
    *NEWEST,
    ("last_name", "Name"),
    ("-total_spent", "Highest spend"),
    ("-orders_count", "Most orders"),
    ("-last_order_at", "Latest order"),
)
_ADDRESSES_PER_PAGE, _RECENT_ORDERS = 6, 8


def _with_shared_metadata(document: bytes) -> bytes:
    """Return a customer with the metadata that all apps share; an app's private metadata is not shown."""
    return only_shared(document)


_CUSTOMERS = ListSource(CUSTOMERS, queries.LISTING, Customer, _with_shared_metadata)


@pages.page("/stores/{handle}/customers", nav="list_stores")
async def store_customers(visit: Visit) -> View:
    if not visit.may_change():
        return _owners_only()
    customers = await list_view(visit, _CUSTOMERS, sorts=_SORTS, offered=("q", "status", "tag"))
    return View("stores/customers.html", {"customers": customers, "sorts": _SORTS})


@pages.page("/stores/{handle}/customers/{customer_id:int}", nav="list_stores")
async def store_customer(visit: Visit) -> View:
    if not visit.may_change():
        return _owners_only()
    found = await queries.GET.maybe(visit.db, visit.store.id, visit.path_param("customer_id"))
    if found is None:
        raise not_found()
    customer = msgspec.json.decode(_with_shared_metadata(found.doc), type=Customer)
    of_customer = {"customer_id": str(customer.id)}
    context: dict[str, Any] = {
        "customer": customer,
        "addresses": paginate(visit, customer.addresses, "addresses", _ADDRESSES_PER_PAGE),
        "orders": await list_view(visit, ORDER_LIST, sorts=NEWEST, fixed=of_customer, rows=_RECENT_ORDERS),
    }
    return View("stores/customer.html", context)


def _owners_only() -> View:
    return View("stores/owners_only.html", {"tab": "store_customers"})
