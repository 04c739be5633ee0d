"""The handlers of customers, their addresses and their metadata."""

from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from stoa.customers import queries, rules
from stoa.customers.bodies import (
    CUSTOMER_ELSEWHERE,
    AddressChanges,
    CustomerChanges,
    MetadataChanges,
    NewAddress,
    NewCustomer,
)
from stoa.customers.consents import NOT_SUBSCRIBED, matching_states
from stoa.customers.contract import CUSTOMERS, Address, Customer, CustomerExists, MetadataEntry, WrittenBy
from stoa.customers.documents import (
    only_shared,
    own_digest,
    own_digest_in,
    owned_key,
    section_start,
    seen_by,
    shown_of,
    value_of,
)
from stoa.customers.examples import ADDRESS_CHANGES, CUSTOMER_CHANGES, METADATA_CHANGES, NEW_ADDRESS, NEW_CUSTOMER
from stoa.customers.phones import e164
from stoa.customers.save import load, save_or_refuse
from stoa.customers.working_copy import CustomerCopy
from stoa.customers.workspace import CustomerWorkspace
from stoa.db.documents import exactly, head_of
from stoa.db.query import json_of
from stoa.events.outbox import Cause
from stoa.rest.call import Call, Subject
from stoa.rest.endpoint import Created, NoContent, One, Page, Routes
from stoa.rest.filters import entry_conditions
from stoa.rest.lists import ListQuery, list_page
from stoa.rest.patch import check_echoes
from stoa.rest.problems import ExternalIdTaken, NotFound

routes = Routes("Customers")


@routes.get("/customers", scope="customers:read", lists=CUSTOMERS)
async def list_customers(call: Call, query: ListQuery) -> Page[Customer]:
    """List customers.

    Sorted by id by default. Filters combine with *and*. `metadata` contains and searches the keys of your app and the
    shared keys. To keep a copy in sync, poll with `updated_since` and `include_deleted=true`: an erased customer is
    returned as `{id, deleted_at, updated_at, version}`.
    """
    section = section_start(call.app_id)
    page = await list_page(call.db, call.store_id, queries.LISTING, _for_caller(query, call), caller=section)
    page.docs = [only_shared(doc) for doc in page.docs]
    return page


@routes.post("/customers", scope="customers:write", errors=[CustomerExists, ExternalIdTaken], example=NEW_CUSTOMER)
async def create_customer(call: Call, body: NewCustomer) -> Created[Customer]:
    """Create a customer.

    `email` or `phone` is required. Addresses and metadata can be sent inline. The first address becomes the default for
    shipping and billing, unless another address asks for it. Metadata keys belong to your app, unless they start with
    `shared.`.
    """
    customer = rules.new_customer(body, call.patch.get("metadata") or {}, call.app_id, call.store.definitions)
    workspace = CustomerWorkspace(await load(call.db, call.store_id, **_keys(customer.fields)))
    workspace.put(customer)
    customer_id = (await _saved(call, customer)).stored_id
    found = await _document(call, customer_id)
    return Created(found.doc, found.version, f"/customers/{customer_id}", own=found.own)


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
    """Update a customer by merge patch.

    `metadata` is merged too: omitted keys stay, null removes a key. Addresses have their own endpoints, so that omitting
    them never deletes them.
    """
    sent = {"email": body.email, "phone": body.phone, "external_id": body.external_id}
    workspace = CustomerWorkspace(await load(call.db, call.store_id, ids=[customer_id], **_keys(sent)))
    customer = _found(workspace, customer_id)
    _check_version(call, customer)
    if call.echoed:
        check_echoes(call, exactly((await _document(call, customer_id)).doc), CUSTOMER_ELSEWHERE)
    changed = rules.change_customer(customer, body, call.patch, call.app_id, call.store.definitions)
    workspace.put(changed, before=customer)
    await _saved(call, changed)
    return await _document(call, customer_id)


@routes.post("/customers/{customer_id}/addresses", scope="customers:write", example=NEW_ADDRESS)
async def create_customer_address(call: Call, customer_id: int, body: NewAddress) -> Created[Address]:
    """Add an address.

    A customer has at most 100 addresses. The first address becomes the default for shipping and billing; a later address
    can replace it as the default.
    """
    customer = await _edited(call, customer_id, lambda before: rules.add_address(before, body))
    added = customer.fields["addresses"][-1]
    return Created(json_of(added).encode(), added["version"], f"/customers/{customer_id}/addresses/{added['id']}")


