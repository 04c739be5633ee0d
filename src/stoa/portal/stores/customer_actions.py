"""The forms that create and change a customer and its addresses, through the API's own endpoints."""

import hashlib
from collections.abc import Mapping
from typing import Any

import msgspec

from stoa.accounts.contract import Right
from stoa.customers.bodies import AddressChanges, CustomerChanges, NewAddress, NewCustomer
from stoa.customers.contract import Customer
from stoa.customers.endpoints import (
    create_customer,
    create_customer_address,
    delete_customer_address,
    update_customer,
    update_customer_address,
)
from stoa.customers.save import load
from stoa.portal.kit.forms import OnceForm
from stoa.portal.kit.pages import ROOT, Redirect, View
from stoa.portal.kit.visit import Visit
from stoa.portal.stores.customers import find_customer, pages
from stoa.portal.stores.metadata_forms import NewMetadata, definitions_for
from stoa.portal.stores.order_forms import Line, Tags, Text, tags_in
from stoa.portal.stores.writes import REPEATED, UNCHANGED, Change, VersionedForm, carry_out
from stoa.rest.body import convert
from stoa.rest.call import Call
from stoa.rest.problems import VersionConflict

ADDRESS = (
    *("first_name", "last_name", "company", "phone", "address1", "address2", "postal_code", "city", "province"),
    "country_code",
)
_PROFILE = ("first_name", "last_name", "company", "email", "phone", "note")


class ProfileForm(NewMetadata):
    """Who a customer is; an empty field clears its value."""

    first_name: Line = ""
    last_name: Line = ""
    company: Line = ""
    email: Line = ""
    phone: Line = ""
    note: Text = ""
    tags: Tags = ""

    @property
    def members(self) -> dict[str, Any]:
        return {**{name: getattr(self, name) or None for name in _PROFILE}, "tags": tags_in(self.tags)}


class NewCustomerForm(ProfileForm):
    """A customer with an address, unless its fields are empty."""

    address: dict[str, str] = msgspec.field(default_factory=dict[str, str])


class CustomerForm(ProfileForm):
    seen: Line = ""
    status: Line = ""


class NewAddressForm(OnceForm):
    label: Line = ""
    address: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    is_default_shipping: bool = False
    is_default_billing: bool = False


class AddressForm(VersionedForm):
    label: Line = ""
    address: dict[str, str] = msgspec.field(default_factory=dict[str, str])
    is_default_shipping: bool = False
    is_default_billing: bool = False


class RemovedAddressForm(VersionedForm):
    pass


def address_members(sent: Mapping[str, str]) -> dict[str, Any]:
    """The fields of an address that are not empty; other names are ignored."""
    return {name: sent[name] for name in ADDRESS if sent.get(name)}


def address_fields(at: str, prefix: str = "address") -> dict[str, str]:
    """The form's field of each pointer into an address."""
    return {f"{at}/{name}": f"{prefix}[{name}]" for name in ADDRESS}


@pages.page("/stores/{handle}/customers/new", nav="list_stores", right=Right.CHANGE)
async def new_customer(visit: Visit) -> View:
    return View("stores/new_customer.html", {"definitions": (await definitions_for(visit)).of("customer")})


@pages.form("/stores/{handle}/customers/new", on=new_customer, in_shard=True)
async def add_customer(visit: Visit, form: NewCustomerForm) -> Redirect:
    address = address_members(form.address)
    members = {**form.members, "addresses": [address] if address else []}
    url = f"{ROOT}/stores/{visit.store.handle}/customers"

    async def work(call: Call) -> None:
        nonlocal url
        call.patch = {**members, **form.metadata_members(call.store.definitions, "customer")}
        created = await create_customer(call, convert(call.patch, NewCustomer, digits=call.store.digits))
        customer_id = msgspec.json.decode(created.doc, type=Customer).id
        await visit.by.record(call.db, call.store_id, "customer.created", f"customer:{customer_id}")
        url = f"{url}/{customer_id}"

    fields = {f"/{name}": name for name in (*_PROFILE, "tags")} | address_fields("/addresses/0") | form.metadata_fields
    done = await carry_out(visit, form, Change("", "", fields), work)
    return Redirect(url, "The customer was created." if done else REPEATED, "good" if done else "warn")


