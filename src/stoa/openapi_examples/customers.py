"""Example responses and events about customers: the customer of the example requests, her addresses and metadata."""

from typing import Any

import msgspec

from stoa.customers import examples
from stoa.customers.bodies import AddressChanges, CustomerChanges, NewAddress, NewCustomer
from stoa.customers.consents import NOT_SUBSCRIBED
from stoa.customers.documents import value_of
from stoa.customers.events import CustomerCreated, CustomerDeleted, CustomerErased, events_of
from stoa.customers.rules import add_address, change_address, change_customer, merged, new_customer, with_defaults
from stoa.customers.working_copy import CustomerCopy
from stoa.openapi_examples.fixtures import (
    APP_ID,
    CREATED_AT,
    STORE,
    UPDATED_AT,
    EventExample,
    Events,
    Resource,
    Responses,
    one,
    page,
    timestamps,
    tombstone,
)
from stoa.rest.body import convert
from stoa.rest.metadata_types import SHARED

CUSTOMER_ID, ADDRESS_ID = 77, 301
PATH_PARAMETERS = {"customer_id": CUSTOMER_ID, "address_id": ADDRESS_ID + 1}


def resources() -> dict[str, Resource]:
    customer = _created()
    return {
        "Customer": _customer(customer),
        "Address": customer.fields["addresses"][0],
        "MetadataEntry": _entries(customer)[0],
    }


def responses() -> Responses:
    entries = _entries(_with_metadata())
    return {
        "update_customer": one(_customer(_changed(), version=2)),
        "create_customer_address": one(_with_workshop().fields["addresses"][1]),
        "update_customer_address": one(_with_changed_address().fields["addresses"][1]),
        "update_customer_metadata": page(*entries, limit=len(entries)),
    }


def events() -> Events:
    """The slice derives them: each change below yields the events that the same change yields in a store."""
    return {
        CustomerCreated.name: EventExample(CUSTOMER_ID, 1, _event_data(_created())),
        CustomerDeleted.name: tombstone(CUSTOMER_ID),
        CustomerErased.name: EventExample(CUSTOMER_ID, 2, {"id": CUSTOMER_ID}),
        **{
            each.kind.name: EventExample(CUSTOMER_ID, 2, _event_data(customer, version=2), each.changes)
            for customer in (_changed(), _with_workshop(), _with_metadata())
            for each in events_of(customer)
            if each.audience is None
        },
    }


# --- the customer in different states ------------------------------------------------------------------------------


def _created() -> CustomerCopy:
    sent = examples.NEW_CUSTOMER
    new = new_customer(convert(sent, NewCustomer, digits=STORE.digits), sent["metadata"], APP_ID)
    return _stored(_with_ids(new))


def _with_ids(customer: CustomerCopy) -> CustomerCopy:
    """The customer with the ids and times that storing it adds."""
    addresses: list[Resource] = customer.fields["addresses"]
    complete = [
        {**each, "id": ADDRESS_ID + index, "customer_id": CUSTOMER_ID, **timestamps(each["version"])}
        for index, each in enumerate(addresses)
    ]
    consents = {
        channel: {**each, "updated_at": each["updated_at"] or (CREATED_AT if each["state"] != NOT_SUBSCRIBED else None)}
        for channel, each in customer.fields["consents"].items()
    }
    fields = with_defaults({**customer.fields, "addresses": complete, "consents": consents})
    return msgspec.structs.replace(customer, id=CUSTOMER_ID, fields=fields)


def _stored(customer: CustomerCopy) -> CustomerCopy:
    return msgspec.structs.replace(customer, before=customer.fields, metadata_before=customer.metadata)


def _changed() -> CustomerCopy:
    patch = examples.CUSTOMER_CHANGES
    return change_customer(_created(), convert(patch, CustomerChanges, digits=STORE.digits), patch, APP_ID)


def _with_workshop() -> CustomerCopy:
    return _with_ids(add_address(_created(), convert(examples.NEW_ADDRESS, NewAddress, digits=STORE.digits)))


def _with_changed_address() -> CustomerCopy:
    customer, patch = _stored(_with_workshop()), examples.ADDRESS_CHANGES
    body = convert(patch, AddressChanges, digits=STORE.digits)
    return _with_ids(change_address(customer, customer.fields["addresses"][1], body, patch))


def _with_metadata() -> CustomerCopy:
    customer = _created()
    metadata, _ = merged(customer.metadata, examples.METADATA_CHANGES, APP_ID, "")
    return msgspec.structs.replace(customer, metadata=metadata)


# --- as callers see it ---------------------------------------------------------------------------------------------


def _customer(customer: CustomerCopy, version: int = 1) -> Resource:
    metadata = {each["key"]: each["value"] for each in _entries(customer)}
    totals: dict[str, Any] = {"orders_count": 0, "total_spent": "0.00", "last_order_at": None}
    times = {**timestamps(version), "deleted_at": None}
    return {"id": customer.id, **customer.fields, "metadata": metadata, **totals, **times}


def _event_data(customer: CustomerCopy, version: int = 1) -> Resource:
    """The customer in an event, which shows shared metadata only."""
    data = _customer(customer, version)
    return {**data, "metadata": {key: value for key, value in data["metadata"].items() if key.startswith(SHARED)}}


def _entries(customer: CustomerCopy) -> list[Resource]:
    changed = examples.METADATA_CHANGES
    owners = (None, APP_ID)  # shared keys first
    entries = {key: text for owner in owners for key, text in sorted(customer.metadata.get(owner, {}).items())}
    return [
        {
            "key": key,
            "value": (value := value_of(text)),
            "updated_at": UPDATED_AT if changed.get(key) == value else CREATED_AT,
            "updated_by": {"app_id": APP_ID},
        }
        for key, text in entries.items()
    ]
