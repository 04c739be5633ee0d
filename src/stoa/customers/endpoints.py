"""What happens when customers, their addresses and their metadata are asked for and changed."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from stoa import terms
from stoa.customers import queries, rules
from stoa.customers.bodies import (
    CUSTOMER_ELSEWHERE,
    AddressChanges,
    CustomerChanges,
    MetadataChanges,
    NewAddress,
    NewCustomer,
)
from stoa.customers.contract import CUSTOMERS, Address, Customer, CustomerExists, MetadataEntry, WrittenBy
from stoa.customers.documents import entry_term, only_shared, section_start, seen_by, value_of
from stoa.customers.examples import ADDRESS_CHANGES, CUSTOMER_CHANGES, METADATA_CHANGES, NEW_ADDRESS, NEW_CUSTOMER
from stoa.customers.phones import e164
from stoa.customers.save import load, save_or_refuse
from stoa.customers.working_copy import CustomerCopy
from stoa.customers.workspace import CustomerWorkspace
from stoa.db.documents import exactly, json_of
from stoa.events.outbox import Cause
from stoa.rest.endpoint import Call, Created, NoContent, One, Page, Routes, Subject
from stoa.rest.lists import ListQuery, list_page
from stoa.rest.patch import check_echoes
from stoa.rest.problems import ExternalIdTaken, NotFound

routes = Routes("Customers")


@routes.get("/customers", scope="customers:read", lists=CUSTOMERS)
async def list_customers(call: Call, query: ListQuery) -> Page[Customer]:
    """List customers.

    By id unless sorted otherwise; filters combine with *and*. `metadata` shows and searches your app's own keys and the
    shared ones. To keep a copy in step, ask for `updated_since` with `include_deleted=true`: one that was erased comes as
    `{id, deleted_at, version}`.
    """
    own = section_start(call.caller.app_id)
    page = await list_page(call.db, call.store_id, queries.LISTING, _own_metadata(query, call), caller=own)
    page.docs = [only_shared(doc) for doc in page.docs]
    return page


@routes.post("/customers", scope="customers:write", errors=[CustomerExists, ExternalIdTaken], example=NEW_CUSTOMER)
async def create_customer(call: Call, body: NewCustomer) -> Created[Customer]:
    """Create a customer.

    An e-mail address or a phone number is needed. Addresses and metadata may stand inline; the first address is the
    default for shipping and billing unless another says that it is. Metadata keys belong to your app, unless they start
    with `shared.`.
    """
    customer = rules.new_customer(body, call.patch.get("metadata") or {}, call.caller.app_id)
    workspace = CustomerWorkspace(await load(call.db, call.store_id, **_names(customer.fields)))
    workspace.put(customer)
    made = (await _stored(call, customer)).id or 0
    found = await _document(call, made)
    return Created(found.doc, found.version, f"/customers/{made}")


@routes.get("/customers/{customer_id}", scope="customers:read")
async def get_customer(call: Call, customer_id: int) -> One[Customer]:
    """Get one customer with all addresses and metadata."""
    return await _document(call, customer_id)


@routes.patch(
    "/customers/{customer_id}",
    scope="customers:write",
    errors=[CustomerExists, ExternalIdTaken],
    example=CUSTOMER_CHANGES,
)
async def update_customer(call: Call, customer_id: int, body: CustomerChanges) -> One[Customer]:
    """Change a customer's own fields by merge patch.

    `metadata` is merged too: keys that are left out stay, null removes one. Addresses are changed at their own addresses,
    so that nothing is wiped by leaving it out.
    """
    wanted = {"email": body.email, "phone": body.phone, "external_id": body.external_id}
    workspace = CustomerWorkspace(await load(call.db, call.store_id, ids=[customer_id], **_names(wanted)))
    customer = _found(workspace, customer_id)
    call.check_version(customer.version)
    if call.echoed:
        check_echoes(call, exactly((await _document(call, customer_id)).doc), CUSTOMER_ELSEWHERE)
    changed = rules.change_customer(customer, body, call.patch, call.caller.app_id)
    workspace.put(changed, before=customer)
    await _stored(call, changed)
    return await _document(call, customer_id)


@routes.post("/customers/{customer_id}/addresses", scope="customers:write", example=NEW_ADDRESS)
async def create_customer_address(call: Call, customer_id: int, body: NewAddress) -> Created[Address]:
    """Add an address.

    A customer has at most 100. The first is the default for shipping and billing; a later one that says so takes that
    over.
    """
    customer = await _edited(call, customer_id, lambda before: rules.add_address(before, body))
    added = customer.fields["addresses"][-1]
    return Created(json_of(added).encode(), added["version"], f"/customers/{customer_id}/addresses/{added['id']}")


@routes.patch("/customers/{customer_id}/addresses/{address_id}", scope="customers:write", example=ADDRESS_CHANGES)
async def update_customer_address(call: Call, customer_id: int, address_id: int, body: AddressChanges) -> One[Address]:
    """Change an address by merge patch.

    Making it a default takes that from the address that was it, in the same moment. Orders that were placed keep the
    address as it was.
    """

    def change(customer: CustomerCopy) -> CustomerCopy:
        address = _address(call, customer, address_id)
        if call.echoed:
            check_echoes(call, address)
        return rules.change_address(customer, address, body, call.patch)

    customer = await _edited(call, customer_id, change)
    address = customer.address(address_id) or {}
    return One(json_of(address).encode(), address["version"])


@routes.delete("/customers/{customer_id}/addresses/{address_id}", scope="customers:write")
async def delete_customer_address(call: Call, customer_id: int, address_id: int) -> NoContent:
    """Remove an address.

    Where it was a default, the oldest that remains takes its place. Orders that were placed keep the address as it was.
    """
    await _edited(call, customer_id, lambda before: rules.remove_address(before, _address(call, before, address_id)))
    return NoContent()


@routes.patch("/customers/{customer_id}/metadata", scope="customers:write", example=METADATA_CHANGES)
async def update_customer_metadata(call: Call, customer_id: int, body: MetadataChanges) -> Page[MetadataEntry]:
    """Merge metadata.

    Keys that are left out stay, null removes one; two who merge different keys at once both succeed. Keys belong to your
    app, up to 100 of them, unless they start with `shared.`: those are seen and written by all, 100 again. Answers every
    entry that your app can see, with who wrote it last.
    """

    def change(customer: CustomerCopy) -> CustomerCopy:
        call.check_version(customer.version)
        metadata, faults = rules.merged(customer.metadata, call.patch, call.caller.app_id, "")
        rules.refuse(faults)
        return msgspec.structs.replace(customer, metadata=metadata)

    await _edited(call, customer_id, change)
    entries = [
        MetadataEntry(row.key, value_of(row.value), row.updated_at, WrittenBy(row.updated_by))
        for row in await queries.ENTRIES.all(call.db, call.store_id, customer_id, call.caller.app_id)
    ]
    docs = [msgspec.json.encode(entry) for entry in entries]
    return Page(docs, [], len(docs), max(len(docs), 1), 1, None, None)


async def _document(call: Call, customer_id: int) -> One[Customer]:
    found = await queries.GET.maybe(call.db, call.store_id, customer_id)
    if found is None:
        raise _no_customer()
    call.subject = Subject("customer", customer_id)
    return One(seen_by(found.doc, call.caller.app_id), found.version)


def _names(wanted: Mapping[str, Any]) -> dict[str, Any]:
    """What `load` is to look for: whoever has one of the names that are wanted."""
    email, phone, external_id = (wanted[name] for name in ("email", "phone", "external_id"))
    number = e164(phone) if isinstance(phone, str) else None
    return {
        "emails": [email] if isinstance(email, str) else [],
        "phones": [number] if number else [],
        "external_ids": [external_id] if isinstance(external_id, str) else [],
    }


async def _edited(call: Call, customer_id: int, edit: Callable[[CustomerCopy], CustomerCopy]) -> CustomerCopy:
    """Lock a customer, edit it, and store it if anything changed."""
    customer = _found(CustomerWorkspace(await load(call.db, call.store_id, ids=[customer_id])), customer_id)
    return await _stored(call, edit(customer))


async def _stored(call: Call, customer: CustomerCopy) -> CustomerCopy:
    """Store a customer; where another took one of its names after our look, the refusal says who."""
    call.subject = Subject("customer", customer.id) if customer.id else None
    try:
        [stored] = await save_or_refuse(
            call.db, call.store_id, call.store.digits, [customer], Cause(call.caller.app_id, call.request_id)
        )
    except (CustomerExists, ExternalIdTaken):
        # Uses another connection, because this transaction is rolled back.
        named = await load(call.autocommit, call.store_id, **_names(customer.fields), lock=False)
        CustomerWorkspace(other for other in named if other.id != customer.id).put(customer)
        raise
    return stored


def _found(workspace: CustomerWorkspace, customer_id: int) -> CustomerCopy:
    customer = workspace.find("id", customer_id)
    if customer is None:
        raise _no_customer()
    return customer


def _address(call: Call, customer: CustomerCopy, address_id: int) -> dict[str, Any]:
    """An address of a customer, found and of a version that the caller allows."""
    address = customer.address(address_id)
    if address is None:
        raise NotFound("There is no address with this id.")
    call.check_version(address["version"])
    return address


def _no_customer() -> NotFound:
    return NotFound("There is no customer with this id.")


def _own_metadata(query: ListQuery, call: Call) -> ListQuery:
    """The same request with `metadata` read for this caller: its own namespace, or the shared one."""
    if "metadata" not in query.shape.filters:
        return query
    pairs: dict[str, str] = msgspec.json.decode(query.values[query.shape.filters.index("metadata")])
    wanted = [
        entry_term(call.store_id, rules.owner_of(key, call.caller.app_id), key, value) for key, value in pairs.items()
    ]
    return query.with_filter("metadata", terms.exactly(wanted))
