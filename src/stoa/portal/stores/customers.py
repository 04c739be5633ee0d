"""Customer pages: the list, and one customer with addresses and orders; not for viewers."""

from typing import Annotated, Any

import msgspec
from starlette.responses import StreamingResponse

from stoa.accounts.contract import Right
from stoa.customers import queries
from stoa.customers.contract import CUSTOMERS, Customer
from stoa.customers.documents import only_shared
from stoa.customers.rows import change_by_row
from stoa.customers.save import load, save_or_refuse
from stoa.db.query import Executor
from stoa.events.outbox import Cause
from stoa.portal.kit.error_pages import not_found
from stoa.portal.kit.forms import FormError, OnceForm, text
from stoa.portal.kit.list_view import NEWEST, ListSource, list_view, paginate
from stoa.portal.kit.pages import ROOT, Pages, Redirect, View
from stoa.portal.kit.visit import Visit
from stoa.portal.stores.exports import CUSTOMER_COLUMNS, Export, export_list
from stoa.portal.stores.metadata_forms import MetadataForm, definitions_for, metadata_change
from stoa.portal.stores.orders import ORDER_LIST
from stoa.portal.stores.writes import REPEATED, Change, carry_out
from stoa.rest.call import Call
from stoa.rest.problems import NotFound
from stoa.store_data.customer_erasure import erase_customer

pages = Pages()
_SORTS = (
    *NEWEST,
    ("last_name", "Name"),
    ("-total_spent", "Highest spend"),
    ("-orders_count", "Most orders"),
    ("-last_order_at", "Latest order"),
)
_FILTERS = ("q", "status", "tag")
_ADDRESSES_PER_PAGE, _RECENT_ORDERS = 6, 8


class ForgetForm(OnceForm):
    """An erasure is confirmed by typing what identifies the customer."""

    confirmation: Annotated[str, text("Type the text that is shown.", max_length=500)] = ""


def _with_shared_metadata(document: bytes) -> bytes:
    """Return a customer with the metadata that all apps share; an app's private metadata is not shown."""
    return only_shared(document)


CUSTOMER_LIST = ListSource(CUSTOMERS, queries.LISTING, Customer, _with_shared_metadata)


@pages.page("/stores/{handle}/customers", nav="list_stores")
async def store_customers(visit: Visit) -> View:
    if not visit.may_change():
        return _not_for_viewers()
    customers = await list_view(visit, CUSTOMER_LIST, sorts=_SORTS, offered=_FILTERS)
    return View("stores/customers.html", {"customers": customers, "sorts": _SORTS, "query": visit.query_string})


@pages.form("/stores/{handle}/customers/export", on=store_customers, in_shard=True, while_closed=True)
async def export_customers(visit: Visit) -> StreamingResponse:
    return await export_list(visit, Export("customers", CUSTOMER_LIST, _SORTS, _FILTERS, CUSTOMER_COLUMNS))


@pages.page("/stores/{handle}/customers/{customer_id:int}", nav="list_stores")
async def store_customer(visit: Visit) -> View:
    if not visit.may_change():
        return _not_for_viewers()
    customer = await find_customer(visit.db, visit)
    of_customer = {"customer_id": str(customer.id)}
    context: dict[str, Any] = {
        "customer": customer,
        "definitions": (await definitions_for(visit)).of("customer"),
        "identifier": _identifier(customer),
        "addresses": paginate(visit, customer.addresses, "addresses", _ADDRESSES_PER_PAGE),
        "orders": await list_view(visit, ORDER_LIST, sorts=NEWEST, fixed=of_customer, rows=_RECENT_ORDERS),
    }
    return View("stores/customer.html", context)


@pages.form("/stores/{handle}/customers/{customer_id:int}/metadata", on=store_customer, in_shard=True)
async def change_customer_metadata(visit: Visit, form: MetadataForm) -> Redirect:
    customer_id = visit.path_param("customer_id")

    async def work(call: Call) -> Any:
        [before] = await load(call.db, call.store_id, ids=[customer_id]) or [None]
        if before is None:
            raise NotFound
        row = {"metadata": call.store.definitions.read("customer", form.changes)}
        after = change_by_row(before, row, None, call.store)
        cause = Cause(None, call.request_id, call.person_id)
        return await save_or_refuse(call.db, call.store_id, call.store.digits, [after], cause)

    change = await metadata_change(visit, form, "customer", customer_id, "/metadata")
    done = await carry_out(visit, form, change, work)
    url = f"{ROOT}/stores/{visit.store.handle}/customers/{customer_id}"
    return Redirect(url, "Saved." if done else REPEATED, "good" if done else "warn")


@pages.form("/stores/{handle}/customers/{customer_id:int}/forget", on=store_customer, right=Right.OWN, in_shard=True)
async def forget_customer(visit: Visit, form: ForgetForm) -> Redirect:
    customer_id = visit.path_param("customer_id")

    async def work(call: Call) -> Any:
        found = await queries.GET.maybe(call.db, call.store_id, customer_id)
        if found is not None:
            expected = _identifier(msgspec.json.decode(_with_shared_metadata(found.doc), type=Customer))
            if form.confirmation.casefold() != expected.casefold():
                raise FormError(confirmation=f"Type {expected} to confirm.")
        return await erase_customer(call, customer_id)

    # The erasure itself is recorded in the audit log, with the person.
    done = await carry_out(visit, form, Change("", f"customer:{customer_id}"), work)
    notice = "The customer was erased from every record." if done else REPEATED
    return Redirect(f"{ROOT}/stores/{visit.store.handle}/customers", notice, "good" if done else "warn")


async def find_customer(db: Executor, visit: Visit) -> Customer:
    """The customer in the path."""
    found = await queries.GET.maybe(db, visit.store.id, visit.path_param("customer_id"))
    if found is None:
        raise not_found()
    return msgspec.json.decode(_with_shared_metadata(found.doc), type=Customer)


def name_of(customer: Customer) -> str:
    """How a customer is called on pages: by name, company, email address, phone number or id."""
    name = " ".join(part for part in (customer.first_name, customer.last_name) if part)
    return name or customer.company or customer.email or customer.phone or f"Customer {customer.id}"


def _identifier(customer: Customer) -> str:
    """What a person types to confirm the erasure of a customer."""
    return customer.email or customer.phone or str(customer.id)


def _not_for_viewers() -> View:
    return View("stores/owners_only.html", {"tab": "store_customers"})