@routes.patch("/customers/{customer_id}/addresses/{address_id}", scope="customers:write", example=ADDRESS_CHANGES)
async def update_customer_address(call: Call, customer_id: int, address_id: int, body: AddressChanges) -> One[Address]:
    """Update an address by merge patch.

    Making the address a default unsets the previous default at the same time. Existing orders keep the previous address.
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
    """Delete an address.

    If it was a default, the oldest remaining address becomes the default. Existing orders keep the address.
    """
    await _edited(call, customer_id, lambda before: rules.remove_address(before, _address(call, before, address_id)))
    return NoContent()


@routes.patch("/customers/{customer_id}/metadata", scope="customers:write", example=METADATA_CHANGES)
async def update_customer_metadata(call: Call, customer_id: int, body: MetadataChanges) -> Page[MetadataEntry]:
    """Merge metadata.

    Omitted keys stay, null removes a key; concurrent merges of different keys both succeed. Keys belong to your app, which
    can have up to 100. All apps can read and write keys that start with `shared.`, up to 100 as well. Returns every entry
    that your app can see, with the app that wrote it last.
    """

    def change(customer: CustomerCopy) -> CustomerCopy:
        _check_version(call, customer)
        metadata, faults = rules.merged(customer.metadata, call.patch, call.caller.app_id, "")
        rules.refuse([*faults, *call.store.definitions.faults_of_changes("customer", call.patch, "")])
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
    app_id = call.app_id
    return One(seen_by(found.doc, app_id), found.version, own=own_digest_in(found.doc, app_id))


def _check_version(call: Call, customer: CustomerCopy) -> None:
    """Check If-Match. A change of the app's own metadata makes no new version, but changes the ETag that the app gets."""
    call.check_version(customer.version, own_digest(customer.metadata.get(call.app_id, {})))


def _keys(sent: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `load` that find every customer with one of these keys."""
    email, phone, external_id = (sent[name] for name in ("email", "phone", "external_id"))
    number = e164(phone) if isinstance(phone, str) else None
    return {
        "emails": [email] if isinstance(email, str) else [],
        "phones": [number] if number else [],
        "external_ids": [external_id] if isinstance(external_id, str) else [],
    }


async def _edited(call: Call, customer_id: int, edit: Callable[[CustomerCopy], CustomerCopy]) -> CustomerCopy:
    """Lock a customer, edit it, and save it if anything changed."""
    customer = _found(CustomerWorkspace(await load(call.db, call.store_id, ids=[customer_id])), customer_id)
    saved = await _saved(call, edit(customer))
    # The response is a part of the customer, and the event contains all of it.
    call.costs_documents([len(head_of(saved.fields)) + len(shown_of(saved.metadata))])
    return saved


async def _saved(call: Call, customer: CustomerCopy) -> CustomerCopy:
    """Save a customer. If another customer took one of its keys since it was loaded, the refusal names that customer."""
    call.subject = Subject("customer", customer.id) if customer.id else None
    try:
        [saved] = await save_or_refuse(
            call.db,
            call.store_id,
            call.store.digits,
            [customer],
            Cause(call.app_id, call.request_id, call.person_id),
        )
    except (CustomerExists, ExternalIdTaken):
        # Uses another connection, because this transaction is rolled back.
        others = await load(call.autocommit, call.store_id, **_keys(customer.fields), lock=False)
        CustomerWorkspace(other for other in others if other.id != customer.id).put(customer)
        raise
    return saved


def _found(workspace: CustomerWorkspace, customer_id: int) -> CustomerCopy:
    customer = workspace.find("id", customer_id)
    if customer is None:
        raise _no_customer()
    return customer


def _address(call: Call, customer: CustomerCopy, address_id: int) -> dict[str, Any]:
    """An address of a customer, with the version that the caller expects."""
    address = customer.address(address_id)
    if address is None:
        raise NotFound("There is no address with this id.")
    call.check_version(address["version"])
    return address


def _no_customer() -> NotFound:
    return NotFound("There is no customer with this id.")


def _for_caller(query: ListQuery, call: Call) -> ListQuery:
    """The query with its `metadata` filter resolved for this caller, and with its consents as conditions on columns."""
    sent = query.filters
    if "metadata" in sent:
        others = {name: value for name, value in sent.items() if name != "metadata"}
        app_id = call.app_id
        wanted = entry_conditions(
            call.store_id, sent["metadata"], lambda key: owned_key(key, rules.owner_of(key, app_id))
        )
        query = query.with_filters({**others, **wanted})
    if "consent" in sent or "accepts_marketing" in sent:
        pairs = msgspec.json.decode(sent.get("consent", "{}"))
        states = matching_states(pairs, sent.get("accepts_marketing")).items()
        named = {f"{channel}_consent{' or none' if NOT_SUBSCRIBED in each else ''}": each for channel, each in states}
        kept = {name: value for name, value in query.filters.items() if name not in ("consent", "accepts_marketing")}
        query = query.with_filters({**kept, **named})
    return query