@pages.page("/stores/{handle}/customers/{customer_id:int}/edit", nav="list_stores", right=Right.CHANGE)
async def edit_customer(visit: Visit) -> View:
    customer = await find_customer(visit.db, visit)
    return View("stores/edit_customer.html", {"customer": customer, "seen": _digest(customer)})


@pages.form("/stores/{handle}/customers/{customer_id:int}/edit", on=edit_customer, in_shard=True)
async def change_customer(visit: Visit, form: CustomerForm) -> Redirect:
    customer_id = visit.path_param("customer_id")

    async def work(call: Call) -> Any:
        await load(call.db, call.store_id, ids=[customer_id])  # locks the customer
        # An order makes a new version too, but does not concern this form.
        before = await find_customer(call.db, visit)
        if _digest(before) != form.seen:
            raise VersionConflict
        call.patch = {**form.members, "status": form.status}
        changes = convert(call.patch, CustomerChanges, digits=call.store.digits)
        after = await update_customer(call, customer_id, changes)
        return UNCHANGED if after.version == before.version else after

    fields = {f"/{name}": name for name in (*_PROFILE, "tags", "status")}
    change = Change("customer.changed", f"customer:{customer_id}", fields, replaces=True)
    done = await carry_out(visit, form, change, work)
    return _back(visit, "Saved.", done=done)


@pages.form("/stores/{handle}/customers/{customer_id:int}/addresses", on=edit_customer, in_shard=True)
async def add_address(visit: Visit, form: NewAddressForm) -> Redirect:
    customer_id = visit.path_param("customer_id")

    async def work(call: Call) -> Any:
        flags = {name: True for name in _FLAGS if getattr(form, name)}
        members = {**address_members(form.address), "label": form.label or None, **flags}
        return await create_customer_address(call, customer_id, convert(members, NewAddress, digits=call.store.digits))

    return _back(visit, "The address was added.", done=await carry_out(visit, form, _change(customer_id), work))


@pages.form("/stores/{handle}/customers/{customer_id:int}/addresses/{address_id:int}", on=edit_customer, in_shard=True)
async def change_address(visit: Visit, form: AddressForm) -> Redirect:
    customer_id, address_id = visit.path_param("customer_id"), visit.path_param("address_id")

    async def work(call: Call) -> Any:
        sent = address_members(form.address)
        # A field that is not sent, such as a required one, is cleared, which the API may refuse.
        call.patch = {name: sent.get(name) for name in ADDRESS} | {"label": form.label or None}
        call.patch |= {name: True for name in _FLAGS if getattr(form, name)}
        return await update_customer_address(
            call, customer_id, address_id, convert(call.patch, AddressChanges, digits=call.store.digits)
        )

    change = msgspec.structs.replace(_change(customer_id), replaces=True)
    return _back(visit, "Saved.", done=await carry_out(visit, form, change, work))


@pages.form(
    "/stores/{handle}/customers/{customer_id:int}/addresses/{address_id:int}/remove", on=edit_customer, in_shard=True
)
async def remove_address(visit: Visit, form: RemovedAddressForm) -> Redirect:
    customer_id, address_id = visit.path_param("customer_id"), visit.path_param("address_id")

    async def work(call: Call) -> Any:
        return await delete_customer_address(call, customer_id, address_id)

    return _back(visit, "The address was removed.", done=await carry_out(visit, form, _change(customer_id), work))


_FLAGS = ("is_default_shipping", "is_default_billing")


def _change(customer_id: int) -> Change:
    fields = {**address_fields(""), "/label": "label"}
    return Change("customer.address_changed", f"customer:{customer_id}", fields)


def _digest(customer: Customer) -> str:
    """Identifies what the form of a customer showed."""
    shown = ([getattr(customer, name) for name in _PROFILE], customer.tags, customer.status)
    return hashlib.sha256(msgspec.json.encode(shown)).hexdigest()[:16]


def _back(visit: Visit, notice: str, *, done: bool) -> Redirect:
    url = f"{ROOT}/stores/{visit.store.handle}/customers/{visit.path_param('customer_id')}"
    return Redirect(url, notice if done else REPEATED, "good" if done else "warn")
